package eval

import (
	"fmt"
	"iter"
	"net/netip"
	"slices"

	"svcc/ir"
)

// Probe is a packet that a build is proved with.
type Probe struct {
	Service string // the service port it aims at; "" for none
	Packet  Packet
	Host    Host
}

// String names the service and the packet.
func (p Probe) String() string {
	if p.Service == "" {
		return p.Packet.String()
	}
	return fmt.Sprintf("%s: %s", p.Service, p.Packet)
}

// Probes are the packets that tell a Program from others: for every frontend
// from a pod, the node, outside, the endpoints and the edges of source ranges,
// at its port and beside it; and packets that concern no service.
func Probes(p *ir.Program) iter.Seq[Probe] {
	return func(yield func(Probe) bool) {
		b := &prober{Clients: NewClients(p), program: p, yield: yield}
		b.general()
		for _, s := range p.Services {
			if b.stopped {
				return
			}
			b.service(s)
		}
	}
}

// Clients are the senders of probes, and what they run into: addresses that are
// no frontend's and no endpoint's.
type Clients struct {
	Host      Host       // the node as its kernel knows it
	Node      netip.Addr // the node's address, or one that stands for it
	Pod       netip.Addr // a pod of the node that is no endpoint
	Outside   netip.Addr // a stranger
	Nowhere   netip.Addr // a destination that no service owns
	PodIn     string     // the interface by which pods' packets come
	OutsideIn string     // and that of strangers
}

// NewClients chooses the senders for a Program.
func NewClients(p *ir.Program) Clients {
	c := Clients{Node: p.Node.IP, PodIn: "svcc-pod0", OutsideIn: "svcc-outside0"}
	used := usedAddresses(p)
	pods := p.Options.Pods
	taken := func(a netip.Addr) bool {
		return used[a] || a == c.Node || a == c.Outside || a == c.Nowhere || pods.Kind == ir.DetectCIDR && pods.Prefix.Contains(a)
	}
	pick := func(v4, v6 string) netip.Addr {
		if p.Family == ir.IPv4 {
			return free(netip.MustParseAddr(v4), taken)
		}
		return free(netip.MustParseAddr(v6), taken)
	}
	if !c.Node.IsValid() {
		c.Node = pick("192.0.2.1", "2001:db8::1")
	}
	c.Outside = pick("198.51.100.77", "2001:db8:77::77")
	c.Nowhere = pick("203.0.113.201", "2001:db8:201::201")
	c.Pod = pick("100.64.0.9", "2001:db8:64::9")
	switch pods.Kind {
	case ir.DetectCIDR:
		c.Pod = free(pods.Prefix.Addr().Next(), func(a netip.Addr) bool { return used[a] && pods.Prefix.Contains(a) })
	case ir.DetectBridge:
		c.PodIn = pods.Interface
	case ir.DetectInterface:
		c.PodIn = pods.Interface + "0"
	}
	c.Host = Host{Addrs: []netip.Addr{c.Node}}
	return c
}

// prober makes probes.
type prober struct {
	Clients
	program *ir.Program
	yield   func(Probe) bool
	stopped bool
	name    string // of the service port that probes are aimed at
}

// free is the first address from a on that need not be avoided.
func free(a netip.Addr, avoid func(netip.Addr) bool) netip.Addr {
	for avoid(a) && a.Next().IsValid() {
		a = a.Next()
	}
	return a
}

func usedAddresses(p *ir.Program) map[netip.Addr]bool {
	used := map[netip.Addr]bool{}
	for _, s := range p.Services {
		for _, f := range s.Frontends {
			used[f.Addr] = true
		}
		for _, e := range s.Cluster {
			used[e.Addr] = true
		}
		for _, e := range s.Local {
			used[e.Addr] = true
		}
	}
	return used
}

// ClientPort is the source port of probes; rules do not look at it.
const ClientPort = 40000

func (b *prober) send(p Packet, h Host) {
	if !b.stopped {
		b.stopped = !b.yield(Probe{Service: b.name, Packet: p, Host: h})
	}
}

// packet is a new packet from src that comes in by an interface, or from the
// node itself where in is "".
func packet(src netip.Addr, in string, dst netip.AddrPort, proto ir.Protocol) Packet {
	return Packet{Src: netip.AddrPortFrom(src, ClientPort), Dst: dst, Protocol: proto, In: in}
}

// everyone sends to a destination from each kind of client.
func (b *prober) everyone(dst netip.AddrPort, proto ir.Protocol) {
	b.send(packet(b.Pod, b.PodIn, dst, proto), b.Host)
	b.send(packet(b.Node, "", dst, proto), b.Host)
	b.send(packet(b.Outside, b.OutsideIn, dst, proto), b.Host)
}

// odd sends packets in states, and with marks, that new flows do not have.
func (b *prober) odd(dst netip.AddrPort, proto ir.Protocol) {
	p := packet(b.Outside, b.OutsideIn, dst, proto)
	for _, p.State = range []State{Established, Related, Invalid} {
		b.send(p, b.Host)
	}
	p.State = New
	for _, p.Mark = range []uint32{b.program.Options.MasqueradeMark, ^b.program.Options.MasqueradeMark} {
		b.send(p, b.Host)
	}
}

