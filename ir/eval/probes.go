package eval

import (
	"fmt"
	"iter"
	"math"
	"net/netip"
	"slices"

	"svcc/ir"
)

// Probe is a packet that a build is proved with.
type Probe struct {
	Service string // the service port it aims at; "" for none
	// Told is what rules call a destination of no service port, or the destination;
	// "" for packets that the Program makes.
	Told   string
	Packet Packet
	Host   Host
	// One says that it is enough to look at one of the endpoints that the packet
	// may go to, once another packet has shown the shares of all: see Looks.
	One bool
	// Box is the one that the packet is a witness of; nil for none. Where One is
	// enough it is an endpoint in it.
	Box *Box
}

// Name is the service port, or what rules call one that the Program lacks; "" for
// neither.
func (p Probe) Name() string {
	if p.Service == "" && p.Told != "" {
		return p.Told + " (not in the manifests)"
	}
	return p.Service
}

// String names the service and the packet.
func (p Probe) String() string {
	if p.Name() == "" {
		return p.Packet.String()
	}
	return fmt.Sprintf("%s: %s", p.Name(), p.Packet)
}

// Probes are the packets that tell a Program from others: for every frontend
// from a pod, the node, outside, the endpoints, and the edges of pods and of
// source ranges, at its port and beside it; and packets that concern no service.
// A probe aims at a service port's own destinations, or at nobody's: a
// difference is the service's that it names.
func Probes(p *ir.Program) iter.Seq[Probe] { return probes(p, math.MaxInt) }

// Sample is Probes with less work. It is for text that one program has just
// made, where what holds for some endpoints of a service holds for all.
//
// Of large services only some endpoints are tried as clients of themselves. And
// packets that ask who is masqueraded, let in or refused look at One endpoint as
// soon as another has shown, at the same frontend, every endpoint with its share
// (Looks). What is not tried then is that a client at the edge of a range, or one
// with a mark, meets other shares than the client beside it.
func Sample(p *ir.Program) iter.Seq[Probe] { return probes(p, sampleSize) }

const (
	sampleSize   = 8
	sampleRanges = 64 // source ranges of one service, which cost alike
)

func probes(p *ir.Program, hairpins int) iter.Seq[Probe] {
	return func(yield func(Probe) bool) {
		b := newProber(p, yield)
		b.hairpins = hairpins
		b.general()
		for _, s := range p.Services {
			if b.stopped {
				return
			}
			b.service(s)
		}
		b.neighbours()
	}
}

// prober makes probes.
type prober struct {
	Clients
	program *ir.Program
	yield   func(Probe) bool
	stopped bool
	name    string                // of the service port that probes are aimed at
	edgers  []client              // the last that are pods, and the first that are not
	shared  []*ir.ServicePort     // with a node port: to be tried at others' addresses
	tried   map[netip.Prefix]bool // where that was done
	owned   map[addrKey]bool      // destinations of services; node ports without address

	turn     State // the last that was sent in turn
	hairpins int   // how many endpoints of a service are its clients at most
}

func newProber(p *ir.Program, yield func(Probe) bool) *prober {
	b := &prober{Clients: NewClients(p), program: p, yield: yield, owned: map[addrKey]bool{}, tried: map[netip.Prefix]bool{}}
	b.edgers = b.podEdges(p.Options.Pods)
	b.shared = telling(p)
	for _, s := range p.Services {
		for _, f := range s.Frontends {
			b.owned[addrKey{f.Addr, f.Port, s.Protocol}] = true
		}
		if s.HealthCheckNodePort != 0 {
			b.owned[addrKey{port: s.HealthCheckNodePort, proto: ir.TCP}] = true
		}
	}
	return b
}

// isOwned says whether a destination is a service's, or may be as a node port.
func (b *prober) isOwned(dst netip.AddrPort, proto ir.Protocol) bool {
	return b.owned[addrKey{dst.Addr(), dst.Port(), proto}] || b.owned[addrKey{port: dst.Port(), proto: proto}]
}

// beside is a port near by that no service has.
func (b *prober) beside(dst netip.AddrPort, proto ir.Protocol) netip.AddrPort {
	for i := range uint16(1000) {
		near := netip.AddrPortFrom(dst.Addr(), dst.Port()^1+2*i)
		if !b.isOwned(near, proto) {
			return near
		}
	}
	return dst
}

