package iptables

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"svcc/apply/fake"
	"svcc/emit"
	"svcc/ir"
)

// TestRestore writes, fails at each table of each call in turn, and goes back,
// by another Target that has only bytes.
func TestRestore(t *testing.T) {
	starts := map[string]*emit.Ruleset{
		"nothing": nil,
		"another": worked(t, "10.244.2.7:8080", "10.244.2.99:8080", "KUBE-SEP-JPICTQTYOLMYNIJ7", "KUBE-SEP-BBBBBBBBBBBBBBBB"),
		"IPv4":    oneFamily(worked(t), ir.IPv4),
	}
	both(t, func(t *testing.T, base *fake.Kernel) {
		for name, start := range starts {
			for call := 1; call <= 6; call++ {
				for tables := -1; tables <= 1; tables++ {
					testRestore(t, fmt.Sprintf("%s, call %d, %d tables", name, call, tables), base.Clone(), start, call, tables)
				}
			}
		}
	})
}

func testRestore(t *testing.T, name string, k *fake.Kernel, start *emit.Ruleset, call, tables int) {
	t.Helper()
	ctx := context.Background()
	target := &Target{Runner: k}
	mustApply(t, target, start)
	// A hook that stands between foreign rules comes back to its place.
	if start != nil {
		load(t, k, ir.IPv4, "*filter\n-D INPUT -j KUBE-FIREWALL\n-I INPUT 4 -j KUBE-FIREWALL\nCOMMIT\n")
	}
	before := k.SaveAll()
	p, from := mustPlan(t, target, worked(t))
	call += len(k.Calls())
	k.Faults = map[int]fake.Fault{call: {Tables: tables}}
	if err := target.Commit(ctx, p); (err == nil) == (len(k.Calls()) >= call) {
		t.Errorf("%s: error %v", name, err)
	}
	k.Faults = nil
	other := &Target{Runner: k}
	to, err := other.Load(from.Marshal())
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if !to.Equal(from) || !from.Equal(to) {
		t.Errorf("%s: what was loaded differs from what was written", name)
	}
	if err := other.Restore(ctx, to); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if after := k.SaveAll(); withoutCounters(after) != withoutCounters(before) {
		t.Errorf("%s: before:\n%s\nafter:\n%s", name, before, after)
	}
	writes := k.Writes()
	if err := other.Restore(ctx, to); err != nil || k.Writes() != writes {
		t.Errorf("%s: a second time: %d tables written, %v", name, k.Writes()-writes, err)
	}
}

// withoutCounters drops the counters of rules; those of foreign ones are
// compared elsewhere.
func withoutCounters(dump string) string {
	var b strings.Builder
	for line := range strings.Lines(dump) {
		if _, rule, ok := strings.Cut(line, " -A "); ok && strings.Contains(line, "KUBE-") {
			line = "-A " + rule
		}
		b.WriteString(line)
	}
	return b.String()
}

func TestLoadRefusesWhatIsNotOurs(t *testing.T) {
	target := &Target{Runner: newFake(t, false)}
	mustApply(t, target, worked(t))
	o, _ := target.Observe(context.Background())
	good := string(o.Marshal())
	for _, edit := range [][2]string{
		{"chain KUBE-FORWARD", "chain DOCKER-USER"},
		{"-A KUBE-FORWARD ", "-A INPUT "},
		{"-j KUBE-FIREWALL\n", "-j ACCEPT\n"},
		{"end\n", ""},
		{"svcc iptables observed v1", "svcc iptables observed v9"},
		{"builtin INPUT", "builtin KUBE-X"},
		{"table nat", "table raw"},
		{"end\n", "table raw false\nend\n"},
		{"end\n", "table filter false\nend\n"}, // it is there already
	} {
		if !strings.Contains(good, edit[0]) {
			t.Fatalf("no %q in\n%.2000s", edit[0], good)
		}
		if _, err := target.Load([]byte(strings.ReplaceAll(good, edit[0], edit[1]))); err == nil {
			t.Errorf("%q for %q is taken", edit[1], edit[0])
		}
	}
	if strings.Contains(good, "DOCKER") || strings.Contains(good, "let me in") || strings.Contains(good, "cali") {
		t.Error("foreign rules are kept")
	}
}
