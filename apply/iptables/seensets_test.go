package iptables

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"svcc/apply"
	"svcc/golden/lab"
	"svcc/ir"
)

func TestSetNames(t *testing.T) {
	for line, want := range map[string]string{
		"-A X -m set --match-set KUBE-CLUSTER-IP dst,dst -j Y":                                "KUBE-CLUSTER-IP",
		"-A X -m set ! --match-set A src -m set --match-set B dst -j SET --add-set C src,dst": "A,B,C",
		"-A X -m recent --set --name KUBE-SEP-A --rsource":                                    "",
		"-A X -j RETURN": "",
	} {
		if got := strings.Join(setNames(line), ","); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

// Sets that are made anew in another order trade numbers, so that rules that ask
// the one have the bytes of rules that asked the other. They are read anew.
func TestKernelSeenRulesAskSets(t *testing.T) {
	lab.Need(t, lab.Tools("ipset"))
	flavours(t, func(t *testing.T, n *namespace, target *Target) {
		sets := func(names ...string) {
			for _, name := range names {
				n.must(t, "ipset", "create", name, "hash:ip")
			}
		}
		rule := func(set string) string {
			return "*nat\n:KUBE-SERVICES - [0:0]\n-A KUBE-SERVICES -m set --match-set " + set + " dst -j ACCEPT\nCOMMIT\n"
		}
		sets("A", "B")
		n.loadKernel(t, target, ir.IPv4, rule("A"))
		mustObserve(t, target)
		again := &Target{Runner: n, Command: target.Command, Kernel: n}
		if err := again.Recall(target.Seen()); err != nil {
			t.Fatal(err)
		}
		if got := n.since(func() { mustObserve(t, again) }); slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, "nat") }) {
			t.Errorf("nothing changed, and these were run: %q", got)
		}
		n.loadKernel(t, target, ir.IPv4, "*nat\n:KUBE-SERVICES - [0:0]\nCOMMIT\n")
		n.must(t, "ipset", "destroy")
		sets("B", "A")
		n.loadKernel(t, target, ir.IPv4, rule("B"))
		for name, reader := range map[string]*Target{"the same process": target, "another": again} {
			rules := mustObserve(t, reader).families[0].tables["nat"].rules
			if len(rules) != 1 || !strings.Contains(rules[0], "--match-set B dst") {
				t.Errorf("%s reads %q", name, rules)
			}
		}
	})
}

// must runs a tool until it works: iptables-nft lets go of sets only after a
// while.
func (n *namespace) must(t *testing.T, tool string, args ...string) {
	t.Helper()
	var err error
	for range 200 {
		if _, err = n.Run(context.Background(), apply.Input{Tool: tool, Args: args}); err == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal(err)
}
