package passes_test

import (
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"svcc/compiler/passes"
	"svcc/ir"
)

// rangesOf runs the pass over one question.
func rangesOf(t rapid.TB, list []netip.Prefix) []netip.Prefix {
	t.Helper()
	q := sources(balance("a", "10.1.0.1:80"))
	q.If.Sources = list
	given := slices.Clone(list)
	g := &ir.Graph{Entries: []*ir.Entry{entry("a", "10.96.0.1:80", q)}}
	for _, p := range passes.Table {
		if p.Name == "ranges" {
			p.Graph(g)
		}
	}
	if !slices.Equal(list, given) {
		t.Error("the Program's own list has changed")
	}
	return g.Entries[0].Next.(*ir.Guard).If.Sources
}

func TestRanges(t *testing.T) {
	list := func(ps ...string) (out []netip.Prefix) {
		for _, p := range ps {
			out = append(out, prefix(p))
		}
		return out
	}
	for _, c := range []struct{ given, want []netip.Prefix }{
		{list("192.0.2.0/24"), list("192.0.2.0/24")},
		{list("192.0.2.0/24", "192.0.2.0/24"), list("192.0.2.0/24")},
		{list("192.0.2.128/25", "192.0.2.0/25"), list("192.0.2.0/24")},
		{list("192.0.1.0/24", "192.0.2.0/24"), list("192.0.1.0/24", "192.0.2.0/24")}, // neighbours, but no prefix
		{list("192.0.2.7/32", "192.0.2.0/24", "192.0.0.0/16"), list("192.0.0.0/16")},
		{list("198.51.100.0/24", "192.0.2.0/24"), list("192.0.2.0/24", "198.51.100.0/24")},
		{list("0.0.0.0/1", "128.0.0.0/2", "192.0.0.0/2"), list("0.0.0.0/0")},
		{list("192.0.2.3/32", "192.0.2.2/32", "192.0.2.0/31"), list("192.0.2.0/30")},
		{list("fd00::/17", "fd00:8000::/17", "fd00::1/128"), list("fd00::/16")},
		{list("::/0", "fd00::/16"), list("::/0")},
	} {
		if got := rangesOf(t, c.given); !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.given, got, c.want)
		}
	}
}

// Over a space of 64 addresses: the ranges hold what they held, and no fewer
// can.
func TestRangesAreFewest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		one := rapid.Custom(func(t *rapid.T) netip.Prefix {
			a := netip.AddrFrom4([4]byte{192, 0, 2, byte(rapid.IntRange(0, 63).Draw(t, "host"))})
			p, _ := a.Prefix(rapid.IntRange(26, 32).Draw(t, "bits"))
			return p
		})
		given := rapid.SliceOfN(one, 1, 12).Draw(t, "ranges")
		got := rangesOf(t, given)
		in := func(ps []netip.Prefix, i int) bool {
			a := netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})
			return slices.ContainsFunc(ps, func(p netip.Prefix) bool { return p.Contains(a) })
		}
		for i := range 64 {
			if in(got, i) != in(given, i) {
				t.Errorf("%v became %v, which differs at %d", given, got, i)
			}
		}
		if n := fewest(0, 64, func(i int) bool { return in(given, i) }); len(got) != n {
			t.Errorf("%v became %v, %d ranges are enough", given, got, n)
		}
	})
}

// fewest counts the largest aligned blocks that are wholly in a set.
func fewest(from, n int, in func(int) bool) int {
	all, any := true, false
	for i := from; i < from+n; i++ {
		all, any = all && in(i), any || in(i)
	}
	switch {
	case all:
		return 1
	case !any:
		return 0
	}
	return fewest(from, n/2, in) + fewest(from+n/2, n/2, in)
}
