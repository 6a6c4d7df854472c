package iptables_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"svcc/compiler/passes"
	"svcc/emit"
	"svcc/emit/iptables"
	"svcc/ir"
	"svcc/ir/irtest"
)

// level makes the text of a Program at a level, without the passes turned off.
func level(t rapid.TB, p *ir.Program, level int, off ...string) string {
	t.Helper()
	g, err := passes.Graph(p, level, off...)
	if err != nil {
		t.Fatal(err)
	}
	s, err := iptables.Backend{}.Emit(g, emit.Options{Level: level, Hooks: true})
	if err != nil || len(s) != 1 {
		t.Fatalf("%d sections, %v", len(s), err)
	}
	return string(s[0].Text)
}

func walkerOf(t rapid.TB, f ir.Family, text string) emit.Walker {
	t.Helper()
	w, err := iptables.Backend{}.Parse(f, []emit.Section{{Tool: iptables.Tool, Family: f, Text: []byte(text)}}, true)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// means holds a text to what a Program means.
func means(t rapid.TB, p *ir.Program, text string) {
	t.Helper()
	w := walkerOf(t, p.Family, text)
	if x, how := irtest.Difference(p, w.Walk); how != "" {
		_, hops, _ := w.Trace(x.Packet, x.Host)
		t.Fatalf("%sby %v", how, hops)
	}
}

func dice(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

// drawCluster makes a cluster of a size that rapid finds out.
func drawCluster(t *rapid.T, least, most int) *ir.Program {
	f := rapid.SampledFrom(ir.Families).Draw(t, "family")
	n := rapid.IntRange(least, most).Draw(t, "services")
	return irtest.Cluster(dice(rapid.Uint64().Draw(t, "seed")), f, n)
}

// Every level means the Program, so all mean the same.
func TestLevelsMeanTheProgram(t *testing.T) {
	for l := 0; l <= 2; l++ {
		t.Run(fmt.Sprintf("O%d", l), func(t *testing.T) {
			t.Run("meeting", rapid.MakeCheck(func(t *rapid.T) {
				p := irtest.Programs().Draw(t, "program")
				means(t, p, level(t, p, l))
			}))
			t.Run("large", rapid.MakeCheck(func(t *rapid.T) {
				p := drawCluster(t, 0, 120)
				means(t, p, level(t, p, l))
			}))
		})
	}
}

// Each pass that can be turned off may be missing: the text means the same.
func TestPassesMayBeOff(t *testing.T) {
	for _, row := range passes.Table {
		if row.Required || row.Level == 0 {
			continue
		}
		t.Run(row.Name, func(t *testing.T) {
			for seed := range uint64(12) {
				p := irtest.Cluster(dice(seed), ir.Families[seed%2], 40)
				means(t, p, level(t, p, 1+int(seed/2%2), row.Name))
			}
		})
	}
	t.Run("all", func(t *testing.T) {
		var off []string
		for _, row := range passes.Table {
			if !row.Required {
				off = append(off, row.Name)
			}
		}
		for seed := range uint64(12) {
			p := irtest.Cluster(dice(seed), ir.Families[seed%2], 40)
			means(t, p, level(t, p, 1+int(seed/2%2), off...))
		}
	})
}

// Large services mean the same at every level, with memory and without.
func TestManyEndpointsAtLevels(t *testing.T) {
	for l := range 3 {
		for _, n := range []int{217, 1000} {
			p := manyEndpoints(n, n%2*60)
			p.Services = p.Services[:20]
			means(t, p, level(t, p, l))
		}
	}
}
