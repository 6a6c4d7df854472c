package golden

import (
	"net/netip"
	"slices"

	"svcc/golden/lab"
	"svcc/ir"
	"svcc/ir/eval"
)

// clientPort is the port from which packets are sent where it does not matter.
const clientPort = 40000

// defaults are addresses for a family where the case names none.
type defaults struct{ node, loopback, outside, pod netip.Addr }

var byFamily = map[ir.Family]defaults{
	ir.IPv4: {netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("127.0.0.1"),
		netip.MustParseAddr("198.51.100.77"), netip.MustParseAddr("10.244.1.99")},
	ir.IPv6: {netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("::1"),
		netip.MustParseAddr("2001:db8:77::77"), netip.MustParseAddr("fd00:10:244:1::99")},
}

// World is where the packets of one family's trace lines are sent: what the
// compiler found out about node and cluster.
type World struct {
	Family    ir.Family
	NodeIP    netip.Addr
	Pods      ir.Detector
	Endpoints []netip.Addr
	Bears     map[netip.Addr]bool // service addresses that the node bears itself
	Scheduler string              // of their virtual servers
}

// WorldOf is the world of a Program.
func WorldOf(p *ir.Program) World {
	w := World{Family: p.Family, NodeIP: p.Node.IP, Pods: p.Options.Pods, Bears: map[netip.Addr]bool{}}
	if !w.NodeIP.IsValid() {
		w.NodeIP = byFamily[p.Family].node
	}
	if v := p.Options.Virtual; v != nil {
		w.Scheduler = v.Scheduler
	}
	for _, s := range p.Services {
		for _, e := range s.Reachable() {
			w.Endpoints = append(w.Endpoints, e.Addr)
		}
		for _, f := range s.Frontends {
			if v := p.Options.Virtual; v != nil && f.Kind != ir.NodePort && v.Bears(f.Addr) {
				w.Bears[f.Addr] = true
			}
		}
	}
	return w
}

// Host is the node of a trace line.
func (w World) Host(t Trace) eval.Host {
	return eval.Host{Addrs: append([]netip.Addr{w.NodeIP}, t.Local...)}
}

// Packet is the packet of a trace line, with whatever the line leaves open.
func (w World) Packet(t Trace) eval.Packet {
	src := t.Src
	if !src.IsValid() {
		src = w.source(t)
	}
	return eval.Packet{Src: netip.AddrPortFrom(src, clientPort), Dst: t.Dst, Protocol: t.Protocol,
		In: w.via(t), State: t.State, Mark: t.Mark}
}

// via is the interface by which a packet arrives.
func (w World) via(t Trace) string {
	switch {
	case t.Via != "":
		return t.Via
	case t.From == Node:
		return ""
	case t.From == Outside:
		return lab.Outside
	case w.Pods.Kind == ir.DetectBridge:
		return w.Pods.Interface
	case w.Pods.Kind == ir.DetectInterface:
		return w.Pods.Interface + "0"
	}
	return lab.Pods
}

// source is an address that suits the sender; for the node, the one that the
// kernel would choose.
func (w World) source(t Trace) netip.Addr {
	d := byFamily[w.Family]
	switch {
	case t.From == Outside:
		return d.outside
	case t.From == Node && t.Dst.Addr().IsLoopback():
		return d.loopback
	case t.From == Node && (w.Bears[t.Dst.Addr()] || w.Host(t).Local(t.Dst.Addr())):
		return t.Dst.Addr()
	case t.From == Node:
		return w.NodeIP
	case w.Pods.Kind == ir.DetectCIDR:
		return w.pod()
	}
	return d.pod
}

// pod is an address in the pods' range that is neither an endpoint nor the
// node.
func (w World) pod() netip.Addr {
	p := w.Pods.Prefix.Masked()
	free := p.Addr()
	for a, i := p.Addr().Next(), 1; p.Contains(a) && i < 100; a, i = a.Next(), i+1 {
		if a != w.NodeIP && !slices.Contains(w.Endpoints, a) {
			free = a
		}
	}
	return free
}

// flows are the packets by which the kernel judges a line.
func (w World) flows(t Trace, port uint16) []lab.Flow {
	flows := t.Flows(w.Packet(t), port)
	if len(w.Bears) == 0 || !t.Sticky() || w.sameClient(t) {
		return flows
	}
	src := flows[0].Src.Addr()
	for i := range flows {
		if i > 0 && i%2 == 0 {
			src = w.anotherClient(src)
		}
		flows[i].Src = netip.AddrPortFrom(src, flows[i].Src.Port())
	}
	return flows
}

// sameClient says that a line's packets are of one client that cannot be made to
// be forgotten: IPVS keeps it, and the line says who it is.
func (w World) sameClient(t Trace) bool {
	return len(w.Bears) > 0 && t.Sticky() && (t.Src.IsValid() || t.From == Node)
}

// oneSided says that a line's packets need not meet each alternative.
func (w World) oneSided(t Trace) bool {
	return w.sameClient(t) || w.Scheduler != "" && w.Scheduler != "rr"
}

// anotherClient is the next address that is neither an endpoint nor the node.
func (w World) anotherClient(a netip.Addr) netip.Addr {
	for a = a.Next(); slices.Contains(w.Endpoints, a) || a == w.NodeIP; {
		a = a.Next()
	}
	return a
}
