package eval

import (
	"cmp"
	"iter"
	"net/netip"
	"slices"

	"svcc/ir"
)

// Reach makes probes of what rules ask for, where the probes that a Program makes
// of itself would not come: Services that it lacks, rules that are too wide.
type Reach struct {
	*prober
	at      map[addrKey]*ir.ServicePort // who has a destination; node ports have no address
	bound   map[netip.Addr]bool         // the addresses of frontends
	health  map[uint16]*ir.ServicePort
	sources map[*ir.ServicePort]*sources
	names   map[string]bool // of service ports, as Display gives them; made when first asked
	samples []target        // one destination of each kind, made when first asked
	fronts  []target        // all destinations, sorted by address, likewise
	ends    []reachable     // all endpoints, sorted by address, likewise
}

// NewReach prepares for a Program.
func NewReach(p *ir.Program) *Reach {
	x := &Reach{
		prober: newProber(p, nil), at: map[addrKey]*ir.ServicePort{}, bound: map[netip.Addr]bool{},
		health: map[uint16]*ir.ServicePort{}, sources: map[*ir.ServicePort]*sources{},
	}
	for _, s := range p.Services {
		for _, f := range s.Frontends {
			if k := (addrKey{f.Addr, f.Port, s.Protocol}); x.at[k] == nil {
				x.at[k] = s
			}
			x.bound[f.Addr] = true
		}
		if s.HealthCheckNodePort != 0 {
			x.health[s.HealthCheckNodePort] = s
		}
	}
	return x
}

// Known says that the Program's own probes meet what a box holds: it is at a
// destination that a service port has, for clients that are told apart there.
func (x *Reach) Known(b *Box) bool {
	if b.Odd || x.clears(b) != 0 {
		return false
	}
	if b.Own && x.program.Options.Facts().ListedNodePorts && b.DstPort.single() && x.at[addrKey{port: b.DstPort.First, proto: b.Protocol}] != nil {
		return true // a node port, at an address that the node has beside those told
	}
	if b.Bound {
		a, _ := b.Dst.Single(x.program.Family)
		return x.bound[a]
	}
	s := x.owner(b)
	switch {
	case s == nil, !x.known(s).has(b, x.program):
		return false
	case b.Flows&^(FlowNew|FlowRewritten|FlowExpected) == 0 && b.Flows != FlowExpected:
		return true
	}
	return b.DstPort.single() && x.health[b.DstPort.First] == s
}

// owner is the service port at which alone a box is; nil for none.
func (x *Reach) owner(b *Box) *ir.ServicePort {
	dst, port := b.Dst, b.DstPort
	if !b.Orig.IsOpen() || !b.OrigPort.IsOpen() {
		dst, port = b.Orig, b.OrigPort
	}
	if b.Protocol == 0 || !port.single() {
		return nil
	}
	if a, ok := dst.Single(x.program.Family); ok {
		if s := x.at[addrKey{a, port.First, b.Protocol}]; s != nil || !x.answers(a) {
			return s
		}
	} else if b.DstLocal != Yes && b.Hooks != Input || !dst.Contains(x.Node) {
		return nil
	}
	if s := x.at[addrKey{port: port.First, proto: b.Protocol}]; s != nil {
		return s
	}
	if b.Protocol == ir.TCP && b.Hooks == Input {
		return x.health[port.First]
	}
	return nil
}

// answers says that the Program's own probes try node ports at an address.
func (x *Reach) answers(a netip.Addr) bool {
	return a == x.Node || a == x.loopback() || slices.Contains(x.program.Options.NodePorts.Addrs, a)
}

// sources are the clients that a service port tells apart.
type sources struct {
	endpoints map[netip.Addr]bool
	ranges    map[Bits]bool
}

func (x *Reach) known(s *ir.ServicePort) *sources {
	k := x.sources[s]
	if k != nil {
		return k
	}
	k = &sources{endpoints: map[netip.Addr]bool{}, ranges: map[Bits]bool{}}
	for _, e := range s.Reachable() {
		k.endpoints[e.Addr] = true
	}
	for _, r := range s.AllowedSources() {
		k.ranges[BitsOf(r)] = true
	}
	x.sources[s] = k
	return k
}

// has says that a box is for everybody or for clients that are told apart.
func (k *sources) has(b *Box, p *ir.Program) bool {
	pods := p.Options.Pods
	if b.In != "" && !(pods.Kind != ir.DetectCIDR && pods.Match(netip.Addr{}, b.In)) {
		return false
	}
	a, single := b.Src.Single(p.Family)
	return b.Src.IsOpen() || single && k.endpoints[a] || k.ranges[b.Src] ||
		pods.Kind == ir.DetectCIDR && b.Src == BitsOf(pods.Prefix)
}

// Probes are packets of boxes. Who gives the boxes may leave out what is Known.
// Every probe is judged by the Program, so none can be wrong: at worst it tells
// nothing.
func (x *Reach) Probes(boxes iter.Seq[*Box]) iter.Seq[Probe] {
	return func(yield func(Probe) bool) {
		x.yield, x.stopped = yield, false
		for b := range boxes {
			if x.witness(b); x.stopped {
				return
			}
		}
	}
}

// target is a destination to try.
type target struct {
	dst     netip.AddrPort
	proto   ir.Protocol
	service *ir.ServicePort // whose it is; nil for nobody's
	further bool            // new flows and ordinary marks are enough
}

// witness sends packets of a box.
func (x *Reach) witness(b *Box) {
	for _, t := range x.targets(b) {
		for _, c := range x.senders(b, t) {
			x.flows(b, t, c)
		}
	}
}

