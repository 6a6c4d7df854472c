package conntrack

import (
	"net/netip"

	"svcc/ir"
)

// claims are the UDP destinations of one Program.
type claims struct {
	options ir.Options
	addrs   map[netip.AddrPort]*target
	ports   map[uint16]*target // node ports
}

// claim sorts Programs by family.
func claim(ps []*ir.Program) map[ir.Family]*claims {
	out := map[ir.Family]*claims{}
	for _, p := range ps {
		c := &claims{options: p.Options, addrs: map[netip.AddrPort]*target{}, ports: map[uint16]*target{}}
		for _, s := range p.Services {
			if s.Protocol == ir.UDP {
				c.add(s)
			}
		}
		out[p.Family] = c
	}
	return out
}

func (c *claims) add(s *ir.ServicePort) {
	t := &target{port: s}
	for _, f := range s.Frontends {
		if f.Kind == ir.NodePort {
			c.ports[f.Port] = t.beside(c.ports[f.Port])
			continue
		}
		at := netip.AddrPortFrom(f.Addr, f.Port)
		c.addrs[at] = t.beside(c.addrs[at])
	}
}

func (c *claims) empty() bool { return c == nil || len(c.addrs) == 0 && len(c.ports) == 0 }

// find gives whose a destination is, or nil. Addresses of their own come before
// node ports, as in the rules.
func (c *claims) find(dst netip.AddrPort, local func(netip.Addr) bool) *target {
	if c == nil {
		return nil
	}
	if t := c.addrs[dst]; t != nil {
		return t
	}
	if t := c.ports[dst.Port()]; t != nil && c.options.NodePortsAnswer(dst.Addr(), local) {
		return t
	}
	return nil
}

// target is a service port that a destination leads to.
type target struct {
	port    *ir.ServicePort
	serving map[netip.AddrPort]bool // made when first asked for
	also    *target                 // another that claims the same destination
}

// beside joins two claims of one destination: what serves either is healthy. A
// valid Program has none such; a file may.
func (t *target) beside(other *target) *target {
	if other == nil || other.port == t.port {
		return t
	}
	return &target{port: t.port, also: other}
}

// serves says whether answers from an address and port are an endpoint's.
func (t *target) serves(from netip.AddrPort) bool {
	if t.serving == nil {
		t.serving = make(map[netip.AddrPort]bool, len(t.port.Serving))
		for _, e := range t.port.Serving {
			t.serving[e] = true
		}
	}
	return t.serving[from] || t.also != nil && t.also.serves(from)
}
