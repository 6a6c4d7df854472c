package rule

import (
	"bytes"
	"fmt"
	"net/netip"
	"strconv"

	"svcc/ir"
)

// Rule is one -A line. Values are typed until they are printed, so that no text
// can hold more than one rule.
type Rule struct {
	Chain   string
	Early   []Match // before the comment
	Comment string
	Matches []Match // in the order of writing
	Action  Action  // nil: the rule does nothing but carry a comment
}

// Match is a condition. It prints its arguments with a blank before them.
type Match interface{ appendTo([]byte) []byte }

// Action is what a rule does; it prints as a Match does.
type Action interface{ appendTo([]byte) []byte }

// Address is -s or -d; a whole prefix prints its length, a host does not.
type Address struct {
	Flag   string
	Not    bool
	Prefix netip.Prefix
	host   bool
}

// Source asks for a source in a range.
func Source(p netip.Prefix) Address { return Address{Flag: "-s", Prefix: p} }

// SourceNot asks for a source outside a range.
func SourceNot(p netip.Prefix) Address { return Address{Flag: "-s", Prefix: p, Not: true} }

// SourceHost asks for one source.
func SourceHost(a netip.Addr) Address {
	return Address{Flag: "-s", Prefix: netip.PrefixFrom(a, a.BitLen()), host: true}
}

// Destination asks for a destination in a range.
func Destination(p netip.Prefix) Address { return Address{Flag: "-d", Prefix: p} }

// DestinationNot asks for a destination outside a range.
func DestinationNot(p netip.Prefix) Address { return Address{Flag: "-d", Prefix: p, Not: true} }

// DestinationHost asks for one destination.
func DestinationHost(a netip.Addr) Address {
	return Address{Flag: "-d", Prefix: netip.PrefixFrom(a, a.BitLen()), host: true}
}

func (m Address) appendTo(b []byte) []byte {
	b = appendNot(b, m.Not)
	b = append(append(append(b, ' '), m.Flag...), ' ')
	if m.host {
		return m.Prefix.Addr().AppendTo(b)
	}
	return m.Prefix.AppendTo(b)
}

func appendNot(b []byte, not bool) []byte {
	if not {
		return append(b, " !"...)
	}
	return b
}

// Protocol is -m tcp -p tcp, which --dport needs.
type Protocol ir.Protocol

func (m Protocol) appendTo(b []byte) []byte {
	p := ir.Protocol(m).String()
	return append(append(append(append(b, " -m "...), p...), " -p "...), p...)
}

// Port is --dport.
type Port uint16

func (m Port) appendTo(b []byte) []byte {
	return strconv.AppendUint(append(b, " --dport "...), uint64(m), 10)
}

// local asks whether an address is the node's.
type local struct {
	side string // "src" or "dst"
	not  bool
}

func (m local) appendTo(b []byte) []byte {
	b = append(appendNot(append(b, " -m addrtype"...), m.not), " --"...)
	return append(append(b, m.side...), "-type LOCAL"...)
}

var (
	SourceLocal      = local{side: "src"}
	SourceNotLocal   = local{side: "src", not: true}
	DestinationLocal = local{side: "dst"}
)

// Input is the interface of entry; iptables reads a trailing + as "starts with".
type Input struct {
	Not  bool
	Name string
}

func (m Input) appendTo(b []byte) []byte {
	return append(append(appendNot(b, m.Not), " -i "...), m.Name...)
}

// States are connection-tracking states.
type States struct {
	Not  bool
	List string
}

func (m States) appendTo(b []byte) []byte {
	return append(append(appendNot(append(b, " -m conntrack"...), m.Not), " --ctstate "...), m.List...)
}

// WasTo asks for the destination before nat rewrote it.
type WasTo struct {
	Prefix                netip.Prefix
	ExceptLow, ExceptHigh uint16
}

func (m WasTo) appendTo(b []byte) []byte {
	b = append(b, " -m conntrack --ctorigdst "...)
	b = m.Prefix.AppendTo(b)
	if m.ExceptLow == 0 {
		return b
	}
	return appendPortRange(append(b, " ! --ctorigdstport "...), m.ExceptLow, m.ExceptHigh)
}

// Marked asks whether a bit of the mark is set.
type Marked struct {
	Not bool
	Bit uint32
}

func (m Marked) appendTo(b []byte) []byte {
	return fmt.Appendf(appendNot(append(b, " -m mark"...), m.Not), " --mark 0x%08x/0x%08x", m.Bit, m.Bit)
}

// Share holds for part packets of so many, at random. Ten digits are more than
// the kernel's 31 bits tell apart for up to 50,000 endpoints.
type Share struct {
	Part, Of int
	Style    Style
}

// Style is how long rules of endpoints, of which there are most, are written.
type Style uint8