// general probes what concerns no service: the fixed chains.
func (b *prober) general() {
	for _, a := range []netip.Addr{b.Nowhere, b.Node, b.Pod, b.program.Family.Loopback().Addr().Next()} {
		dst := netip.AddrPortFrom(a, 9)
		if b.program.Family == ir.IPv6 && a == b.program.Family.Loopback().Addr().Next() {
			dst = netip.AddrPortFrom(b.program.Family.Loopback().Addr(), 9)
		}
		for _, proto := range []ir.Protocol{ir.TCP, ir.UDP, ir.SCTP} {
			b.everyone(dst, proto)
			b.odd(dst, proto)
		}
		own := packet(b.Node, "", dst, ir.TCP)
		for _, own.State = range []State{Established, Invalid} {
			b.send(own, b.Host)
		}
		own.State, own.Mark = New, b.program.Options.MasqueradeMark
		b.send(own, b.Host)
	}
}

func (b *prober) service(s *ir.ServicePort) {
	b.name = s.PortName.String()
	defer func() { b.name = "" }()
	for i, f := range s.Frontends {
		for _, dst := range b.destinations(f) {
			b.frontend(s, f, dst)
			if i == 0 {
				b.odd(dst, s.Protocol)
			}
		}
	}
	b.endpoints(s)
	if s.HealthCheckNodePort != 0 {
		dst := netip.AddrPortFrom(b.Node, s.HealthCheckNodePort)
		b.everyone(dst, ir.TCP)
		b.send(packet(b.Outside, b.OutsideIn, dst, ir.UDP), b.Host)
	}
}

// destinations are the addresses at which a frontend may answer, and for node
// ports some at which it must not.
func (b *prober) destinations(f ir.Frontend) []netip.AddrPort {
	if f.Kind != ir.NodePort {
		return []netip.AddrPort{netip.AddrPortFrom(f.Addr, f.Port)}
	}
	addrs := append([]netip.Addr{b.Node, b.Nowhere}, b.program.Options.NodePorts.Addrs...)
	if b.program.Family == ir.IPv4 {
		addrs = append(addrs, netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	} else {
		addrs = append(addrs, netip.IPv6Loopback())
	}
	slices.SortFunc(addrs, netip.Addr.Compare)
	var out []netip.AddrPort
	for _, a := range slices.Compact(addrs) {
		out = append(out, netip.AddrPortFrom(a, f.Port))
	}
	return out
}

func (b *prober) frontend(s *ir.ServicePort, f ir.Frontend, dst netip.AddrPort) {
	b.everyone(dst, s.Protocol)
	b.send(packet(b.Outside, b.OutsideIn, netip.AddrPortFrom(dst.Addr(), dst.Port()^1), s.Protocol), b.Host)
	other := ir.UDP
	if s.Protocol == ir.UDP {
		other = ir.TCP
	}
	b.send(packet(b.Outside, b.OutsideIn, dst, other), b.Host)
	if f.Kind == ir.ClusterIP {
		return
	}
	if dst.Addr().IsLoopback() {
		b.send(packet(dst.Addr(), "", dst, s.Protocol), b.Host)
	}
	if f.Kind != ir.NodePort {
		b.bound(s, dst)
	}
	if f.Kind == ir.LoadBalancer {
		b.edges(s, dst)
	}
	marked := packet(b.Outside, b.OutsideIn, dst, s.Protocol)
	marked.Mark = b.program.Options.MasqueradeMark
	b.send(marked, b.Host)
}

// bound probes a frontend whose address is on one of the node's interfaces.
func (b *prober) bound(s *ir.ServicePort, dst netip.AddrPort) {
	h := Host{Addrs: []netip.Addr{b.Node, dst.Addr()}}
	b.send(packet(b.Outside, b.OutsideIn, dst, s.Protocol), h)
	b.send(packet(b.Node, "", dst, s.Protocol), h)
	b.send(packet(dst.Addr(), "", dst, s.Protocol), h)
}

// edges probes the addresses just inside and just outside of source ranges.
func (b *prober) edges(s *ir.ServicePort, dst netip.AddrPort) {
	for _, r := range s.SourceRanges {
		first, last := r.Addr(), lastOf(r)
		for _, a := range []netip.Addr{first.Prev(), first, last, last.Next()} {
			if a.IsValid() && b.program.Family.Of(a) {
				b.send(packet(a, b.OutsideIn, dst, s.Protocol), b.Host)
			}
		}
	}
}

// lastOf is the highest address of a prefix.
func lastOf(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// manyEndpoints bounds the hairpin probes of one service port: each costs as
// much as there are endpoints.
const manyEndpoints = 2000

// endpoints probes each endpoint as the client, and clients that affinity
// remembers.
func (b *prober) endpoints(s *ir.ServicePort) {
	all := s.Reachable()
	if len(all) == 0 {
		return
	}
	first := s.Frontends[0]
	for _, e := range all[:min(len(all), manyEndpoints)] {
		in := b.OutsideIn
		if e.Local {
			in = b.PodIn
		}
		b.send(packet(e.Addr, in, netip.AddrPortFrom(first.Addr, first.Port), s.Protocol), b.Host)
	}
	last := s.Frontends[len(s.Frontends)-1]
	dst := b.destinations(last)[0]
	b.send(packet(all[0].Addr, b.OutsideIn, dst, s.Protocol), b.Host)
	b.send(packet(all[0].Addr, b.PodIn, dst, s.Protocol), b.Host)
	if s.AffinitySeconds == 0 {
		return
	}
	for _, e := range []ir.Endpoint{all[0], all[len(all)-1]} {
		p := packet(b.Pod, b.PodIn, netip.AddrPortFrom(first.Addr, first.Port), s.Protocol)
		p.Remembered = e.AddrPort()
		b.send(p, b.Host)
	}
}
