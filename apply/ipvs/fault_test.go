package ipvs

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"svcc/apply"
	"svcc/emit"
	spec "svcc/emit/ipvs"
	"svcc/ir"
)

// Each step that a fault may end in: an old and a new state.
var moves = []struct {
	name     string
	from, to func() *emit.Ruleset
}{
	{"first", nil, func() *emit.Ruleset { return oldWorld().ruleset() }},
	{"change", func() *emit.Ruleset { return oldWorld().ruleset() }, func() *emit.Ruleset { return newerWorld().ruleset() }},
	{"remove", func() *emit.Ruleset { return oldWorld().ruleset() }, nil},
	{"from iptables", iptablesRuleset, func() *emit.Ruleset { return oldWorld().ruleset() }},
	{"swap", func() *emit.Ruleset { return manyWorld(0, 64).ruleset() }, func() *emit.Ruleset { return manyWorld(15, 32).ruleset() }},
	{"to iptables", func() *emit.Ruleset { return oldWorld().ruleset() }, iptablesRuleset},
}

func made(f func() *emit.Ruleset) *emit.Ruleset {
	if f == nil {
		return nil
	}
	return f()
}

// A write that fails, whichever it is, leaves what Restore brings back to
// exactly what was before; a second Restore writes nothing. Until then every
// virtual server can be told to be ours or not.
func TestFaults(t *testing.T) {
	for i := range 3 * len(moves) {
		m, kind := moves[i/3], []string{"not done", "done", "half done"}[i%3]
		t.Run(m.name+", "+kind, func(t *testing.T) {
			total := 0
			for at := 1; ; at++ {
				n := newNode()
				strangers(n)
				tg := target(n)
				bring(t, tg, made(m.from))
				before := n.dump()
				old, p := plans(t, tg, made(m.to))
				n.writes, n.failAt, n.late, n.half = nil, at, kind == "done", kind == "half done"
				err := tg.Commit(context.Background(), p)
				if err == nil {
					total = at - 1
					break
				}
				if !errors.Is(err, errInjected) {
					t.Fatalf("write %d: %v", at, err)
				}
				n.failAt = 0
				if wrong := unsound(n); wrong != "" {
					t.Fatalf("after write %d, %s: %s", at, n.writes[at-1], wrong)
				}
				restoredTo(t, tg, n, old, before, fmt.Sprintf("write %d, %s", at, n.writes[at-1]))
			}
			if total < 5 {
				t.Errorf("only %d writes: not much of a test", total)
			}
		})
	}
}

func restoredTo(t *testing.T, tg *Target, n *node, old apply.Observed, before, after string) {
	t.Helper()
	loaded, err := tg.Load(old.Marshal())
	if err != nil {
		t.Fatal(err)
	}
	if err := tg.Restore(context.Background(), loaded); err != nil {
		t.Fatalf("after %s: %v", after, err)
	}
	if diff := cmp.Diff(before, n.dump()); diff != "" {
		t.Fatalf("restored after %s (-want +got):\n%s", after, diff)
	}
	if now, err := tg.Observe(context.Background()); err != nil || !now.Equal(old) || !old.Equal(now) {
		t.Fatalf("restored after %s, it is not equal (%v)", after, err)
	}
	n.writes = nil
	if err := tg.Restore(context.Background(), loaded); err != nil || len(n.writes) > 0 {
		t.Fatalf("a second time it wrote %q, %v", n.writes, err)
	}
}

// unsound says what is wrong with a node at any moment: a virtual server that
// is not ours by any proof, or without rules that masquerade; an address that
// the rules do not know to be a service's.
func unsound(n *node) string {
	o, err := target(n).observe(context.Background())
	if err != nil {
		return err.Error()
	}
	if len(o.foreign) != 2 {
		return fmt.Sprintf("%d virtual servers are not told to be ours, want 2", len(o.foreign))
	}
	for i, f := range ir.Families {
		s := &o.state.Families[i]
		if len(s.Servers) > 0 && !strings.Contains(n.tables.Save(f, "nat"), ":KUBE-POSTROUTING") {
			return fmt.Sprintf("%s: virtual servers without rules", f)
		}
		for _, a := range s.Addresses {
			if !slices.Contains(s.set(spec.SetName(f, "KUBE-IPVS-IPS")).Entries, a.String()) {
				return fmt.Sprintf("the node bears %s, and KUBE-IPVS-IPS lacks it", a)
			}
		}
	}
	return ""
}

// After each write, of a run and of its undoing, things are in order.
func TestEveryMoment(t *testing.T) {
	for _, m := range moves {
		n := newNode()
		strangers(n)
		n.after = func(what string) {
			if wrong := unsound(n); wrong != "" {
				t.Errorf("%s, after %s: %s", m.name, what, wrong)
			}
		}
		tg := target(n)
		bring(t, tg, made(m.from))
		old, p := plans(t, tg, made(m.to))
		if err := tg.Commit(context.Background(), p); err != nil {
			t.Fatal(err)
		}
		if err := tg.Restore(context.Background(), old); err != nil {
			t.Fatal(err)
		}
	}
}

// From iptables mode, and back, each Service is served by the one or by the
// other at any moment.
func TestModesWithoutGap(t *testing.T) {
	n := newNode()
	tg := target(n)
	bring(t, tg, iptablesRuleset())
	k := spec.Key{Protocol: ir.TCP, Address: netip.MustParseAddrPort("10.96.0.1:80")}
	n.after = func(what string) {
		byRules := strings.Contains(n.tables.Save(ir.IPv4, "nat"), "-j DNAT")
		s := n.servers[k]
		if !byRules && (s == nil || len(s.Destinations) == 0) {
			t.Errorf("after %s nothing serves", what)
		}
	}
	bring(t, tg, newWorld().cluster("tcp 10.96.0.1:80 rr", "10.0.0.1:8080").ruleset())
	bring(t, tg, iptablesRuleset())
}

// Wherever a run is killed, the next one gets to the end.
func TestKilled(t *testing.T) {
	for _, m := range moves {
		for at := 1; ; at++ {
			n := newNode()
			strangers(n)
			tg := target(n)
			bring(t, tg, made(m.from))
			_, p := plans(t, tg, made(m.to))
			n.writes, n.failAt, n.half = nil, at, at%2 == 1
			if tg.Commit(context.Background(), p) == nil {
				break
			}
			n.failAt = 0
			bring(t, target(n), made(m.to))
			bring(t, target(n), nil)
			if len(n.servers) != 2 || len(n.sets) != 1 || n.link {
				t.Fatalf("%s, killed at %d, completed and removed: left is\n%s", m.name, at, n.dump())
			}
		}
	}
}