// flows sends a sender's packets in each state, and with the marks, that a box
// holds.
func (x *Reach) flows(b *Box, t target, c sender) {
	p := packet(c.addr, c.in, t.dst, t.proto)
	if !b.SrcPort.IsOpen() {
		p.Src = netip.AddrPortFrom(c.addr, b.SrcPort.First)
	}
	marks := []uint32{b.Mark}
	if bit := x.program.Options.MasqueradeMark; !t.further && bit&b.MarkMask == 0 && !x.exact(b) {
		marks = append(marks, b.Mark|bit)
	}
	if bit := x.clears(b); !t.further && bit != 0 {
		marks = append(marks, b.Mark|bit)
	}
	for _, p.State = range States {
		if !b.Flows.sends(p.State) || t.further && p.State != New {
			continue
		}
		for _, p.Mark = range marks {
			if t.service != nil && b.Hooks&(Prerouting|Output) == 0 || b.Holds == nil || b.Holds(p, p.Dst, c.host) {
				x.sendOf(b, p, c.host)
			}
		}
	}
}

// clears is a bit of other programs' marks that a box's rule clears; 0 for none.
func (x *Reach) clears(b *Box) uint32 {
	bits := b.Clears &^ b.MarkMask &^ x.program.Options.MasqueradeMark
	return bits & -bits
}

// sends says that a packet of a state is to be tried. What a rule does with new
// packets tells what it does with rare ones.
func (f Flows) sends(s State) bool {
	switch {
	case s == New:
		return f&(FlowNew|FlowRewritten) != 0
	case s == Expected || s == Untracked:
		return f&FlowNew == 0 && f&(1<<s) != 0
	}
	return f&(1<<s) != 0
}

// sendOf sends a packet under the name of whose it is.
func (x *Reach) sendOf(b *Box, p Packet, h Host) {
	// What a rule asks of packets that were rewritten, it decides for the endpoints
	// in the box; what one asks before, by chance or not, may be about any.
	probe := Probe{Packet: p, Host: h, Told: b.Service, One: b.Flows == FlowRewritten, Box: b}
	s := x.at[addrKey{p.Dst.Addr(), p.Dst.Port(), p.Protocol}]
	if s == nil && x.program.Options.NodePortsAnswer(p.Dst.Addr(), h.Local) {
		s = x.at[addrKey{port: p.Dst.Port(), proto: p.Protocol}]
	}
	at := p.Dst.String() + "/" + p.Protocol.String()
	switch {
	case s != nil:
		probe.Service, probe.Told = s.PortName.String(), ""
	case !x.exact(b):
		probe.Told = ""
	case b.Service == "":
		probe.Told = at
	case x.named(b.Service):
		probe.Told = b.Service + " at " + at
	}
	x.try(probe)
}

// named says whether a service port has a name, whatever its protocol.
func (x *Reach) named(name string) bool {
	if x.names == nil {
		x.names = map[string]bool{}
		for _, s := range x.program.Services {
			x.names[s.Display()] = true
		}
	}
	return x.names[name]
}

// exact says that a box is about one destination, or one port.
func (x *Reach) exact(b *Box) bool {
	_, single := b.Dst.Single(x.program.Family)
	return single || b.DstPort.single()
}

// reachable is an endpoint, and whose.
type reachable struct {
	addr    netip.Addr
	service *ir.ServicePort
}

// within are the first and the last of a list, sorted by address, that a box of
// addresses has. Where its mask has holes, those behind them are tried one by one.
func within[T any](list []T, b Bits, f ir.Family, addr func(T) netip.Addr) (out []T) {
	first, last := b.ends(f)
	if !b.Contains(first) {
		return nil
	}
	find := func(a netip.Addr) int {
		n, _ := slices.BinarySearchFunc(list, a, func(t T, a netip.Addr) int { return addr(t).Compare(a) })
		return n
	}
	list = list[find(first):]
	const most = 64
	for i := 0; i < len(list) && i < most && addr(list[i]).Compare(last) <= 0; i++ {
		if b.Contains(addr(list[i])) {
			out = append(out, list[i])
			break
		}
	}
	end := len(list)
	if n := last.Next(); n.IsValid() {
		end, _ = slices.BinarySearchFunc(list, n, func(t T, a netip.Addr) int { return addr(t).Compare(a) })
	}
	if end > 1 && b.Contains(addr(list[end-1])) {
		out = append(out, list[end-1])
	}
	return out
}

// owned are all destinations but node ports, sorted.
func (x *Reach) owned() []target {
	if x.fronts == nil {
		for _, s := range x.program.Services {
			for _, f := range s.Frontends {
				if f.Kind != ir.NodePort {
					x.fronts = append(x.fronts, target{netip.AddrPortFrom(f.Addr, f.Port), s.Protocol, s, true})
				}
			}
		}
		slices.SortStableFunc(x.fronts, func(a, b target) int {
			return cmp.Or(a.dst.Compare(b.dst), cmp.Compare(a.proto, b.proto))
		})
	}
	return x.fronts
}

// endpointsOf are all endpoints, sorted.
func (x *Reach) reachable() []reachable {
	if x.ends == nil {
		for _, s := range x.program.Services {
			for _, e := range s.Reachable() {
				x.ends = append(x.ends, reachable{e.Addr, s})
			}
		}
		slices.SortStableFunc(x.ends, func(a, b reachable) int { return a.addr.Compare(b.addr) })
	}
	return x.ends
}
