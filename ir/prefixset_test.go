package ir_test

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"svcc/ir"
)

// The set contains what one of its prefixes contains: random prefixes of both
// families, nested and side by side, asked at and beside each edge.
func TestPrefixSetIsItsPrefixes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		prefixes, asked := randomPrefixes(r)
		s := ir.NewPrefixSet(prefixes)
		if s.Empty() != (len(prefixes) == 0) {
			t.Fatalf("%v: empty is %v", prefixes, s.Empty())
		}
		for _, a := range asked {
			want := slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
			if s.Contains(a) != want {
				t.Fatalf("%v contains %s: %v, want %v", prefixes, a, s.Contains(a), want)
			}
		}
	}
}

// randomPrefixes crowd into a few addresses, so that they meet.
func randomPrefixes(r *rand.Rand) (prefixes []netip.Prefix, asked []netip.Addr) {
	for range r.IntN(12) {
		a, length := netip.AddrFrom4([4]byte{10, 0, 0, byte(r.IntN(256))}), 24+r.IntN(9)
		switch r.IntN(10) {
		case 0:
			a, length = netip.AddrFrom4([4]byte{255, 255, 255, 255}), 24+r.IntN(9)
		case 1, 2:
			a, length = netip.AddrFrom16([16]byte{0: 0xfd, 15: byte(r.IntN(256))}), 120+r.IntN(9)
		case 3:
			length = 0
		}
		p := netip.PrefixFrom(a, length)
		prefixes = append(prefixes, p)
		for _, edge := range []netip.Addr{p.Masked().Addr(), ir.LastOf(p)} {
			asked = append(asked, edge)
			for _, near := range []netip.Addr{edge.Prev(), edge.Next()} {
				if near.IsValid() {
					asked = append(asked, near)
				}
			}
		}
	}
	return prefixes, append(asked, netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("::ffff:10.0.0.1"))
}