// ClientPort is the source port of probes; rules do not look at it.
const ClientPort = 40000

func (b *prober) send(p Packet, h Host) { b.try(Probe{Service: b.name, Packet: p, Host: h}) }

func (b *prober) try(p Probe) {
	if !b.stopped {
		b.stopped = !b.yield(p)
	}
}

func (b *prober) sampling() bool { return b.hairpins != math.MaxInt }

// sendOne sends a packet whose answer is the same for every endpoint but itself.
func (b *prober) sendOne(p Packet, h Host) {
	b.try(Probe{Service: b.name, Packet: p, Host: h, One: true})
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
	b.states(dst, proto, Established, Related, Invalid)
	p := packet(b.Outside, b.OutsideIn, dst, proto)
	for _, p.Mark = range []uint32{b.program.Options.MasqueradeMark, ^b.program.Options.MasqueradeMark} {
		b.sendOne(p, b.Host)
	}
}

// states sends a stranger's packets in states.
func (b *prober) states(dst netip.AddrPort, proto ir.Protocol, list ...State) {
	p := packet(b.Outside, b.OutsideIn, dst, proto)
	for _, p.State = range list {
		b.send(p, b.Host)
	}
}

// general probes what concerns no service: the fixed chains.
func (b *prober) general() {
	for _, a := range []netip.Addr{b.Nowhere, b.Node, b.Pod, b.loopback()} {
		dst := netip.AddrPortFrom(a, 9)
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
		marked := packet(b.Outside, b.OutsideIn, dst, ir.TCP)
		marked.Mark = b.program.Options.MasqueradeMark
		for _, marked.State = range []State{Established, Invalid} {
			b.send(marked, b.Host)
		}
	}
}

func (b *prober) service(s *ir.ServicePort) {
	b.name = s.PortName.String()
	defer func() { b.name = "" }()
	for i, f := range s.Frontends {
		for _, dst := range b.destinations(f) {
			b.frontend(s, f, dst)
			if i == 0 {
				b.first(s, f, dst)
			}
		}
		b.nodePortsAt(f)
	}
	b.endpoints(s)
	if s.HealthCheckNodePort != 0 {
		b.healthCheck(s.HealthCheckNodePort)
	}
}

// first sends odd packets to a service port's first frontend.
func (b *prober) first(s *ir.ServicePort, f ir.Frontend, dst netip.AddrPort) {
	if !b.sampling() {
		b.odd(dst, s.Protocol)
		return
	}
	p := packet(b.Outside, b.OutsideIn, dst, s.Protocol)
	for _, p.Mark = range []uint32{b.program.Options.MasqueradeMark, ^b.program.Options.MasqueradeMark} {
		b.sendOne(p, b.Host)
	}
	if !filtered(s, f.Kind) { // known has sent them else
		b.turn = b.turn%Invalid + 1
		b.states(dst, s.Protocol, b.turn)
	}
}

// healthCheck probes a port that the filter opens, and not for martians.
func (b *prober) healthCheck(port uint16) {
	dst := netip.AddrPortFrom(b.Node, port)
	b.everyone(dst, ir.TCP)
	known := packet(b.Outside, b.OutsideIn, dst, ir.TCP)
	known.State = Established
	b.send(known, b.Host)
	if !b.isOwned(dst, ir.UDP) {
		b.send(packet(b.Outside, b.OutsideIn, dst, ir.UDP), b.Host)
	}
	lo := netip.AddrPortFrom(b.loopback(), port)
	b.send(packet(b.Outside, b.OutsideIn, lo, ir.TCP), b.Host)
}

