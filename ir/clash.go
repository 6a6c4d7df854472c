package ir

import "net/netip"

// Clash is what virtual servers, which know a packet by its destination alone,
// cannot tell apart.
type Clash struct {
	Service *ServicePort
	// Endpoint is one that another destination's server would catch: its
	// connections would be sent on. Or it is not valid, and a destination of the
	// service port is another's as well.
	Endpoint    netip.AddrPort
	Destination netip.AddrPort
	With        PortName // the other
}

// Clashes are those of a node where destinations are exclusive, one a service port,
// in the Program's order. Nowhere else is there any.
func (p *Program) Clashes() []Clash {
	if !p.Options.Facts().ExclusiveDestinations {
		return nil
	}
	var out []Clash
	owners := map[destination]PortName{}
	for _, s := range p.Services {
		if c := p.claim(s, owners); c != nil {
			out = append(out, *c)
		}
	}
	for _, s := range p.Services {
		for _, e := range s.Reachable() {
			if with, taken := owners[destination{e.AddrPort(), s.Protocol}]; taken {
				out = append(out, Clash{Service: s, Endpoint: e.AddrPort(), With: with})
				break
			}
		}
	}
	return out
}

// destination is what a virtual server is found by.
type destination struct {
	at    netip.AddrPort
	proto Protocol
}

// claim notes a service port's destinations. Its clash, or nil, is the first that
// somebody has claimed before.
func (p *Program) claim(s *ServicePort, owners map[destination]PortName) (clash *Clash) {
	for _, f := range s.Frontends {
		for _, a := range p.Options.VirtualAddrs(f) {
			d := destination{netip.AddrPortFrom(a, f.Port), s.Protocol}
			with, taken := owners[d]
			if !taken {
				owners[d] = s.PortName
			} else if clash == nil && (with != s.PortName || f.Kind == NodePort) {
				clash = &Clash{Service: s, Destination: d.at, With: with}
			}
		}
	}
	return clash
}
