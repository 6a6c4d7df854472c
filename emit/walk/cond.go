package walk

import (
	"net/netip"

	"svcc/ir"
	"svcc/ir/eval"
)

// CondKind is a kind of condition. To model another match, add a kind, a row
// in modules and a case in walk.holds.
type CondKind uint8

const (
	CondNone        CondKind = iota
	CondSrc                  // x: address, y: mask; holes are allowed
	CondDst                  // the same
	CondSrc6                 // x: index in ruleset.wide
	CondDst6                 // the same
	CondProto                // x: protocol number
	CondIn                   // x: name in ruleset.names, y: 1 if it is a prefix
	CondSport                // x to y
	CondDport                // x to y
	CondPorts                // x: first of y entries in ruleset.ranges, sub: sides
	CondState                // x: set of state bits
	CondMark                 // x: value, y: mask
	CondSrcLocal             // an address of the node
	CondDstLocal             // the same
	CondRecent               // x: list in ruleset.names, y: seconds, sub: mode
	CondStatistic            // x: index in ruleset.shares, plus 1
	CondOrigDst              // as condDst, of the packet before DNAT
	condOrigDst6             // as condDst6
	CondOrigPort             // x to y
	CondSet                  // x: name in ruleset.names, y: dimensions, sub: which are the source
	CondServed               // by a virtual server
	CondServedAddr           // x: index in ruleset.dests
	CondServedPort           // x: port
	CondServedProto          // x: protocol number
	CondNever                // what no packet of ours does
)

// Cond is one thing that must hold for a rule to match.
type Cond struct {
	Kind CondKind
	Not  bool
	Sub  uint16
	X, Y uint32
}

// wideMask is an IPv6 address and mask.
type wideMask struct{ addr, mask ip }

// PortRange is one entry of -m multiport.
type PortRange struct{ Lo, Hi uint16 }

// The sides of condPorts.
const (
	SideSrc = 1 << iota
	SideDst
)

// The modes of condRecent: --seconds 0 means that any age will do.
const (
	RecentNone = iota
	RecentSet
	RecentCheck
	RecentUpdate
)

// The bits of condState. Two are not states but what nat has done.
const (
	StateInvalid = 1 << iota
	StateNew
	StateEstablished
	StateRelated
	StateUntracked
	StateSNAT
	StateDNAT
)

// stateBits translate a packet's state.
var stateBits = [...]uint32{
	eval.New: StateNew, eval.Established: StateEstablished,
	eval.Related: StateRelated, eval.Invalid: StateInvalid,
	eval.Expected: StateRelated, eval.Untracked: StateUntracked,
}

// NameID numbers a name, from 1.
func (rs *Ruleset) NameID(s string) uint32 {
	if len(rs.names) == 0 {
		rs.names = append(rs.names, "")
	}
	if rs.nameIDs == nil {
		rs.nameIDs = map[string]uint32{}
	}
	id, ok := rs.nameIDs[s]
	if !ok {
		id = uint32(len(rs.names))
		rs.names = append(rs.names, s)
		rs.nameIDs[s] = id
	}
	return id
}

// Within is a condition of a kind that asks for an address's first bits.
func (rs *Ruleset) Within(k CondKind, a netip.Addr, bits int) Cond {
	return rs.bitwise(k, ipOf(a), maskOf(rs.Family, bits))
}

// Masked is a condition of a kind that asks for those bits of an address that a mask,
// which may have holes, covers.
func (rs *Ruleset) Masked(k CondKind, a, mask netip.Addr) Cond {
	return rs.bitwise(k, ipOf(a), ipOf(mask))
}

// wideKind is what asks in IPv6 what a kind asks in IPv4.
var wideKind = [...]CondKind{CondSrc: CondSrc6, CondDst: CondDst6, CondOrigDst: condOrigDst6}

// bitwise takes the kind for IPv4.
func (rs *Ruleset) bitwise(k CondKind, a, mask ip) Cond {
	a = a.and(mask)
	if rs.Family == ir.IPv4 {
		return Cond{Kind: k, X: uint32(a.lo), Y: uint32(mask.lo)}
	}
	rs.wide = append(rs.wide, wideMask{a, mask})
	return Cond{Kind: wideKind[k], X: uint32(len(rs.wide) - 1)}
}