// loopback is 127.0.0.1 or ::1.
func (b *prober) loopback() netip.Addr {
	if b.program.Family == ir.IPv4 {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return netip.IPv6Loopback()
}

// destinations are the addresses at which a frontend may answer, and for node
// ports some at which it must not.
func (b *prober) destinations(f ir.Frontend) []netip.AddrPort {
	if f.Kind != ir.NodePort {
		return []netip.AddrPort{netip.AddrPortFrom(f.Addr, f.Port)}
	}
	addrs := append([]netip.Addr{b.Node, b.Nowhere, b.loopback()}, b.program.Options.NodePorts.Addrs...)
	slices.SortFunc(addrs, netip.Addr.Compare)
	var out []netip.AddrPort
	for _, a := range slices.Compact(addrs) {
		out = append(out, netip.AddrPortFrom(a, f.Port))
	}
	return out
}

func (b *prober) frontend(s *ir.ServicePort, f ir.Frontend, dst netip.AddrPort) {
	if f.Kind == ir.NodePort && b.sampling() && b.program.Options.NodePorts.All && dst.Addr() != b.Node {
		b.elsewhere(s, dst)
		return
	}
	b.everyone(dst, s.Protocol)
	b.fromBorne(s, f, dst)
	if f.Kind == ir.ClusterIP || s.ExternalPolicy == ir.Local {
		for _, c := range b.edgers { // elsewhere all clients are alike
			b.sendOne(packet(c.addr, c.in, dst, s.Protocol), b.Host)
		}
	}
	b.send(packet(b.Outside, b.OutsideIn, b.beside(dst, s.Protocol), s.Protocol), b.Host)
	other := ir.UDP
	if s.Protocol == ir.UDP {
		other = ir.TCP
	}
	if !b.isOwned(dst, other) {
		b.send(packet(b.Outside, b.OutsideIn, dst, other), b.Host)
	}
	if filtered(s, f.Kind) {
		b.known(s, dst)
	}
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
	b.sendOne(marked, b.Host)
}

// elsewhere asks whether a node port answers at an address beside the node's own.
func (b *prober) elsewhere(s *ir.ServicePort, dst netip.AddrPort) {
	b.sendOne(packet(b.Outside, b.OutsideIn, dst, s.Protocol), b.Host)
	b.sendOne(packet(b.Node, "", dst, s.Protocol), b.Host)
	if dst.Addr().IsLoopback() {
		b.sendOne(packet(dst.Addr(), "", dst, s.Protocol), b.Host)
	}
}

// filtered says that the filter has rules for a kind of frontend.
func filtered(s *ir.ServicePort, k ir.FrontendKind) bool {
	return len(s.Endpoints(s.Policy(k))) == 0 || k == ir.LoadBalancer && len(s.SourceRanges) > 0
}

// known sends packets of no new flow, which the filter must not look at.
func (b *prober) known(s *ir.ServicePort, dst netip.AddrPort) {
	bound := b.with(dst.Addr())
	for _, state := range []State{Established, Related, Invalid} {
		p := packet(b.Outside, b.OutsideIn, dst, s.Protocol)
		p.State = state
		b.send(p, b.Host)
		b.send(p, bound)
		p = packet(b.Node, "", dst, s.Protocol)
		p.State = state
		b.send(p, b.Host)
	}
}

// bound probes a frontend whose address is on one of the node's interfaces.
func (b *prober) bound(s *ir.ServicePort, dst netip.AddrPort) {
	h := b.with(dst.Addr())
	b.sendOne(packet(b.Outside, b.OutsideIn, dst, s.Protocol), h)
	b.sendOne(packet(b.Node, "", dst, s.Protocol), h)
	b.sendOne(packet(dst.Addr(), "", dst, s.Protocol), h)
}

// telling are service ports by whose node ports addresses of others are tried:
// one that masquerades strangers and one that does not.
func telling(p *ir.Program) (out []*ir.ServicePort) {
	var found [2]bool
	for _, s := range p.Services {
		open := s.ExternalPolicy == ir.Local
		kind := map[bool]int{true: 1}[open]
		if s.Frontends[len(s.Frontends)-1].Kind == ir.NodePort && len(s.Endpoints(s.ExternalPolicy)) > 0 && !found[kind] {
			found[kind] = true
			out = append(out, s)
		}
	}
	return out
}

// nodePortsAt probes node ports at the address of a frontend that the node
// bears: they answer there as well. One address of sixteen neighbours is enough.
func (b *prober) nodePortsAt(f ir.Frontend) {
	near, _ := f.Addr.Prefix(f.Addr.BitLen() - 4)
	if f.Kind == ir.NodePort || b.tried[near] {
		return
	}
	b.tried[near] = true
	defer func(name string) { b.name = name }(b.name)
	for _, s := range b.shared {
		dst := netip.AddrPortFrom(f.Addr, s.Frontends[len(s.Frontends)-1].Port)
		if !b.owned[addrKey{dst.Addr(), dst.Port(), s.Protocol}] {
			b.name = s.PortName.String()
			b.sendOne(packet(b.Outside, b.OutsideIn, dst, s.Protocol), b.with(f.Addr))
		}
	}
}
