package eval

import (
	"net/netip"

	"svcc/ir"
)

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
		return used[a] || a == c.Node || a == c.Outside || a == c.Nowhere
	}
	pick := func(v4, v6 string) netip.Addr {
		if p.Family == ir.IPv4 {
			return stranger(netip.MustParseAddr(v4), pods, taken)
		}
		return stranger(netip.MustParseAddr(v6), pods, taken)
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
	c.Host.Addrs = append(c.Host.Addrs, p.Options.Own()...)
	return c
}

// client is a sender and the interface by which its packets come.
type client struct {
	addr netip.Addr
	in   string
}

// podEdges are clients at whom a detection that is too wide or too narrow goes
// wrong.
func (c Clients) podEdges(pods ir.Detector) (out []client) {
	switch pods.Kind {
	case ir.DetectCIDR:
		last := ir.LastOf(pods.Prefix)
		for _, x := range []client{{last, c.PodIn}, {pods.Prefix.Addr().Prev(), c.OutsideIn}, {last.Next(), c.OutsideIn}} {
			if x.addr.IsValid() {
				out = append(out, x)
			}
		}
	case ir.DetectBridge:
		out = append(out, client{c.Outside, pods.Interface + "0"})
	case ir.DetectInterface:
		if pods.Interface == "" {
			return nil
		}
		n := len(pods.Interface) - 1
		out = append(out, client{c.Pod, pods.Interface + "9z"}, client{c.Outside, pods.Interface[:n] + string(pods.Interface[n]^1) + "0"})
	}
	return out
}

// stranger is the first address from a on that is no pod's and need not be
// avoided. Where every address is a pod's, it is one of those.
func stranger(a netip.Addr, pods ir.Detector, avoid func(netip.Addr) bool) netip.Addr {
	a = free(a, avoid)
	if pods.Kind != ir.DetectCIDR || pods.Prefix.Bits() == 0 {
		return a
	}
	for pods.Prefix.Contains(a) {
		a = free(beyond(pods.Prefix), avoid)
	}
	return a
}

// beyond is an address outside a range, without a walk through it: the next
// one, or a low one if the range is the last of unicast.
func beyond(p netip.Prefix) netip.Addr {
	next := ir.LastOf(p).Next()
	switch {
	case next.IsValid() && !next.IsMulticast():
		return next
	case p.Addr().Is4():
		return netip.MustParseAddr("1.0.0.1")
	}
	return netip.MustParseAddr("2001::1")
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

// To is a new packet of the pod to a frontend; to a node port, at the node.
func (c Clients) To(f ir.Frontend, p ir.Protocol) Packet {
	a := f.Addr
	if f.Kind == ir.NodePort {
		a = c.Node
	}
	return packet(c.Pod, c.PodIn, netip.AddrPortFrom(a, f.Port), p)
}
