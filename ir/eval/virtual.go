package eval

import (
	"net/netip"

	"svcc/ir"
)

// What follows is for a node that bears the service addresses itself
// (ir.Virtual, IPVS mode). A packet to one of them is for the node, so it meets
// INPUT, and behind it the virtual server, which sends it on by OUTPUT. FORWARD
// is not on its way.
//
// Three things differ from a node of rules by decision, since there is no other
// way or a better one. A port without endpoints refuses everybody, the node
// itself included. A port of a service address that no service has is refused
// rather than passed on. And whether a server sends on what conntrack takes for
// invalid depends on flags that are not modelled: at the service addresses it is
// dropped, as it is where it would be forwarded.
// Of a packet that is refused only the verdict counts: some are refused at INPUT,
// some behind it.

// bears says that the node bears an address for the sake of a service.
func (e *Evaluator) bears(a netip.Addr) bool { return e.borne[a] }

// bear notes a frontend's address.
func (e *Evaluator) bear(f ir.Frontend) {
	if v := e.options.Virtual; v != nil && f.Kind != ir.NodePort && v.Bears(f.Addr) {
		e.borne[f.Addr] = true
	}
}

// hairpin says that a client which is the chosen endpoint itself is recognised.
func (e *Evaluator) hairpin(p Packet, ep ir.Endpoint) bool {
	return ep.Addr == p.Src.Addr() && (!e.gap() || e.here[addrKey{ep.Addr, ep.Port, p.Protocol}])
}

// gap says that only endpoints of this node are recognised as their own clients.
func (e *Evaluator) gap() bool {
	return e.options.Virtual != nil && e.options.Virtual.HairpinLocal
}

// place notes which of the endpoints that packets are sent to are on this node.
// Who is its own client is asked of the endpoint, by whatever service port it was
// reached: one that names no node for it has it recognised if another does.
func (e *Evaluator) place(proto ir.Protocol, endpoints []ir.Endpoint) {
	for _, ep := range endpoints {
		if ep.Local {
			e.here[addrKey{ep.Addr, ep.Port, proto}] = true
		}
	}
}

// byNat says that a packet which an endpoint is chosen for is sent there by nat,
// before virtual servers see it: where the answer depends on who asks.
func (e *Evaluator) byNat(p Packet, h Host) bool {
	r := e.at(p.Dst, p.Protocol, h)
	inside := e.options.Pods.Match(p.Src.Addr(), p.In) || h.Local(p.Src.Addr())
	return r != nil && r.external && r.local && inside
}

// at is the row of a destination. An address and a node port do not share one
// (ir.Program.Clashes).
func (e *Evaluator) at(dst netip.AddrPort, proto ir.Protocol, h Host) *row {
	if r := e.addrs[addrKey{dst.Addr(), dst.Port(), proto}]; r != nil {
		return r
	}
	if e.options.NodePortsAnswer(dst.Addr(), h.Local) {
		return e.ports[portKey{dst.Port(), proto}]
	}
	return nil
}

// virtually takes a branch through the hooks of such a node. hairpin says that
// the client is the endpoint.
func (e *Evaluator) virtually(p Packet, h Host, b Branch, hairpin bool) Branch {
	served := b.DNAT && !e.byNat(p, h)
	out := e.hooks(p, h, b, served, hairpin)
	if v := out.Verdict(); v.Refused() {
		return Branch{Share: b.Share, To: p.Dst, Output: v}
	}
	return out
}

func (e *Evaluator) hooks(p Packet, h Host, b Branch, served, hairpin bool) Branch {
	local := h.Local(b.To.Addr())
	if p.In == "" {
		if b.Output = Policy; !b.DNAT && p.State == New && e.at(p.Dst, p.Protocol, h).guards() {
			b.Output = Drop
			return b
		}
		b = e.leave(p, b, hairpin)
		if local {
			b.Input = e.arrive(p, h, b.To, false)
		}
		return b
	}
	switch {
	case served:
		if b.Input = e.arrive(p, h, p.Dst, true); b.Input.Refused() || local {
			return b
		}
		b.Output = Policy
	case local:
		b.Input = e.arrive(p, h, b.To, false)
		return b
	default:
		if b.Forward = e.pass(p, b); b.Forward.Refused() {
			return b
		}
	}
	return e.leave(p, b, hairpin)
}

// leave is POSTROUTING: a client that is its own endpoint is masqueraded there,
// by no mark.
func (e *Evaluator) leave(p Packet, b Branch, hairpin bool) Branch {
	b = e.postrouting(p, b)
	b.Masquerade = b.Masquerade || hairpin && p.State.Begins()
	return b
}

// pass is FORWARD, which refuses nothing of services.
func (e *Evaluator) pass(p Packet, b Branch) Verdict {
	switch {
	case p.State == Invalid && e.options.DropInvalid:
		return Drop
	case b.Mark&e.options.MasqueradeMark != 0, p.State.related():
		return Accept
	}
	return Policy
}

// arrive is INPUT, and the virtual server behind it that has nobody to send a
// packet to. Served packets go to an endpoint from there.
func (e *Evaluator) arrive(p Packet, h Host, at netip.AddrPort, served bool) Verdict {
	r := e.at(at, p.Protocol, h)
	switch {
	case !served && p.State == New && r != nil && (r.guarded || r.refuse == ir.NoLocalEndpoints):
		return Drop
	case !served && p.State == New && r != nil && r.refuse == ir.NoEndpoints:
		return Reject
	case p.State == Invalid && e.options.DropInvalid && e.bears(at.Addr()):
		return Drop
	case p.Protocol == ir.TCP && e.open[at.Port()]:
		return Accept
	case served, p.State != New:
		return Policy
	case r == nil && e.bears(at.Addr()):
		return Reject
	}
	return Policy
}

// fromBorne sends the node's own packets as a node sends them that bears the
// service addresses: from the address that they go to. Where source ranges guard
// it, also from another service's, and from addresses of the node in each range.
func (b *prober) fromBorne(s *ir.ServicePort, f ir.Frontend, dst netip.AddrPort) {
	if !b.program.Options.Facts().BindsAddresses || f.Kind == ir.NodePort {
		return
	}
	b.send(packet(dst.Addr(), "", dst, s.Protocol), b.Host)
	if f.Kind != ir.LoadBalancer || len(s.SourceRanges) == 0 {
		return
	}
	b.send(packet(s.Frontends[0].Addr, "", dst, s.Protocol), b.Host)
	for _, r := range spread(s.SourceRanges, max(b.hairpins, sampleRanges)) {
		for _, a := range []netip.Addr{r.Addr(), ir.LastOf(r)} {
			b.sendOne(packet(a, "", dst, s.Protocol), b.with(a))
		}
	}
}
