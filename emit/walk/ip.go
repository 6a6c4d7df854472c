package walk

import (
	"encoding/binary"
	"net/netip"

	"svcc/ir"
	"svcc/ir/eval"
)

// ip is an address as numbers; an IPv4 address is in lo.
type ip struct{ hi, lo uint64 }

func ipOf(a netip.Addr) ip {
	if a.Is4() {
		b := a.As4()
		return ip{lo: uint64(binary.BigEndian.Uint32(b[:]))}
	}
	b := a.As16()
	return ip{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
}

func (a ip) and(m ip) ip { return ip{a.hi & m.hi, a.lo & m.lo} }

// maskOf is the mask of a prefix length.
func maskOf(f ir.Family, bits int) ip {
	if f == ir.IPv4 {
		return ip{lo: uint64(^uint32(0)) &^ (1<<(32-bits) - 1)}
	}
	if bits <= 64 {
		return ip{hi: ^uint64(0) << (64 - bits)}
	}
	return ip{^uint64(0), ^uint64(0) << (128 - bits)}
}

// addr is an address of a family.
func (a ip) addr(f ir.Family) netip.Addr {
	at, _ := eval.Bits{Hi: a.hi, Lo: a.lo, HiMask: ^uint64(0), LoMask: ^uint64(0)}.Single(f)
	return at
}
