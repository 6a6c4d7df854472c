package ir

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"svcc/ir/diag"
)

// Family is an IP family. The two are compiled independently.
type Family uint8

// The families; the value is the IP version.
const (
	IPv4 Family = 4
	IPv6 Family = 6
)

// Families are both, in the order in which they are compiled; not to be changed.
var Families = []Family{IPv4, IPv6}

// String gives "ipv4" or "ipv6".
func (f Family) String() string { return fmt.Sprintf("ipv%d", f) }

// ParseFamily reads "ipv4" or "ipv6".
func ParseFamily(s string) (Family, error) {
	for _, f := range Families {
		if s == f.String() {
			return f, nil
		}
	}
	return 0, fmt.Errorf("family %q is neither ipv4 nor ipv6", s)
}

// Of says whether an address belongs to the family. An IPv4-mapped IPv6
// address belongs to neither: it must be unmapped first.
func (f Family) Of(a netip.Addr) bool {
	if f == IPv4 {
		return a.Is4()
	}
	return a.Is6() && !a.Is4In6()
}

// FamilyOf is the family of an address.
func FamilyOf(a netip.Addr) Family {
	if a.Unmap().Is4() {
		return IPv4
	}
	return IPv6
}

// Loopback is the family's loopback range: 127.0.0.0/8 or ::1/128.
func (f Family) Loopback() netip.Prefix {
	if f == IPv4 {
		return netip.MustParsePrefix("127.0.0.0/8")
	}
	return netip.MustParsePrefix("::1/128")
}

// Protocol is a transport protocol; the value is its IP protocol number.
type Protocol uint8

// The protocols that a Service can name.
const (
	TCP  Protocol = 6
	UDP  Protocol = 17
	SCTP Protocol = 132
)

// String gives "tcp", "udp" or "sctp", as every tool spells them.
func (p Protocol) String() string {
	switch p {
	case TCP:
		return "tcp"
	case UDP:
		return "udp"
	case SCTP:
		return "sctp"
	}
	return fmt.Sprintf("protocol-%d", uint8(p))
}

// ParseProtocol reads a protocol's name in any case.
func ParseProtocol(s string) (Protocol, error) {
	for _, p := range []Protocol{TCP, UDP, SCTP} {
		if strings.EqualFold(s, p.String()) {
			return p, nil
		}
	}
	return 0, fmt.Errorf("protocol %q is none of TCP, UDP, SCTP", s)
}

// Policy is a traffic policy: which endpoints may serve.
type Policy uint8

// The policies of internalTrafficPolicy and externalTrafficPolicy.
const (
	Cluster Policy = iota // endpoints anywhere
	Local                 // endpoints on this node only
)

func (p Policy) String() string { return [...]string{"cluster", "local"}[p] }

// FrontendKind is the kind of address that clients use.
type FrontendKind uint8

// The kinds, in the order in which kube-proxy writes their rules.
const (
	ClusterIP FrontendKind = iota
	ExternalIP
	LoadBalancer
	NodePort // no address of its own: every node-port address of the node
)

func (k FrontendKind) String() string {
	return [...]string{"cluster-ip", "external-ip", "load-balancer", "node-port"}[k]
}

// PortName identifies a service port: "ns/name:port/proto".
type PortName struct {
	Namespace, Name, Port string // Port is the port's name, often ""
	Protocol              Protocol
}

// Service gives "ns/name".
func (n PortName) Service() string { return n.Namespace + "/" + n.Name }

// Display gives "ns/name:port", or "ns/name" for an unnamed port: kube-proxy's
// spelling, which its comments and chain names are made from.
func (n PortName) Display() string {
	if n.Port == "" {
		return n.Namespace + "/" + n.Name
	}
	return n.Namespace + "/" + n.Name + ":" + n.Port
}

// String gives "ns/name:port/proto".
func (n PortName) String() string { return n.Display() + "/" + n.Protocol.String() }

