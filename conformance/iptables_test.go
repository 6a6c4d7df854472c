package conformance

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"svcc/compiler"
	"svcc/emit/mode"
	"svcc/ir"
)

// TestIPTables holds the text of -O0 to what kube-proxy writes for the same
// cluster: chains, rules, their order within each chain, jumps from the built-in
// chains.
func TestIPTables(t *testing.T) {
	eachWorld(t, mode.IPTables, func(t *testing.T, w *world, u compiler.Unit) []difference {
		return compare(w.reference(t, u.Family), readRules(u.Sections[0].Text))
	})
}

// reference is what kube-proxy writes, its jumps from built-in chains among it.
func (w *world) reference(t *testing.T, f ir.Family) rules {
	t.Helper()
	k := w.iptables(t, f)
	r := readRules(k.restored)
	for _, line := range k.jumps {
		table, rule, _ := strings.Cut(line, " ")
		r.add(table, rule)
	}
	if firewall := ":filter KUBE-FIREWALL"; !slices.Contains(r.chains, firewall) {
		r.chains = append(r.chains, firewall) // made by a command of its own
	}
	return r
}

// eachWorld compiles random clusters in a mode, and holds what differs from
// kube-proxy's to the list of deviations.
func eachWorld(t *testing.T, m *mode.Mode, differ func(*testing.T, *world, compiler.Unit) []difference) {
	eachSeed(t, func(t *testing.T, seed uint64) {
		seen, compiled := tally{}, 0
		for n := range clustersPerSeed {
			w := newWorld(seed, n)
			r := w.compile(t, m)
			compiled += min(len(r.Units), 1)
			for _, u := range r.Units {
				where := fmt.Sprintf("cluster %d of seed %d, %s", n, seed, u.Family)
				seen.judge(t, where, situation{w, u, differ(t, w, u)}, m)
			}
			if t.Failed() {
				t.Fatalf("the first cluster that differs is this; the rest is not tried\n%+v\n%s", w.choices, w.manifests(t))
			}
		}
		t.Logf("%d clusters of %d; deviations %v", compiled, clustersPerSeed, seen)
		did("%d clusters in %s mode", compiled, m)
		if compiled < clustersPerSeed*8/10 {
			t.Errorf("only %d of %d clusters are compiled", compiled, clustersPerSeed)
		}
		if seed == fixedSeed && *onlySeed == 0 {
			seen.complete(t, m)
		}
	})
}
