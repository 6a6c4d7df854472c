package irtest

import (
	"math/rand/v2"
	"net/netip"
	"slices"

	"svcc/ir"
)

// Virtual is a Program on a node that bears the service addresses itself, by the
// dice of r: some addresses of frontends are the node's own, node ports answer at
// some of its addresses, and some service ports choose a scheduler. Service ports
// that clash are left out.
func Virtual(r *rand.Rand, p *ir.Program) *ir.Program {
	out := *p
	o := &out.Options
	v := &ir.Virtual{Scheduler: ir.Schedulers[r.IntN(len(ir.Schedulers))], HairpinLocal: r.IntN(2) == 0}
	o.Virtual, o.LocalhostNodePorts, o.NodePorts = v, false, ir.NodePortAddresses{}
	v.Own = []netip.Addr{Addr(p.Family, nodes, 1), Addr(p.Family, nodes, 2)}
	out.Services = make([]*ir.ServicePort, len(p.Services))
	for i, s := range p.Services {
		c := *s
		if r.IntN(4) == 0 {
			c.Scheduler = ir.Schedulers[r.IntN(len(ir.Schedulers))]
		}
		for _, f := range s.Frontends {
			if f.Kind != ir.NodePort && f.Kind != ir.ClusterIP && r.IntN(10) == 0 {
				v.Own = append(v.Own, f.Addr)
			}
		}
		out.Services[i] = &c
	}
	slices.SortFunc(v.Own, netip.Addr.Compare)
	v.Own = slices.Compact(v.Own)
	for _, a := range v.Own {
		if r.IntN(3) > 0 {
			o.NodePorts.Addrs = append(o.NodePorts.Addrs, a)
		}
	}
	for clashes := out.Clashes(); len(clashes) > 0; clashes = out.Clashes() {
		out.Services = slices.DeleteFunc(out.Services, func(s *ir.ServicePort) bool { return s == clashes[0].Service })
	}
	return &out
}
