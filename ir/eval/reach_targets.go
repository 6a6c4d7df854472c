package eval

import (
	"net/netip"
	"slices"

	"svcc/ir"
)

// targets are destinations of a box: those that no service has, and of those
// that a service has one of each kind, and some that lie within.
func (x *Reach) targets(b *Box) (out []target) {
	if b.Flows != FlowRewritten {
		for i, a := range x.destinationsOf(b) {
			for j, proto := range x.protocolsOf(b) {
				for _, port := range x.portsOf(b, a, proto) {
					out = append(out, target{netip.AddrPortFrom(a, port), proto, nil, i > 1 || j > 0})
				}
			}
		}
	}
	if _, single := b.Dst.Single(x.program.Family); !single || b.Flows == FlowRewritten {
		out = append(out, x.ownedOf(b)...)
	}
	return out
}

func (x *Reach) protocolsOf(b *Box) []ir.Protocol {
	if b.Protocol != 0 {
		return []ir.Protocol{b.Protocol}
	}
	return []ir.Protocol{ir.TCP, ir.UDP, ir.SCTP}
}

// destinationsOf are addresses of a box, if it can be those that nobody has.
func (x *Reach) destinationsOf(b *Box) []netip.Addr {
	if a, ok := b.Dst.Single(x.program.Family); ok {
		return []netip.Addr{a}
	}
	var list []netip.Addr
	if b.DstLocal != Yes && b.Hooks != Input {
		list = append(list, b.Dst.Fill(x.Nowhere))
	}
	if b.DstLocal != No && b.Hooks != Forward && b.Hooks != Postrouting {
		list = append(list, b.Dst.Fill(x.Node))
	}
	if b.DstLocal != Yes && b.Hooks != Input {
		list = append(list, b.Dst.Fill(x.Pod))
	}
	if !b.Dst.IsOpen() {
		first, last := b.Dst.ends(x.program.Family)
		list = append(list, first, last)
	}
	return distinct(list)
}

// distinct leaves out what comes again, and addresses that none can have.
func distinct(list []netip.Addr) (out []netip.Addr) {
	for _, a := range list {
		if a.IsValid() && !a.Is4In6() && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}

// discard is a port at which hardly any service is.
const discard = 9

// portsOf are ports of a box at an address: one that no service has, and the
// ends of ranges.
func (x *Reach) portsOf(b *Box, a netip.Addr, proto ir.Protocol) []uint16 {
	if b.DstPort.single() {
		return []uint16{b.DstPort.First}
	}
	var out []uint16
	if b.DstPort.IsOpen() {
		out = append(out, x.nobodys(a, proto, discard))
	} else {
		out = append(out, x.nobodys(a, proto, b.DstPort.First), b.DstPort.First, b.DstPort.Last)
	}
	for _, p := range append(out, b.Try...) {
		if b.DstPort.Contains(p) && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return slices.DeleteFunc(slices.Compact(out), func(p uint16) bool { return !b.DstPort.Contains(p) })
}

// nobodys is the first port from one on that no service has.
func (x *Reach) nobodys(a netip.Addr, proto ir.Protocol, from uint16) uint16 {
	for p := from; p >= from; p++ {
		if !x.isOwned(netip.AddrPortFrom(a, p), proto) {
			return p
		}
	}
	return from
}

// ownedOf are destinations of service ports: what a box that is wide takes from
// them is seen there alone.
func (x *Reach) ownedOf(b *Box) (out []target) {
	nat := b.Hooks&(Prerouting|Output) != 0 && b.Flows == FlowNew
	if b.Src.scattered(x.program.Family) {
		return x.telling()
	}
	for _, t := range x.kinds() {
		if !nat || x.holds(b, t) {
			out = append(out, t)
		}
	}
	f := x.program.Family
	switch {
	case !b.Orig.IsOpen():
		out = append(out, within(x.owned(), b.Orig, f, targetAddr)...)
	case nat && !b.Dst.IsOpen():
		for _, t := range within(x.owned(), b.Dst, f, targetAddr) {
			if x.holds(b, t) {
				out = append(out, t)
			}
		}
	case !b.Dst.IsOpen():
		out = append(out, x.leadingTo(b.Dst)...)
	}
	if nat && b.DstPort.single() {
		out = append(out, x.byPort(b)...)
	}
	if !b.Src.IsOpen() {
		out = append(out, x.leadingTo(b.Src)...)
	}
	return out
}

// telling are destinations where clients that nat sends on are not masqueraded.
func (x *Reach) telling() (out []target) {
	for _, t := range x.kinds() {
		if len(t.service.Reachable()) > 0 && (t.dst.Addr() == t.service.Frontends[0].Addr || t.service.ExternalPolicy == ir.Local) {
			out = append(out, t)
		}
	}
	return out[:min(len(out), 2)]
}

func targetAddr(t target) netip.Addr { return t.dst.Addr() }

// holds says whether a destination is in a box.
func (x *Reach) holds(b *Box, t target) bool {
	return b.Dst.Contains(t.dst.Addr()) && b.DstPort.Contains(t.dst.Port()) && (b.Protocol == 0 || b.Protocol == t.proto)
}

// byPort are the first destinations with a box's port.
func (x *Reach) byPort(b *Box) (out []target) {
	for _, t := range x.owned() {
		if x.holds(b, t) {
			if out = append(out, t); len(out) == 2 {
				break
			}
		}
	}
	return out
}

// leadingTo are destinations of service ports with endpoints in a box of
// addresses.
func (x *Reach) leadingTo(b Bits) (out []target) {
	for _, e := range within(x.reachable(), b, x.program.Family, func(e reachable) netip.Addr { return e.addr }) {
		out = append(out, x.targetOf(e.service, e.service.Frontends[0]))
		if at := x.open(e.service); at.IsValid() {
			out = append(out, target{at, e.service.Protocol, e.service, true})
		}
	}
	return out
}

func (x *Reach) targetOf(s *ir.ServicePort, f ir.Frontend) target {
	return target{x.destinations(f)[0], s.Protocol, s, true}
}

// kinds are destinations of service ports, one for each kind of frontend and of
// what becomes of strangers there: of those the one with the fewest endpoints.
func (x *Reach) kinds() []target {
	if x.samples != nil {
		return x.samples
	}
	type kind struct {
		frontend ir.FrontendKind
		local    bool
		guarded  bool
		empty    bool
		usable   bool
	}
	best := map[kind]*ir.ServicePort{}
	var order []kind
	at := map[kind]netip.AddrPort{}
	x.samples = []target{}
	for _, s := range x.program.Services {
		if port := s.HealthCheckNodePort; port != 0 && len(x.samples) == 0 {
			x.samples = append(x.samples, target{netip.AddrPortFrom(x.Node, port), ir.TCP, s, true})
		}
		for _, f := range s.Frontends {
			k := kind{f.Kind, s.Policy(f.Kind) == ir.Local, f.Kind == ir.LoadBalancer && len(s.SourceRanges) > 0, len(s.Endpoints(s.Policy(f.Kind))) == 0, s.Usable}
			old := best[k]
			if old != nil && len(old.Cluster) <= len(s.Cluster) {
				continue
			}
			dst := x.answering(f)
			if !dst.IsValid() {
				continue
			}
			if old == nil {
				order = append(order, k)
			}
			best[k], at[k] = s, dst
		}
	}
	for _, k := range order {
		x.samples = append(x.samples, target{at[k], best[k].Protocol, best[k], true})
	}
	return x.samples
}
