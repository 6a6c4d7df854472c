package diff

import (
	"net/netip"

	"svcc/ir"
)

// claims are the destinations of service ports that change, by name. A node
// port is claimed at every address, since which are the node's is not known.
type claims struct {
	at    map[claim]string
	ports map[claim]string // without address
}

type claim struct {
	addr  netip.Addr
	port  uint16
	proto ir.Protocol
}

func claimsOf(pairs []pair) claims {
	c := claims{at: map[claim]string{}, ports: map[claim]string{}}
	for _, p := range pairs {
		name := p.some().PortName.String()
		for _, s := range []*ir.ServicePort{p.old, p.new} {
			if s != nil {
				c.add(s, name)
			}
		}
	}
	return c
}

func (c claims) add(s *ir.ServicePort, name string) {
	for _, f := range s.Frontends {
		if f.Kind == ir.NodePort {
			c.ports[claim{port: f.Port, proto: s.Protocol}] = name
		} else {
			c.at[claim{f.Addr, f.Port, s.Protocol}] = name
		}
	}
	if s.HealthCheckNodePort != 0 {
		c.ports[claim{port: s.HealthCheckNodePort, proto: ir.TCP}] = name
	}
}

// neighbour names a changed service port that meets packets of one that does
// not change: at an endpoint's own address and port, which the filter sees after
// DNAT, or at a frontend whose port is its node port too. "" if there is none.
func (c claims) neighbour(s *ir.ServicePort) string {
	for _, f := range s.Frontends {
		if name := c.ports[claim{port: f.Port, proto: s.Protocol}]; name != "" {
			return name
		}
	}
	for _, list := range [][]ir.Endpoint{s.Cluster, s.Local} {
		for _, e := range list {
			if name := c.ports[claim{port: e.Port, proto: s.Protocol}]; name != "" {
				return name
			}
			if name := c.at[claim{e.Addr, e.Port, s.Protocol}]; name != "" {
				return name
			}
		}
	}
	return ""
}