// Compare orders by Display, bytewise, then by protocol's name.
func (n PortName) Compare(m PortName) int {
	if c := strings.Compare(n.Display(), m.Display()); c != 0 {
		return c
	}
	return strings.Compare(n.Protocol.String(), m.Protocol.String())
}

// Frontend is one address and port that clients of a service port use.
type Frontend struct {
	Kind FrontendKind
	Addr netip.Addr // invalid for NodePort
	Port uint16
}

// Endpoint is one address and port that serves.
type Endpoint struct {
	Addr  netip.Addr
	Port  uint16
	Local bool // on this node
}

// AddrPort is the endpoint's address and port.
func (e Endpoint) AddrPort() netip.AddrPort { return netip.AddrPortFrom(e.Addr, e.Port) }

// String gives "ip:port" or "[ip]:port".
func (e Endpoint) String() string { return e.AddrPort().String() }

// Node holds what is known of the node that rules are compiled for.
type Node struct {
	Name string     // "" where nothing depends on the node
	IP   netip.Addr // its address in this family; may be invalid
	Zone string
}

// DetectKind says by what a pod's packet is recognised.
type DetectKind uint8

// The kinds of detection (KubeProxyConfiguration.detectLocalMode).
const (
	DetectNone      DetectKind = iota // pods cannot be told from others
	DetectCIDR                        // ClusterCIDR and NodeCIDR: by source address
	DetectBridge                      // BridgeInterface: by the interface of entry
	DetectInterface                   // InterfaceNamePrefix: by a prefix of its name
)

// Detector recognises packets that pods of this node sent.
type Detector struct {
	Kind      DetectKind
	Prefix    netip.Prefix // DetectCIDR
	Interface string       // DetectBridge: the name; DetectInterface: the prefix
}

// Match says whether a packet with this source address that came in by this
// interface is a pod's.
func (d Detector) Match(src netip.Addr, in string) bool {
	switch d.Kind {
	case DetectCIDR:
		return d.Prefix.Contains(src)
	case DetectBridge:
		return in == d.Interface
	case DetectInterface:
		return strings.HasPrefix(in, d.Interface)
	}
	return false
}

// NodePortAddresses says at which addresses of the node its node ports answer;
// Options.NodePortsAnswer is the whole rule.
type NodePortAddresses struct {
	All      bool           // at every local address
	Addrs    []netip.Addr   // else at these, sorted
	Prefixes []netip.Prefix // and at local, non-loopback addresses in these, sorted by ComparePrefixes
}

// ComparePrefixes orders ranges by their text, bytewise.
func ComparePrefixes(a, b netip.Prefix) int { return strings.Compare(a.String(), b.String()) }

// Options are the choices for a node and family that change what rules mean
// (KubeProxyConfiguration v1alpha1).
type Options struct {
	MasqueradeMark     uint32 // one bit
	MasqueradeAll      bool   // masquerade every ClusterIP connection
	LocalhostNodePorts bool   // node ports answer at 127.0.0.1; always false in IPv6
	NodePorts          NodePortAddresses
	Pods               Detector
	DropInvalid        bool     // nf_conntrack_tcp_be_liberal is off
	Virtual            *Virtual // nil where service addresses are nobody's
}

// NodePortsAnswer says whether node ports answer at an address; local says
// whether the kernel calls it LOCAL. A loopback address answers only with
// LocalhostNodePorts, and not because it lies in one of the Prefixes.
func (o *Options) NodePortsAnswer(a netip.Addr, local func(netip.Addr) bool) bool {
	n := &o.NodePorts
	loopback := FamilyOf(a).Loopback().Contains(a)
	switch {
	case loopback && !o.LocalhostNodePorts:
		return false
	case n.All:
		return local(a)
	case slices.Contains(n.Addrs, a):
		return true
	}
	in := func(p netip.Prefix) bool { return p.Contains(a) }
	return !loopback && slices.ContainsFunc(n.Prefixes, in) && local(a)
}

// Origin is where in the manifests something came from.
type Origin = diag.Pos
