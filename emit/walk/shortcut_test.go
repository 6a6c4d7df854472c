package walk_test

import (
	"testing"

	"svcc/compiler/passes"
	"svcc/emit"
	"svcc/emit/iptables"
	"svcc/ir/eval"
	"svcc/ir/irtest"
)

// TestShortcuts sends every packet thrice: as Trace, which begins at the hook,
// as Walk, which begins where the packet before came to, and as WalkTo, which
// gives a part of the same.
func TestShortcuts(t *testing.T) {
	for level := range 3 {
		p := irtest.Shop()
		g, err := passes.Graph(p, level)
		if err != nil {
			t.Fatal(err)
		}
		sections, err := iptables.Backend{}.Emit(g, emit.Options{Level: level, Hooks: true})
		if err != nil {
			t.Fatal(err)
		}
		w, err := iptables.Backend{}.Parse(p.Family, sections, true)
		if err != nil {
			t.Fatal(err)
		}
		parts := 0
		for x := range irtest.Probes(p) {
			want, _, err := w.Trace(x.Packet, x.Host)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := w.Walk(x.Packet, x.Host); err != nil || !got.Equal(want) {
				t.Fatalf("O%d %s\nwalk:  %s%v\ntrace: %s", level, x, got, err, want)
			}
			for _, b := range want {
				if !b.DNAT {
					continue
				}
				parts++
				got, err := w.WalkTo(nil, x.Packet, x.Host, b.To)
				if err != nil || !got.Equal(only(want, b)) {
					t.Fatalf("O%d %s\nto %s: %s%v\nof all: %s", level, x, b.To, got, err, want)
				}
			}
		}
		if parts < 100 {
			t.Errorf("O%d: only %d parts", level, parts)
		}
	}
}

// only is an outcome without what DNAT sends elsewhere than b.
func only(o eval.Outcome, b eval.Branch) (out eval.Outcome) {
	for _, x := range o {
		if !x.DNAT || x.To == b.To {
			out = append(out, x)
		}
	}
	return out
}
