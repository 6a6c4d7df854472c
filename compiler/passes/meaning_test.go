package passes_test

import (
	"errors"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"svcc/compiler/lower"
	"svcc/compiler/passes"
	"svcc/ir"
	"svcc/ir/eval"
	"svcc/ir/irtest"
)

// same holds a Graph to the Program for every probe.
func same(p *ir.Program, g *ir.Graph) error {
	if _, how := irtest.Difference(p, eval.NewGraph(g).Outcome); how != "" {
		return errors.New(how)
	}
	return nil
}

// No pass changes an outcome or breaks a Graph, whatever ran before.
func TestPassesKeepTheMeaning(t *testing.T) {
	after := func(_ string, p *ir.Program, g *ir.Graph) error {
		if g == nil {
			return p.Check()
		}
		if err := g.Check(); err != nil {
			return err
		}
		return same(p, g)
	}
	check := func(t *rapid.T, p *ir.Program) {
		var off []string
		for _, row := range passes.Table {
			if !row.Required && rapid.IntRange(0, 3).Draw(t, row.Name) == 0 {
				off = append(off, row.Name)
			}
		}
		rows, err := passes.Select(passes.Table, 2, off)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := passes.Run(rows, p, after); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("meeting", rapid.MakeCheck(func(t *rapid.T) { check(t, irtest.Programs().Draw(t, "program")) }))
	t.Run("large", rapid.MakeCheck(func(t *rapid.T) {
		f := rapid.SampledFrom(ir.Families).Draw(t, "family")
		n, seed := rapid.IntRange(0, 30).Draw(t, "services"), rapid.Uint64().Draw(t, "seed")
		check(t, irtest.Cluster(rand.New(rand.NewPCG(seed, 0)), f, n))
	}))
}

// The comparison can fail: a pass that leaves something out is seen.
func TestMeaningFaults(t *testing.T) {
	for name, damage := range map[string]func(g *ir.Graph){
		"a port is open no more": func(g *ir.Graph) { g.OpenPorts = nil },
		"an entry is missing":    func(g *ir.Graph) { g.Entries = g.Entries[1:] },
		"pods are masqueraded":   func(g *ir.Graph) { g.Entries[0].Next = g.Entries[0].Next.(*ir.Guard).Else },
		"everybody may come":     func(g *ir.Graph) { g.Entries[1].Next = g.Entries[1].Next.(*ir.Guard).Then },
		"a range masquerades":    func(g *ir.Graph) { g.Masquerades = []ir.MasqueradeTo{{Prefix: prefix("203.0.113.0/24")}} },
	} {
		p := irtest.Shop()
		g := lower.Lower(p)
		if err := same(p, g); err != nil {
			t.Fatal(err)
		}
		if damage(g); same(p, g) == nil {
			t.Errorf("%s: not seen", name)
		}
	}
}
