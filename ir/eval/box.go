package eval

import (
	"encoding/binary"
	"math/bits"
	"net/netip"

	"svcc/ir"
)

// Box is a set of packets: those that rules ask for on one way to one of them.
// It is how text says what it decides, for probes to be made of it (Reaching).
// The zero value of a field leaves it open.
type Box struct {
	Hooks    Hooks
	Src, Dst Bits // Dst as the rule sees it, behind nat
	Orig     Bits // the destination before nat, where the rule asks that
	Protocol ir.Protocol
	SrcPort  Ports
	DstPort  Ports
	OrigPort Ports
	Try      []uint16 // further ports of destinations that the rule tells apart
	In       string   // the interface of entry
	// Mark has the bits that MarkMask covers.
	Mark, MarkMask     uint32
	Clears             uint32 // the bits of the mark that the rule clears, or turns round
	Flows              Flows
	SrcLocal, DstLocal Truth // whether the kernel calls the address LOCAL
	// Own says that the rule takes the destination for one of the node's addresses,
	// whatever is known of them.
	Own bool
	// Bound says that the box is of all that comes to an address which the node has
	// for the sake of services.
	Bound bool
	// Odd says that the rule asks for what packets of ordinary clients do not have:
	// a mark, a source port, an interface.
	Odd bool
	// Service is what comments on the way call the service port ("demo/web:http");
	// "" if nothing. It is whatever somebody wrote.
	Service string
	Rule    string // as written
	// Holds says whether a packet with this destination behind nat is in the box
	// after all: it knows what fields cannot say. Nil for yes.
	Holds func(p Packet, to netip.AddrPort, h Host) bool
}

// Hooks are places where packets meet rules.
type Hooks uint8

// The places.
const (
	Prerouting Hooks = 1 << iota
	Output
	Forward
	Input
	Postrouting
)

// Flows are the kinds of packets that conntrack tells apart.
type Flows uint8

// The kinds: the states, and new packets that nat, or a virtual server, has sent
// elsewhere.
const (
	FlowNew         Flows = 1 << New
	FlowEstablished Flows = 1 << Established
	FlowRelated     Flows = 1 << Related
	FlowInvalid     Flows = 1 << Invalid
	FlowExpected    Flows = 1 << Expected
	FlowUntracked   Flows = 1 << Untracked
	FlowRewritten   Flows = 1 << (Untracked + 1)
	AllFlows              = FlowNew | FlowEstablished | FlowRelated | FlowInvalid | FlowExpected | FlowUntracked | FlowRewritten
)

// Truth is whether something holds: it may be open.
type Truth uint8

// The truths.
const (
	Open Truth = iota
	No
	Yes
)

// And is what must hold if both must; false if nothing can.
func (t Truth) And(u Truth) (Truth, bool) {
	if t == Open {
		return u, true
	}
	return t, u == Open || t == u
}

// Bits are addresses that have certain bits, in any place: a prefix, an address,
// or a mask with holes. IPv4 has the low 32.
type Bits struct{ Hi, Lo, HiMask, LoMask uint64 }

// And is what is in both; false if nothing is.
func (b Bits) And(c Bits) (Bits, bool) {
	if (b.Hi^c.Hi)&b.HiMask&c.HiMask != 0 || (b.Lo^c.Lo)&b.LoMask&c.LoMask != 0 {
		return Bits{}, false
	}
	return Bits{b.Hi | c.Hi, b.Lo | c.Lo, b.HiMask | c.HiMask, b.LoMask | c.LoMask}, true
}

// IsOpen says that every address is among them.
func (b Bits) IsOpen() bool { return b.HiMask == 0 && b.LoMask == 0 }

// BitsOf are those of a prefix.
func BitsOf(p netip.Prefix) Bits {
	p = p.Masked()
	var mask Bits
	mask.Hi, mask.Lo = words(p.Addr())
	n := p.Bits()
	if p.Addr().Is4() {
		mask.LoMask = uint64(^uint32(0)) &^ (1<<(32-n) - 1)
		return mask
	}
	mask.HiMask = ^uint64(0) << (64 - min(n, 64))
	mask.LoMask = ^uint64(0) << (64 - max(n-64, 0))
	return mask
}

// Single is the address if there is one alone.
func (b Bits) Single(f ir.Family) (netip.Addr, bool) {
	if f == ir.IPv4 {
		return address(f, 0, b.Lo), b.LoMask == uint64(^uint32(0))
	}
	return address(f, b.Hi, b.Lo), b.HiMask&b.LoMask == ^uint64(0)
}

// scattered says that they are no prefix: a mask has holes.
func (b Bits) scattered(f ir.Family) bool {
	lead, all := bits.LeadingZeros64(^b.HiMask), bits.OnesCount64(b.HiMask)+bits.OnesCount64(b.LoMask)
	if f == ir.IPv4 {
		return bits.LeadingZeros32(^uint32(b.LoMask)) != all
	}
	if lead == 64 {
		lead += bits.LeadingZeros64(^b.LoMask)
	}
	return lead != all
}

// Contains says whether an address is among them.
func (b Bits) Contains(a netip.Addr) bool {
	hi, lo := words(a)
	return hi&b.HiMask == b.Hi && lo&b.LoMask == b.Lo
}

// Fill is an address among them: its other bits are those of a.
func (b Bits) Fill(a netip.Addr) netip.Addr {
	hi, lo := words(a)
	return address(ir.FamilyOf(a), hi&^b.HiMask|b.Hi, lo&^b.LoMask|b.Lo)
}

// ends are the lowest and the highest address.
func (b Bits) ends(f ir.Family) (first, last netip.Addr) {
	return address(f, b.Hi, b.Lo), address(f, b.Hi|^b.HiMask, b.Lo|^b.LoMask)
}

// words are an address's bits.
func words(a netip.Addr) (hi, lo uint64) {
	if a.Is4() {
		raw := a.As4()
		return 0, uint64(binary.BigEndian.Uint32(raw[:]))
	}
	raw := a.As16()
	return binary.BigEndian.Uint64(raw[:8]), binary.BigEndian.Uint64(raw[8:])
}

func address(f ir.Family, hi, lo uint64) netip.Addr {
	if f == ir.IPv4 {
		return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, uint32(lo))))
	}
	return netip.AddrFrom16([16]byte(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, hi), lo)))
}

// Ports is a range of ports; zero is open.
type Ports struct{ First, Last uint16 }

// IsOpen says that every port is in the range.
func (r Ports) IsOpen() bool { return r == Ports{} || r == Ports{0, 65535} }

// And is what is in both ranges; false if nothing is.
func (r Ports) And(s Ports) (Ports, bool) {
	if r.IsOpen() {
		return s, true
	}
	if s.IsOpen() {
		return r, true
	}
	both := Ports{max(r.First, s.First), min(r.Last, s.Last)}
	return both, both.First <= both.Last
}

// Contains says whether a port is in the range.
func (r Ports) Contains(p uint16) bool { return r.IsOpen() || r.First <= p && p <= r.Last }

// single says that the range is one port.
func (r Ports) single() bool { return r.First == r.Last && r.First != 0 }
