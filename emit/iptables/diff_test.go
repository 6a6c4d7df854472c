package iptables_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"svcc/ir"
	"svcc/ir/irtest"
)

// linesOf counts each line with its table.
func linesOf(text string) map[string]int {
	lines, table := map[string]int{}, ""
	for line := range strings.Lines(text) {
		if line[0] == '*' {
			table = line
		}
		lines[table+line]++
	}
	return lines
}

// changed lists the lines that one text has and the other has not.
func changed(a, b string) (out []string) {
	count := linesOf(a)
	for l, n := range linesOf(b) {
		count[l] -= n
	}
	for l, n := range count {
		for range max(n, -n) {
			out = append(out, l)
		}
	}
	return out
}

// without is a Program less one service port.
func without(p *ir.Program, i int) *ir.Program {
	q := *p
	q.Services = slices.Delete(slices.Clone(p.Services), i, i+1)
	return &q
}

// fewer is a Program whose service port i has lost its first endpoint.
func fewer(p *ir.Program, i int) *ir.Program {
	q, s := *p, *p.Services[i]
	gone := s.Reachable()[0]
	left := func(list []ir.Endpoint) []ir.Endpoint {
		return slices.DeleteFunc(slices.Clone(list), func(e ir.Endpoint) bool { return e == gone })
	}
	s.Cluster, s.Local = left(s.Cluster), left(s.Local)
	q.Services = slices.Clone(p.Services)
	q.Services[i] = &s
	return &q
}

// handful is how many lines a change of one service port may cost. Its own
// chains have a rule or two for each endpoint, a line for the chain and one to
// it for each split, and two rules for each source range. Each frontend stands in
// a tree of nat and one or two of filter: there a leaf's four destinations of
// two rules move down into chains of their own, or a chain's eight branches
// move into one that is put in between. Others that lead to the same endpoints
// may be led to another's chain.
func handful(p *ir.Program, i int) int {
	s, n := p.Services[i], 0
	for _, o := range p.Services {
		if o != s && len(s.Reachable()) > 0 && (slices.Equal(o.Cluster, s.Cluster) || slices.Equal(o.Local, s.Local)) {
			n += 4 * len(o.Frontends)
		}
	}
	return n + 20 + 6*len(s.Reachable()) + 4*len(s.AllowedSources()) + 30*len(s.Frontends)
}

// At level 1 a service port, or an endpoint, that comes or goes changes few
// lines, whatever else there is.
func TestSmallDifferences(t *testing.T) {
	for seed := range uint64(16) {
		r := dice(seed)
		p := irtest.Plain(r, ir.Families[seed%2], []int{50, 200, 500, 2000}[seed/4])
		text := level(t, p, 1)
		for range 3 {
			i := r.IntN(len(p.Services))
			few := handful(p, i)
			if d := changed(text, level(t, without(p, i), 1)); len(d) > few || len(d) == 0 {
				t.Errorf("without %s %d lines change, more than %d: %q", p.Services[i].PortName, len(d), few, d)
			}
			if s := p.Services[i]; len(s.Cluster) > 1 {
				few -= 20 * len(s.Frontends)
				if d := changed(text, level(t, fewer(p, i), 1)); len(d) > few || len(d) == 0 {
					t.Errorf("with an endpoint less %s changes %d lines, more than %d: %q", s.PortName, len(d), few, d)
				}
			}
		}
	}
}

// The first service outside the range that all others lie in is no exception:
// the borders at which trees split stay where they are.
func TestSmallDifferencesAtBorders(t *testing.T) {
	for _, f := range ir.Families {
		p := irtest.Shop()
		shop := *p.Services[0]
		p.Family, p.Services, p.Options = f, nil, ir.Options{MasqueradeMark: 1}
		for i := range 1025 {
			s := shop
			s.Name, s.SourceRanges, s.NodeAllowed, s.HealthCheckNodePort, s.Local, s.Serving = fmt.Sprintf("s%04d", i), nil, false, 0, nil, nil
			s.Frontends = []ir.Frontend{{Kind: ir.ClusterIP, Addr: irtest.Addr(f, 96, i), Port: 80}}
			s.Cluster = []ir.Endpoint{{Addr: irtest.Addr(f, 200, i), Port: 80}}
			p.Services = append(p.Services, &s)
		}
		for n := 1; n <= 1024; n *= 2 {
			q := *p
			q.Services = p.Services[:n]
			before := level(t, &q, 1)
			q.Services = p.Services[:n+1]
			if d := changed(before, level(t, &q, 1)); len(d) > handful(&q, n) {
				t.Errorf("%s: the next after %d changes %d lines: %q", f, n, len(d), d)
			}
		}
	}
}

// Where addresses are so skewed that trees are divided by number, or external
// addresses lie among ClusterIPs, a change may move more; it seldom does.
func TestDifferencesOfSkewedClusters(t *testing.T) {
	small, n := 0, 60
	for seed := range uint64(n) {
		r := dice(seed)
		p := irtest.Cluster(r, ir.Families[seed%2], 50+r.IntN(300))
		i := r.IntN(len(p.Services))
		if len(changed(level(t, p, 1), level(t, without(p, i), 1))) <= handful(p, i) {
			small++
		}
	}
	if small < n*8/10 {
		t.Errorf("of %d changes only %d are small", n, small)
	}
}

// The text does not depend on the order in which services and endpoints come.
func TestOrderOfInput(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawCluster(t, 0, 100)
		var want []string
		for l := range 3 {
			want = append(want, level(t, p, l))
		}
		r := dice(rapid.Uint64().Draw(t, "order"))
		shuffle := func(list []ir.Endpoint) []ir.Endpoint {
			list = slices.Clone(list)
			r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
			return list
		}
		for _, s := range p.Services {
			s.Cluster, s.Local = shuffle(s.Cluster), shuffle(s.Local)
		}
		r.Shuffle(len(p.Services), func(i, j int) { p.Services[i], p.Services[j] = p.Services[j], p.Services[i] })
		for l := range 3 {
			if got := level(t, p, l); got != want[l] {
				t.Errorf("level %d: the text differs in %q", l, changed(got, want[l]))
			}
		}
	})
}
