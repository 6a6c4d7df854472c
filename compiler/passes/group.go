package passes

import (
	"cmp"
	"net/netip"
	"slices"

	"svcc/ir"
)

// group decides on masquerading for ranges of ClusterIPs together, where every
// entry that delivers in a range decides alike, and takes the decision off
// their ways. An entry whose port lies between the node ports keeps its own: a
// ClusterIP that is on an interface of the node answers to those as well.
func group(g *ir.Graph) {
	low, high := nodePortSpan(g)
	var asked, others []*ir.Entry
	for _, e := range g.Entries {
		m, ok := e.Next.(*ir.Masquerade)
		switch {
		case e.Kind == ir.NodePort || low <= e.Port && e.Port <= high:
		case ok && e.Kind == ir.ClusterIP && m.Label.Part == ir.PartNone:
			asked = append(asked, e)
		default:
			others = append(others, e)
		}
	}
	for _, r := range alike(asked, others) {
		first := r.entries[0].Next.(*ir.Masquerade)
		g.Masquerades = append(g.Masquerades, ir.MasqueradeTo{Prefix: r.prefix, UnlessPod: first.UnlessPod, ExceptLow: low, ExceptHigh: high})
		for _, e := range r.entries {
			e.Next = e.Next.(*ir.Masquerade).Next
		}
	}
}

// nodePortSpan holds all node ports: at least those that clusters use unless
// told otherwise, so that it seldom changes with a service.
func nodePortSpan(g *ir.Graph) (low, high uint16) {
	low, high = 30000, 32767
	for _, e := range g.Entries {
		if e.Kind == ir.NodePort {
			low, high = min(low, e.Port), max(high, e.Port)
		}
	}
	return low, high
}

// maxMasquerades bounds the ranges: each is a question to every new connection.
const maxMasquerades = 4

// spread is a range and the entries in it that decide alike.
type spread struct {
	prefix  netip.Prefix
	entries []*ir.Entry
}

// alike gives the ranges, at most maxMasquerades, that hold entries of the
// first list and none of the second that would be decided otherwise; the
// largest ones first.
func alike(asked, others []*ir.Entry) []spread {
	var foreign []netip.Addr
	for _, e := range others {
		if !masquerades(e.Next, len(asked) > 0 && asked[0].Next.(*ir.Masquerade).UnlessPod) {
			foreign = append(foreign, e.Addr)
		}
	}
	slices.SortFunc(foreign, netip.Addr.Compare)
	slices.SortFunc(asked, func(a, b *ir.Entry) int { return a.Addr.Compare(b.Addr) })
	var out []spread
	for rest := asked; len(rest) > 0; {
		s := spread{netip.PrefixFrom(rest[0].Addr, rest[0].Addr.BitLen()), rest[:1]}
		n := 1
		for ; n < len(rest); n++ {
			wider := hull(s.prefix, rest[n].Addr)
			if holdsAny(wider, foreign) {
				break
			}
			s = spread{wider, rest[:n+1]}
		}
		out, rest = append(out, s), rest[n:]
	}
	out = slices.DeleteFunc(out, func(s spread) bool { return holdsAny(s.prefix, foreign) })
	slices.SortStableFunc(out, func(a, b spread) int { return cmp.Compare(len(b.entries), len(a.entries)) })
	return out[:min(len(out), maxMasquerades)]
}

// hull is the longest prefix that holds another and an address.
func hull(p netip.Prefix, a netip.Addr) netip.Prefix {
	for !p.Contains(a) {
		p, _ = p.Addr().Prefix(p.Bits() - 1)
	}
	return p
}

// holdsAny says whether a prefix holds one of sorted addresses.
func holdsAny(p netip.Prefix, sorted []netip.Addr) bool {
	i, _ := slices.BinarySearchFunc(sorted, p.Addr(), netip.Addr.Compare)
	return i < len(sorted) && p.Contains(sorted[i])
}

// masquerades says that a way delivers nothing but what it masquerades: all of
// it, or all that is not from pods.
func masquerades(s ir.Step, unlessPod bool) bool {
	switch s := s.(type) {
	case *ir.Guard:
		return masquerades(s.Then, unlessPod) && masquerades(s.Else, unlessPod)
	case *ir.Masquerade:
		return !s.UnlessPod || unlessPod || masquerades(s.Next, unlessPod)
	case *ir.Refuse:
		return true
	}
	return false
}
