package iptables

import (
	"bytes"
	"fmt"
	"net/netip"
	"strconv"

	"svcc/ir"
)

// table is one table of a restore input.
type table struct {
	name   string
	brief  bool     // chains are declared without counters, which nobody reads
	chains []string // user chains, in the order of declaration
	rules  []rule   // in the order of writing
}

// rule is one -A line. Values are typed until they are printed, so that no text
// can hold more than one rule.
type rule struct {
	chain   string
	early   []match // before the comment
	comment string
	matches []match // in the order of writing
	action  action  // nil: the rule does nothing but carry a comment
}

// match is a condition, action what a rule does; both print their arguments
// with a blank before them.
type (
	match  interface{ appendTo([]byte) []byte }
	action interface{ appendTo([]byte) []byte }
)

// address is -s or -d; a whole prefix prints its length, a host does not.
type address struct {
	flag   string
	not    bool
	prefix netip.Prefix
	host   bool
}

func source(p netip.Prefix) address    { return address{flag: "-s", prefix: p} }
func sourceNot(p netip.Prefix) address { return address{flag: "-s", prefix: p, not: true} }
func sourceHost(a netip.Addr) address {
	return address{flag: "-s", prefix: netip.PrefixFrom(a, a.BitLen()), host: true}
}
func destination(p netip.Prefix) address    { return address{flag: "-d", prefix: p} }
func destinationNot(p netip.Prefix) address { return address{flag: "-d", prefix: p, not: true} }
func destinationHost(a netip.Addr) address {
	return address{flag: "-d", prefix: netip.PrefixFrom(a, a.BitLen()), host: true}
}

func (m address) appendTo(b []byte) []byte {
	b = appendNot(b, m.not)
	b = append(append(append(b, ' '), m.flag...), ' ')
	if m.host {
		return m.prefix.Addr().AppendTo(b)
	}
	return m.prefix.AppendTo(b)
}

func appendNot(b []byte, not bool) []byte {
	if not {
		return append(b, " !"...)
	}
	return b
}

// protocol is -m tcp -p tcp, which --dport needs.
type protocol ir.Protocol

func (m protocol) appendTo(b []byte) []byte {
	p := ir.Protocol(m).String()
	return append(append(append(append(b, " -m "...), p...), " -p "...), p...)
}

// port is --dport.
type port uint16

func (m port) appendTo(b []byte) []byte {
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
	sourceLocal      = local{side: "src"}
	sourceNotLocal   = local{side: "src", not: true}
	destinationLocal = local{side: "dst"}
)

// input is the interface of entry; iptables reads a trailing + as "starts with".
type input struct {
	not  bool
	name string
}

func (m input) appendTo(b []byte) []byte {
	return append(append(appendNot(b, m.not), " -i "...), m.name...)
}

// states are connection-tracking states.
type states struct {
	not  bool
	list string
}

func (m states) appendTo(b []byte) []byte {
	return append(append(appendNot(append(b, " -m conntrack"...), m.not), " --ctstate "...), m.list...)
}

// wasTo asks for the destination before nat rewrote it.
type wasTo struct {
	prefix                netip.Prefix
	exceptLow, exceptHigh uint16
}

func (m wasTo) appendTo(b []byte) []byte {
	b = append(b, " -m conntrack --ctorigdst "...)
	b = m.prefix.AppendTo(b)
	if m.exceptLow == 0 {
		return b
	}
	return appendPortRange(append(b, " ! --ctorigdstport "...), m.exceptLow, m.exceptHigh)
}

// marked asks whether a bit of the mark is set.
type marked struct {
	not bool
	bit uint32
}

func (m marked) appendTo(b []byte) []byte {
	return fmt.Appendf(appendNot(append(b, " -m mark"...), m.not), " --mark 0x%08x/0x%08x", m.bit, m.bit)
}

// share holds for part packets of so many, at random. Ten digits are more than
// the kernel's 31 bits tell apart for up to 50,000 endpoints.
type share struct {
	part, of int
	style    style
}

// style is how long rules of endpoints, of which there are most, are written.
type style uint8

const (
	written style = iota // as kube-proxy writes them
	brief                // without zeros that say nothing, options cut as getopt_long(3) allows
)

func (m share) appendTo(b []byte) []byte {
	option := " -m statistic --mode random --probability "
	if m.style == brief {
		option = " -m statistic --mode random --prob "
	}
	b = strconv.AppendFloat(append(b, option...), float64(m.part)/float64(m.of), 'f', 10, 64)
	if m.style == brief {
		b = bytes.TrimRight(b, "0")
	}
	return b
}

// seen asks whether a list holds the client, younger than so many seconds.
type seen struct {
	list    string
	seconds int
}

func (m seen) appendTo(b []byte) []byte {
	return fmt.Appendf(b, " -m recent --name %s --rcheck --seconds %d --reap", m.list, m.seconds)
}

// remember enters the client into a list; it always holds.
type remember string

func (m remember) appendTo(b []byte) []byte {
	return append(append(append(b, " -m recent --name "...), m...), " --set"...)
}

// jump goes to a chain or a built-in target without arguments.
type jump string

func (a jump) appendTo(b []byte) []byte { return append(append(b, " -j "...), a...) }

// dnat rewrites the destination.
type dnat struct {
	to    netip.AddrPort
	style style
}

func (a dnat) appendTo(b []byte) []byte {
	option := " -j DNAT --to-destination "
	if a.style == brief {
		option = " -j DNAT --to "
	}
	return a.to.AppendTo(append(b, option...))
}

// setMark changes one bit of the mark: op is "or" or "xor".
type setMark struct {
	op  string
	bit uint32
}

func (a setMark) appendTo(b []byte) []byte {
	return fmt.Appendf(b, " -j MARK --%s-mark 0x%08x", a.op, a.bit)
}

// masquerade rewrites the source to the node's address.
type masquerade struct{}

func (masquerade) appendTo(b []byte) []byte { return append(b, " -j MASQUERADE --random-fully"...) }

// The targets without arguments.
const (
	accept = jump("ACCEPT")
	drop   = jump("DROP")
	reject = jump("REJECT")
	back   = jump("RETURN")
)

// protocolOnly is -p without its module, for rules that ask no port.
type protocolOnly ir.Protocol

func (m protocolOnly) appendTo(b []byte) []byte {
	return append(append(b, " -p "...), ir.Protocol(m).String()...)
}

// ports is --dport with a first and a last port.
type ports struct{ low, high uint16 }

func (m ports) appendTo(b []byte) []byte {
	return appendPortRange(append(b, " --dport "...), m.low, m.high)
}

func appendPortRange(b []byte, low, high uint16) []byte {
	b = strconv.AppendUint(b, uint64(low), 10)
	if low == high {
		return b
	}
	return strconv.AppendUint(append(b, ':'), uint64(high), 10)
}

// masked is -s or -d with a mask that may have holes.
type masked struct {
	flag        string
	value, mask netip.Addr
}

func (m masked) appendTo(b []byte) []byte {
	b = append(append(append(b, ' '), m.flag...), ' ')
	return m.mask.AppendTo(append(m.value.AppendTo(b), '/'))
}

// update asks as seen does and, where it holds, renews the client's time.
type update seen

func (m update) appendTo(b []byte) []byte {
	return fmt.Appendf(b, " -m recent --name %s --update --seconds %d --reap", m.list, m.seconds)
}

// goTo goes to a chain; what falls off its end, or returns, comes back to the
// rule after the last jump.
type goTo string

func (a goTo) appendTo(b []byte) []byte { return append(append(b, " -g "...), a...) }
