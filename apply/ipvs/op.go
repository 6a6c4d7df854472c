package ipvs

import (
	"fmt"
	"net/netip"

	spec "svcc/emit/ipvs"
	"svcc/ir"
)

// Verb is a kind of operation.
type Verb int

// The operations.
const (
	AddLink Verb = iota
	DelLink
	AddAddress
	DelAddress
	AddServer // without destinations
	SetServer // scheduler, flags and timeout of one that is there; connections live on
	DelServer
	AddDestination
	SetDestination
	DelDestination
	SetTimeouts
)

// Op is one operation on the kernel. Which fields count depends on the Verb.
type Op struct {
	Verb        Verb
	Address     netip.Addr
	Server      Server // for destinations, the one that they are of
	Destination Destination
	Timeouts    Timeouts
}

// Tool is the program that could do the same, and its arguments for reading
// operations from its input.
func (o Op) Tool() (name string, args []string) {
	if o.Verb <= DelAddress {
		return "ip", []string{"-batch", "-"}
	}
	return "ipvsadm", []string{"-R"}
}

// String is the operation in the syntax of Tool's input.
func (o Op) String() string {
	switch o.Verb {
	case AddLink:
		return "link add " + spec.Link + " type dummy"
	case DelLink:
		return "link delete " + spec.Link
	case AddAddress:
		return spec.AddressLine(o.Address)
	case DelAddress:
		return "address delete " + o.address() + " dev " + spec.Link
	case AddServer:
		return "-A " + o.Server.text()
	case SetServer:
		return "-E " + o.Server.text()
	case DelServer:
		return "-D " + o.Server.Key.String()
	case AddDestination:
		return "-a " + o.Server.destination(o.Destination)
	case SetDestination:
		return "-e " + o.Server.destination(o.Destination)
	case DelDestination:
		return "-d " + o.Server.Key.String() + " -r " + o.Destination.Address.String()
	case SetTimeouts:
		return fmt.Sprintf("--set %d %d %d", o.Timeouts.TCP, o.Timeouts.TCPFin, o.Timeouts.UDP)
	}
	return fmt.Sprintf("operation %d", o.Verb)
}

func (o Op) address() string { return host(o.Address) }

// host is an address as a prefix of its own.
func host(a netip.Addr) string { return netip.PrefixFrom(a, a.BitLen()).String() }

// text is a server as ipvsadm takes it, after the command.
func (s *Server) text() string {
	mask := ""
	if s.Netmask != netmask(s.Key) || s.Address.Addr().Is6() {
		mask = maskText(s)
	}
	return s.spec().Text(mask)
}

// maskText spells a netmask: a prefix length in IPv6; in IPv4 four bytes, of
// which the kernel has the first one first.
func maskText(s *Server) string {
	if s.Address.Addr().Is6() {
		return fmt.Sprint(s.Netmask)
	}
	return netip.AddrFrom4(inNetworkOrder(s.Netmask)).String()
}

func (s *Server) destination(d Destination) string {
	return d.spec().Text(s.Key, methods[d.Method&methodMask])
}

// methods are ipvsadm's options for the ways of forwarding: masquerading, to
// the node itself, through a tunnel, directly.
var methods = [methodMask + 1]string{"-m", "-g", "-i", "-g", "-g", "-g", "-g", "-g"}

// family is the one that a server or address belongs to.
func family(a netip.Addr) ir.Family {
	if a.Is6() {
		return ir.IPv6
	}
	return ir.IPv4
}
