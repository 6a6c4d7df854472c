package iptables

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"svcc/apply"
	"svcc/apply/sums"
	"svcc/emit"
	"svcc/golden/lab"
	"svcc/ir"
)

// Read, Changed and Policies implement Kernel in the namespace.
func (n *namespace) Read(f ir.Family, table string, nft bool) (out sums.Table, err error) {
	n.Do(func() { out, err = sums.Kernel{}.Read(f, table, nft) })
	return out, err
}

func (n *namespace) Changed(f ir.Family, table string, nft bool, since sums.Table) (out bool, err error) {
	n.Do(func() { out, err = sums.Kernel{}.Changed(f, table, nft, since) })
	return out, err
}

func (n *namespace) Policies(f ir.Family, table string) (out []sums.Policy, err error) {
	n.Do(func() { out, err = sums.Kernel{}.Policies(f, table) })
	return out, err
}

func (n *namespace) Chains(f ir.Family, table string, nft bool) (out []string, err error) {
	n.Do(func() { out, err = sums.Kernel{}.Chains(f, table, nft) })
	return out, err
}

func (n *namespace) Used(f ir.Family, table string, nft bool) (out bool, err error) {
	n.Do(func() { out, err = sums.Kernel{}.Used(f, table, nft) })
	return out, err
}

func (n *namespace) Sets(names []string) (out []uint16, err error) {
	n.Do(func() { out, err = sums.Kernel{}.Sets(names) })
	return out, err
}

// told is all that was read, chains in order of name: the tool and the kernel
// have orders of their own.
func told(o *observed) string {
	var b strings.Builder
	for i, f := range ir.Families {
		for _, name := range tables {
			t := o.families[i].tables[name]
			fmt.Fprintf(&b, "%s %s canary %v %+v\n", f, name, t.canary, t.builtin)
			chains := slices.Clone(t.chains)
			slices.SortFunc(chains, func(x, y chain) int { return strings.Compare(x.name, y.name) })
			for _, c := range chains {
				fmt.Fprintf(&b, "%s %v %d\n%s\n", c.name, c.pinned, c.foreign, strings.Join(t.rulesOf(&c), "\n"))
			}
		}
	}
	return b.String()
}

// edits are what somebody else may do to the rules of a family, in any order;
// some fail then, and change nothing.
var edits = []string{
	"-t nat -A KUBE-SERVICES -p udp -j RETURN",
	"-t nat -D KUBE-SERVICES -p udp -j RETURN",
	"-t nat -I KUBE-POSTROUTING -j RETURN",
	"-t nat -F KUBE-SERVICES",
	"-t nat -N KUBE-SVC-STRANGE",
	"-t nat -A KUBE-SVC-STRANGE -j KUBE-MARK-MASQ",
	"-t nat -F KUBE-SVC-STRANGE",
	"-t nat -X KUBE-SVC-STRANGE",
	"-t nat -A MINE -j KUBE-SVC-STRANGE",
	"-t nat -A MINE -j KUBE-MARK-MASQ",
	"-t nat -F MINE",
	"-t nat -I PREROUTING -j ACCEPT",
	"-t nat -D PREROUTING -j ACCEPT",
	"-t nat -A PREROUTING -j KUBE-SVC-STRANGE",
	"-t nat -D PREROUTING -j KUBE-SVC-STRANGE",
	"-t nat -D OUTPUT -m comment --comment {kubernetes service portals} -j KUBE-SERVICES",
	"-t filter -A KUBE-FIREWALL -s 192.0.2.1 -j DROP",
	"-t filter -A KUBE-FIREWALL -p tcp -j DROP",
	"-t filter -A KUBE-FIREWALL -j KUBE-FORWARD",
	"-t filter -F KUBE-FIREWALL",
	"-t filter -P FORWARD DROP",
	"-t filter -N KUBE-KUBELET-CANARY",
	"-t filter -N OTHER",
	"-t filter -A OTHER -j KUBE-FORWARD",
	"-t filter -X OTHER",
}

// edit runs one; words in braces are one word.
func (n *namespace) edit(target *Target, f ir.Family, line string) {
	var args []string
	for i, part := range strings.FieldsFunc(line, func(r rune) bool { return r == '{' || r == '}' }) {
		if i == 1 {
			args = append(args, part)
			continue
		}
		args = append(args, strings.Fields(part)...)
	}
	_, _ = n.Run(context.Background(), apply.Input{Tool: target.tool(f, ""), Args: args})
}

