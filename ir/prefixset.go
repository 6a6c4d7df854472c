package ir

import (
	"net/netip"
	"slices"
)

// PrefixSet answers whether any of many prefixes contains an address, in time
// that hardly grows with their number. The zero value contains nothing.
type PrefixSet struct {
	spans []addrSpan // in order, none touches another's addresses
}

// addrSpan is the addresses from first to last.
type addrSpan struct{ first, last netip.Addr }

// NewPrefixSet makes the set of prefixes, of either family; invalid ones count
// for nothing.
func NewPrefixSet(prefixes []netip.Prefix) PrefixSet {
	var all []addrSpan
	for _, p := range prefixes {
		if p.IsValid() {
			all = append(all, addrSpan{p.Masked().Addr(), LastOf(p)})
		}
	}
	slices.SortFunc(all, func(a, b addrSpan) int { return a.first.Compare(b.first) })
	var s PrefixSet
	for _, x := range all {
		if n := len(s.spans); n == 0 || s.spans[n-1].last.Less(x.first) {
			s.spans = append(s.spans, x)
		} else if s.spans[n-1].last.Less(x.last) {
			s.spans[n-1].last = x.last
		}
	}
	return s
}

// Empty says that the set contains no address.
func (s PrefixSet) Empty() bool { return len(s.spans) == 0 }

// Contains says whether one of the prefixes does.
func (s PrefixSet) Contains(a netip.Addr) bool {
	i, exact := slices.BinarySearchFunc(s.spans, a, func(x addrSpan, a netip.Addr) int { return x.first.Compare(a) })
	return exact || i > 0 && !s.spans[i-1].last.Less(a)
}

// LastOf is the highest address of a prefix.
func LastOf(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}
