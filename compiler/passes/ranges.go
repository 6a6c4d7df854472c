package passes

import (
	"net/netip"
	"slices"

	"svcc/ir"
)

// ranges makes each question about the source as short as it can be: ranges
// within others are left out, neighbours are joined, the rest is sorted.
func ranges(g *ir.Graph) {
	rewrite(g, func(s ir.Step) ir.Step {
		if q, ok := s.(*ir.Guard); ok && len(q.If.Sources) > 0 {
			q.If.Sources = aggregate(q.If.Sources)
		}
		return s
	})
}

// aggregate gives the fewest prefixes that hold the same addresses, sorted.
func aggregate(list []netip.Prefix) []netip.Prefix {
	sorted := slices.Clone(list)
	slices.SortFunc(sorted, func(a, b netip.Prefix) int {
		if c := a.Addr().Compare(b.Addr()); c != 0 {
			return c
		}
		return a.Bits() - b.Bits()
	})
	var out []netip.Prefix
	for _, p := range sorted {
		if n := len(out); n > 0 && out[n-1].Contains(p.Addr()) {
			continue
		}
		out = append(out, p)
		for len(out) > 1 {
			a, b := out[len(out)-2], out[len(out)-1]
			joined, err := a.Addr().Prefix(a.Bits() - 1)
			if err != nil || a.Bits() != b.Bits() || joined.Addr() != a.Addr() || !joined.Contains(b.Addr()) {
				break
			}
			out = append(out[:len(out)-2], joined)
		}
	}
	return out
}