// What is read with the help of what was seen, by this process or one before,
// is what the tool alone reads, whatever others do meanwhile.
func TestKernelReadWithWhatWasSeen(t *testing.T) {
	flavours(t, func(t *testing.T, n *namespace, target *Target) {
		for _, f := range ir.Families {
			n.loadKernel(t, target, f, "*nat\n:MINE - [0:0]\n-A PREROUTING -j MINE\nCOMMIT\n")
		}
		settle(t, target, worked(t))
		r := rand.New(rand.NewPCG(1, 2))
		var seen []byte
		many := 25
		if lab.All() {
			many = 80
		}
		for i := range many {
			line, f := edits[r.IntN(len(edits))], ir.Families[r.IntN(2)]
			if i > 0 { // the first time nothing was done since
				n.edit(target, f, line)
			}
			now := &Target{Runner: n, Command: target.Command, Kernel: n}
			if seen != nil {
				if err := now.Recall(seen); err != nil {
					t.Fatal(err)
				}
			}
			got, want := mustObserve(t, now), mustObserve(t, &Target{Runner: n, Command: target.Command})
			if diff := cmp.Diff(strings.Split(told(want), "\n"), strings.Split(told(got), "\n")); diff != "" {
				t.Fatalf("after %d edits, the last of %s %q, the tool alone says (-):\n%s", i, f, line, diff)
			}
			seen = now.Seen()
		}
	})
}

func mustObserve(t *testing.T, target *Target) *observed {
	t.Helper()
	o, err := target.Observe(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return o.(*observed)
}

// A reading of what has not changed runs no tool but to ask its version; after a
// change of one chain, iptables-nft's tool is asked for that chain.
func TestKernelReadsOnlyWhatChanged(t *testing.T) {
	flavours(t, func(t *testing.T, n *namespace, target *Target) {
		settle(t, target, worked(t))
		first := &Target{Runner: n, Command: target.Command, Kernel: n}
		mustObserve(t, first)
		second := &Target{Runner: n, Command: target.Command, Kernel: n}
		if err := second.Recall(first.Seen()); err != nil {
			t.Fatal(err)
		}
		if got := n.since(func() { mustObserve(t, second) }); len(got) != 2 {
			t.Errorf("tools were run besides their versions: %q", got)
		}
		n.edit(target, ir.IPv4, "-t nat -A KUBE-SERVICES -p udp -j RETURN")
		want := "iptables-legacy-save -t nat"
		if second.version.NFT {
			want = "iptables-nft -t nat -S KUBE-SERVICES"
		}
		if got := n.since(func() { mustObserve(t, second) }); len(got) != 1 || got[0] != want {
			t.Errorf("after a change ran %q, want %q", got, want)
		}
	})
}

// What agrees with a ruleset is kept in its words.
func TestKernelSeenInTheRulesetsWords(t *testing.T) {
	flavours(t, func(t *testing.T, n *namespace, target *Target) {
		rs := worked(t)
		settle(t, target, rs)
		p, err := target.Plan(rs, mustObserve(t, target))
		if err != nil || !p.Empty() {
			t.Fatalf("%v, empty %v", err, p.Empty())
		}
		again := &Target{Runner: n, Command: target.Command, Kernel: n}
		if err := again.Recall(target.Seen()); err != nil {
			t.Fatal(err)
		}
		want, err := wanted(rs)
		if err != nil {
			t.Fatal(err)
		}
		have := mustObserve(t, again).families[0].tables["nat"]
		for _, w := range want[ir.IPv4]["nat"].chains {
			h := have.chain(w.name)
			if h == nil || !slices.Equal(have.rulesOf(h), want[ir.IPv4]["nat"].rulesOf(&w)) {
				t.Errorf("chain %s is kept in other words", w.name)
			}
		}
	})
}

// since gives the commands that f runs.
func (n *namespace) since(f func()) []string {
	before := len(n.runs)
	f()
	var out []string
	for _, in := range n.runs[before:] {
		out = append(out, in.Tool+" "+strings.Join(in.Args, " "))
	}
	return out
}

func settle(t *testing.T, target *Target, rs *emit.Ruleset) {
	t.Helper()
	p, err := target.Plan(rs, mustObserve(t, target))
	if err == nil {
		err = target.Commit(context.Background(), p)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A file that was cut off, edited or is none is of no use.
func TestRecallRefuses(t *testing.T) {
	o, err := loadObserved(observedHead + "\nfamily ipv4 \"\"\ntable nat false\nchain KUBE-SERVICES false 0\nend\n")
	if err != nil {
		t.Fatal(err)
	}
	saw := &Target{}
	saw.sawTable(tableKey{ir.IPv4, "nat"}, sums.Table{All: sums.Sum{1}, Chains: []sums.Chain{{Name: "KUBE-SERVICES"}}}, o.families[0].tables["nat"], map[string]uint16{"KUBE-CLUSTER-IP": 7})
	good := saw.Seen()
	target := &Target{}
	if err := target.Recall(good); err != nil || len(target.seen) != 1 {
		t.Fatalf("%v, %d tables seen", err, len(target.seen))
	}
	if got := target.seen[tableKey{ir.IPv4, "nat"}].sets["KUBE-CLUSTER-IP"]; got != 7 {
		t.Errorf("the set's number is %d, want 7", got)
	}
	for _, bad := range [][]byte{nil, []byte("x\n"), good[:len(good)-5], bytes.Replace(good, []byte("KUBE-SERVICES"), []byte("KUBE-SERVICEX"), 1)} {
		target := &Target{}
		if err := target.Recall(bad); err == nil || target.seen != nil {
			t.Errorf("%q was recalled", bad)
		}
	}
}
