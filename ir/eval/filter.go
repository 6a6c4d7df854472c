package eval

import (
	"slices"

	"svcc/ir"
)

// filter takes a branch from its destination (after DNAT) through the filter
// hooks and the rewriting of its source.
func (e *Evaluator) filter(p Packet, h Host, b Branch) Branch {
	local := h.Local(b.To.Addr())
	r := e.addrs[addrKey{b.To.Addr(), b.To.Port(), p.Protocol}]
	if p.In == "" {
		if b.Output = e.output(p, h, b, r); b.Output.Refused() {
			return b
		}
		b = e.postrouting(p, b)
		if local {
			b.Input = e.input(p, h, b, r)
		}
		return b
	}
	if local {
		b.Input = e.input(p, h, b, r)
		return b
	}
	if b.Forward = e.forward(p, h, b, r); b.Forward.Refused() {
		return b
	}
	return e.postrouting(p, b)
}

// postrouting rewrites the source of a marked new packet and clears the mark.
func (e *Evaluator) postrouting(p Packet, b Branch) Branch {
	if p.State.Begins() && b.Mark&e.options.MasqueradeMark != 0 {
		b.Masquerade = true
		b.Mark &^= e.options.MasqueradeMark
	}
	return b
}

func (e *Evaluator) output(p Packet, h Host, b Branch, r *row) Verdict {
	switch {
	case e.martian(p, b):
		return Drop
	case p.State != New:
		return Policy
	case r.guards():
		return Drop
	}
	return e.refusal(p, h, b, r, false)
}

func (e *Evaluator) forward(p Packet, h Host, b Branch, r *row) Verdict {
	switch {
	case p.State == New && r.guards():
		return Drop
	case p.State == Invalid && e.options.DropInvalid:
		return Drop
	case b.Mark&e.options.MasqueradeMark != 0, p.State.related():
		return Accept
	case p.State != New:
		return Policy
	}
	if v := e.refusal(p, h, b, r, false); v != Policy {
		return v
	}
	return e.refusal(p, h, b, r, true)
}

func (e *Evaluator) input(p Packet, h Host, b Branch, r *row) Verdict {
	switch {
	case e.martian(p, b):
		return Drop
	case p.State == New && r.guards():
		return Drop
	case p.Protocol == ir.TCP && e.open[b.To.Port()]:
		return Accept
	case p.State != New:
		return Policy
	}
	return e.refusal(p, h, b, r, true)
}

// martian says that a packet from elsewhere claims to be for 127.0.0.0/8: with
// route_localnet, which localhost node ports need, the kernel lets it in
// (CVE-2020-8558). Only a packet that a node port brought there may pass.
func (e *Evaluator) martian(p Packet, b Branch) bool {
	return e.options.LocalhostNodePorts && !p.State.related() && !b.DNAT &&
		b.To.Addr().Is4() && b.To.Addr().IsLoopback() && !p.Src.Addr().IsLoopback()
}

// guards says that the packet still carries a destination that source ranges
// guard, so they have not let it through, or to no endpoint.
func (r *row) guards() bool {
	return r != nil && (r.guarded || slices.ContainsFunc(r.also, (*row).guards))
}

// refusal is the verdict for a packet that still carries a destination without
// endpoints, of ClusterIPs or of external frontends.
func (e *Evaluator) refusal(p Packet, h Host, b Branch, r *row, external bool) Verdict {
	first := r.refusing(external)
	if external && h.Local(b.To.Addr()) {
		port := e.ports[portKey{b.To.Port(), p.Protocol}].refusing(external)
		if first == nil || port != nil && port.order < first.order {
			first = port
		}
	}
	switch {
	case first == nil:
		return Policy
	case first.refuse == ir.NoEndpoints:
		return Reject
	}
	return Drop
}

// refusing is the row, or one at the same destination, that refuses as external
// frontends do, or as ClusterIPs do.
func (r *row) refusing(external bool) *row {
	if r == nil {
		return nil
	}
	if r.refuse != 0 && r.external == external {
		return r
	}
	for _, other := range r.also {
		if x := other.refusing(external); x != nil {
			return x
		}
	}
	return nil
}
