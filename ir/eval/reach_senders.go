package eval

import (
	"net/netip"
)

// sender is who sends a packet, by which interface it comes, and the node as the
// packet finds it.
type sender struct {
	client
	host Host
}

// senders are those of a box to a destination: each kind of client where it
// leaves the source open, else the ends of what it asks.
func (x *Reach) senders(b *Box, t target) (out []sender) {
	if b.Hooks&(Prerouting|Forward|Input|Postrouting) != 0 || t.service != nil {
		for _, c := range x.arriving(b) {
			if s := (sender{c, x.hostOf(b, c, t)}); x.comesBy(b, s, t) {
				out = append(out, s)
			}
		}
	}
	if b.Hooks&^Forward != 0 || t.service != nil {
		for _, a := range x.sourcesOf(b, x.Node) {
			if s := (sender{client{a, ""}, x.hostOf(b, client{a, ""}, t)}); x.comesBy(b, s, t) {
				out = append(out, s)
			}
		}
	}
	return out
}

// arriving are clients whose packets come in.
func (x *Reach) arriving(b *Box) (out []client) {
	if b.In != "" {
		for _, a := range x.sourcesOf(b, x.Pod, x.Outside) {
			out = append(out, client{a, b.In})
		}
		return out
	}
	if b.Src.IsOpen() {
		out = []client{{x.Pod, x.PodIn}, {x.Outside, x.OutsideIn}}
		if b.SrcLocal == Yes {
			out = []client{{x.Node, x.OutsideIn}}
		}
		return out
	}
	for _, a := range x.sourcesOf(b, x.Pod, x.Outside) {
		out = append(out, client{a, x.OutsideIn})
		if x.program.Options.Pods.Match(a, x.PodIn) {
			out[len(out)-1].in = x.PodIn
		}
		if p := x.program.Options.Pods; p.Match(a, x.PodIn) != p.Match(a, x.OutsideIn) {
			out = append(out, client{a, x.OutsideIn})
		}
	}
	return out
}

// sourcesOf are sources of a box: those given where it leaves them open, else the
// ends of what it asks, something between, and endpoints within.
func (x *Reach) sourcesOf(b *Box, usual ...netip.Addr) []netip.Addr {
	f := x.program.Family
	if a, ok := b.Src.Single(f); ok {
		return []netip.Addr{a}
	}
	if b.Src.IsOpen() {
		return usual
	}
	var list []netip.Addr
	for _, a := range usual {
		list = append(list, b.Src.Fill(a))
	}
	if b.Src.scattered(f) {
		return distinct(list) // one of very many that differ in a bit
	}
	first, last := b.Src.ends(f)
	list = append(list, first, last)
	for _, e := range within(x.reachable(), b.Src, f, func(e reachable) netip.Addr { return e.addr }) {
		list = append(list, e.addr)
	}
	return distinct(list)
}

// hostOf is the node, with what a box asks to be its address.
func (x *Reach) hostOf(b *Box, c client, t target) Host {
	h := x.Host
	if t.service == nil && (x.own(b, t) || b.DstLocal == Yes || b.Hooks == Input) && !h.Local(t.dst.Addr()) {
		h = x.with(t.dst.Addr())
	}
	if (c.in == "" || b.SrcLocal == Yes) && !h.Local(c.addr) {
		h.Addrs = append(h.Addrs[:len(h.Addrs):len(h.Addrs)], c.addr)
	}
	return h
}

// own says that rules take a destination rightly for one of the node's addresses.
// Where node ports answer at every such address, rules have no need to name one.
func (x *Reach) own(b *Box, t target) bool {
	o := &x.program.Options
	return b.Own && (o.Facts().ListedNodePorts || o.NodePortsAnswer(t.dst.Addr(), func(netip.Addr) bool { return !o.NodePorts.All }))
}

// comesBy says whether a packet meets one of a box's hooks. Where it goes to a
// service port, nat decides that.
func (x *Reach) comesBy(b *Box, s sender, t target) bool {
	local := s.host.Local(t.dst.Addr())
	switch {
	case s.addr.IsLoopback() && (s.in != "" || !t.dst.Addr().IsLoopback()):
		return false // the kernel has no such packet
	case b.SrcLocal == No && s.host.Local(s.addr):
		return false
	case t.service != nil:
		return true
	case b.DstLocal == No && local:
		return false
	}
	hooks := Output
	if s.in != "" {
		hooks = Prerouting | Forward | Postrouting
		if local {
			hooks = Prerouting | Input
		}
	} else if hooks |= Postrouting; local {
		hooks |= Input
	}
	return b.Hooks&hooks != 0
}
