package eval

import (
	"net/netip"

	"svcc/ir"
)

// neighbours probes clients that differ from an endpoint in one bit. Rules may
// tell clients that are the chosen endpoint bit by bit, for all services alike,
// so each bit is tried once with an endpoint that has it and once with one that
// has it not.
func (b *prober) neighbours() {
	inside, outside := b.newBits(), b.newBits()
	for _, s := range b.program.Services {
		inside.add(s, s.Endpoints(s.Policy(s.Frontends[0].Kind)))
		if b.open(s).IsValid() {
			outside.add(s, s.Local)
		}
	}
	defer func() { b.name = "" }()
	inside.each(func(s *ir.ServicePort, src netip.Addr) {
		if b.name = s.PortName.String(); b.program.Options.Pods.Kind == ir.DetectNone || b.program.Options.Pods.Match(src, b.PodIn) {
			b.send(packet(src, b.PodIn, b.destinations(s.Frontends[0])[0], s.Protocol), b.Host)
		}
	})
	outside.each(func(s *ir.ServicePort, src netip.Addr) {
		b.name = s.PortName.String()
		b.send(packet(src, b.OutsideIn, b.open(s), s.Protocol), b.Host)
	})
}

// open is where strangers reach local endpoints without being masqueraded; not
// valid if nowhere.
func (b *prober) open(s *ir.ServicePort) netip.AddrPort {
	if s.ExternalPolicy != ir.Local || len(s.Local) == 0 {
		return netip.AddrPort{}
	}
	for _, f := range s.Frontends {
		if f.Kind == ir.ExternalIP || f.Kind == ir.NodePort || f.Kind == ir.LoadBalancer && len(s.SourceRanges) == 0 {
			return b.answering(f)
		}
	}
	return netip.AddrPort{}
}

// answering is an address at which a frontend answers on the node.
func (b *prober) answering(f ir.Frontend) netip.AddrPort {
	n := b.program.Options.NodePorts
	switch {
	case f.Kind != ir.NodePort:
		return netip.AddrPortFrom(f.Addr, f.Port)
	case n.All:
		return netip.AddrPortFrom(b.Node, f.Port)
	case len(n.Addrs) > 0:
		return netip.AddrPortFrom(n.Addrs[len(n.Addrs)-1], f.Port)
	}
	return netip.AddrPort{}
}

// bitTable holds, for each bit of an address and each value of it, an endpoint
// with that value, of the service port with the fewest endpoints.
type bitTable [][2]bitChoice

type bitChoice struct {
	service *ir.ServicePort
	addr    netip.Addr
	size    int
}

func (b *prober) newBits() bitTable { return make(bitTable, b.Nowhere.BitLen()) }

func (t bitTable) add(s *ir.ServicePort, list []ir.Endpoint) {
	if len(list) == 0 {
		return
	}
	for _, e := range []ir.Endpoint{list[0], list[len(list)-1]} {
		raw := e.Addr.AsSlice()
		for i := range t {
			c := &t[i][raw[i/8]>>(7-i%8)&1]
			if c.service == nil || len(list) < c.size {
				*c = bitChoice{s, e.Addr, len(list)}
			}
		}
	}
}

// each gives the neighbour of each endpoint in the table in its bit.
func (t bitTable) each(f func(s *ir.ServicePort, src netip.Addr)) {
	for i, pair := range t {
		for _, c := range pair {
			if c.service == nil {
				continue
			}
			raw := c.addr.AsSlice()
			raw[i/8] ^= 0x80 >> (i % 8)
			if src, _ := netip.AddrFromSlice(raw); !src.Is4In6() {
				f(c.service, src)
			}
		}
	}
}