const (
	Written Style = iota // as kube-proxy writes them
	Brief                // without zeros that say nothing, options cut as getopt_long(3) allows
)

func (m Share) appendTo(b []byte) []byte {
	option := " -m statistic --mode random --probability "
	if m.Style == Brief {
		option = " -m statistic --mode random --prob "
	}
	b = strconv.AppendFloat(append(b, option...), float64(m.Part)/float64(m.Of), 'f', 10, 64)
	if m.Style == Brief {
		b = bytes.TrimRight(b, "0")
	}
	return b
}

// Seen asks whether a list holds the client, younger than so many seconds.
type Seen struct {
	List    string
	Seconds int
}

func (m Seen) appendTo(b []byte) []byte {
	return fmt.Appendf(b, " -m recent --name %s --rcheck --seconds %d --reap", m.List, m.Seconds)
}

// Remember enters the client into a list; it always holds.
type Remember string

func (m Remember) appendTo(b []byte) []byte {
	return append(append(append(b, " -m recent --name "...), m...), " --set"...)
}

// Set asks whether a set holds the packet's sides: "dst,dst,src" for a set of three
// parts.
type Set struct{ Name, Sides string }

// appendTo implements Match.
func (m Set) appendTo(b []byte) []byte {
	return append(append(append(append(b, " -m set --match-set "...), m.Name...), ' '), m.Sides...)
}

// Served asks whether a virtual server has the packet.
type Served struct{ Not bool }

// appendTo implements Match.
func (m Served) appendTo(b []byte) []byte {
	return append(appendNot(append(b, " -m ipvs"...), m.Not), " --ipvs"...)
}

// ServedAt asks whether the virtual server of a destination has the packet.
type ServedAt struct {
	At       netip.AddrPort
	Protocol ir.Protocol
}

// appendTo implements Match.
func (m ServedAt) appendTo(b []byte) []byte {
	return fmt.Appendf(b, " -m ipvs --vaddr %s --vproto %s --vport %d", m.At.Addr(), m.Protocol, m.At.Port())
}

// Jump goes to a chain or a built-in target without arguments.
type Jump string

func (a Jump) appendTo(b []byte) []byte { return append(append(b, " -j "...), a...) }

// DNAT rewrites the destination.
type DNAT struct {
	To    netip.AddrPort
	Style Style
}

func (a DNAT) appendTo(b []byte) []byte {
	option := " -j DNAT --to-destination "
	if a.Style == Brief {
		option = " -j DNAT --to "
	}
	return a.To.AppendTo(append(b, option...))
}

// SetMark changes one bit of the mark: op is "or" or "xor".
type SetMark struct {
	Op  string
	Bit uint32
}

func (a SetMark) appendTo(b []byte) []byte {
	return fmt.Appendf(b, " -j MARK --%s-mark 0x%08x", a.Op, a.Bit)
}

// Masquerade rewrites the source to the node's address.
type Masquerade struct{}

func (Masquerade) appendTo(b []byte) []byte { return append(b, " -j MASQUERADE --random-fully"...) }

// The targets without arguments.
const (
	Accept = Jump("ACCEPT")
	Drop   = Jump("DROP")
	Reject = Jump("REJECT")
	Return = Jump("RETURN")
)

// ProtocolOnly is -p without its module, for rules that ask no port.
type ProtocolOnly ir.Protocol

func (m ProtocolOnly) appendTo(b []byte) []byte {
	return append(append(b, " -p "...), ir.Protocol(m).String()...)
}

// Ports is --dport with a first and a last port.
type Ports struct{ Low, High uint16 }

func (m Ports) appendTo(b []byte) []byte {
	return appendPortRange(append(b, " --dport "...), m.Low, m.High)
}

func appendPortRange(b []byte, low, high uint16) []byte {
	b = strconv.AppendUint(b, uint64(low), 10)
	if low == high {
		return b
	}
	return strconv.AppendUint(append(b, ':'), uint64(high), 10)
}

// Masked is -s or -d with a mask that may have holes.
type Masked struct {
	Flag        string
	Value, Mask netip.Addr
}

func (m Masked) appendTo(b []byte) []byte {
	b = append(append(append(b, ' '), m.Flag...), ' ')
	return m.Mask.AppendTo(append(m.Value.AppendTo(b), '/'))
}

// Update asks as seen does and, where it holds, renews the client's time.
type Update Seen

func (m Update) appendTo(b []byte) []byte {
	return fmt.Appendf(b, " -m recent --name %s --update --seconds %d --reap", m.List, m.Seconds)
}

// GoTo goes to a chain; what falls off its end, or returns, comes back to the
// rule after the last jump.
type GoTo string

func (a GoTo) appendTo(b []byte) []byte { return append(append(b, " -g "...), a...) }
