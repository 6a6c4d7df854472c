package ipvs_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"svcc/compiler/passes"
	"svcc/emit"
	"svcc/emit/ipvs"
	"svcc/ir"
	"svcc/ir/irtest"
)

func dice(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

// sections are what a Program becomes at a level.
func sections(t rapid.TB, p *ir.Program, level int) []emit.Section {
	t.Helper()
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	g, err := passes.Graph(p, level)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ipvs.Backend{}.Emit(g, emit.Options{Level: level, Hooks: true})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// means holds sections to what a Program means.
func means(t rapid.TB, p *ir.Program, s []emit.Section) {
	t.Helper()
	w, err := ipvs.Backend{}.Parse(p.Family, s, true)
	if err != nil {
		t.Fatal(err)
	}
	if x, how := irtest.Difference(p, w.Walk); how != "" {
		_, hops, _ := w.Trace(x.Packet, x.Host)
		t.Fatalf("%sby %v", how, hops)
	}
}

// Every level means the Program, whatever meets.
func TestLevelsMeanTheProgram(t *testing.T) {
	for l := 0; l <= 2; l++ {
		t.Run(fmt.Sprintf("O%d", l), func(t *testing.T) {
			t.Run("meeting", rapid.MakeCheck(func(t *rapid.T) {
				p := irtest.Virtual(dice(rapid.Uint64().Draw(t, "virtual")), irtest.Programs().Draw(t, "program"))
				means(t, p, sections(t, p, l))
			}))
			t.Run("large", rapid.MakeCheck(func(t *rapid.T) {
				r := dice(rapid.Uint64().Draw(t, "seed"))
				p := irtest.Virtual(r, irtest.Cluster(r, rapid.SampledFrom(ir.Families).Draw(t, "family"), rapid.IntRange(0, 80).Draw(t, "services")))
				means(t, p, sections(t, p, l))
			}))
		})
	}
}

// What is printed is read again, to the byte.
func TestSectionsAreReadBack(t *testing.T) {
	for seed := range uint64(20) {
		r := dice(seed)
		p := irtest.Virtual(r, irtest.Cluster(r, ir.Families[seed%2], 40))
		s := sections(t, p, int(seed%3))
		state, err := ipvs.ReadState(p.Family, s)
		if err != nil {
			t.Fatal(err)
		}
		if again := state.Sections(); !slices.EqualFunc(s, again, func(a, b emit.Section) bool {
			return a.Tool == b.Tool && a.Family == b.Family && string(a.Text) == string(b.Text)
		}) {
			t.Errorf("seed %d: not what was read", seed)
		}
	}
}

// Sets are known for svcc's in either family, and kube-proxy's are not.
func TestOurs(t *testing.T) {
	for _, f := range ir.Families {
		r := dice(1)
		for _, s := range sections(t, irtest.Virtual(r, irtest.Cluster(r, f, 10)), 1) {
			if s.Tool == ipvs.ToolSets && !ipvs.Ours(s.Text) {
				t.Errorf("the sets of %s are taken for kube-proxy's", f)
			}
		}
	}
	if ipvs.Ours([]byte("create KUBE-CLUSTER-IP hash:ip,port family inet hashsize 1024 maxelem 65536\n")) {
		t.Error("kube-proxy's sets are taken for svcc's")
	}
}
