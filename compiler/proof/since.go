package proof

import (
	"net/netip"
	"reflect"

	"svcc/emit"
	"svcc/ir"
	"svcc/ir/eval"
)

// KeepsSince is Keeps where old kept was: it sends the probes only of the service
// ports that are not what they were, or to which rules lead that are not. What the
// rules ask for beyond the Program is looked at as a whole.
func KeepsSince(was *ir.Program, old emit.Walker, p *ir.Program, w emit.Walker) error {
	_, err := first(p, w, eval.Probes(since(was, old, p, w)), false)
	return err
}

// since is the part of a Program that has to be proved anew.
func since(was *ir.Program, old emit.Walker, p *ir.Program, w emit.Walker) *ir.Program {
	rules, ok := w.(emit.Comparer)
	if !ok || was.Family != p.Family || was.Node != p.Node || !reflect.DeepEqual(was.Options, p.Options) {
		return p
	}
	concerned, ok := rules.Differs(old)
	if !ok {
		return p
	}
	touched := map[emit.Destination]bool{}
	for _, d := range concerned {
		touched[d] = true
	}
	before := map[ir.PortName]*ir.ServicePort{}
	for _, s := range was.Services {
		before[s.PortName] = s
	}
	part := *p
	part.Services = nil
	for _, s := range p.Services {
		if touches(touched, s) || !same(before[s.PortName], s) {
			part.Services = append(part.Services, s)
		}
	}
	return &part
}

// same says that a service port promises what it did. Where it comes from says
// nothing of that.
func same(was, is *ir.ServicePort) bool {
	if was == nil {
		return false
	}
	a, b := *was, *is
	a.Origin, b.Origin = ir.Origin{}, ir.Origin{}
	return reflect.DeepEqual(a, b)
}

// touches says that a destination is one of a service port's own, or one that nat
// gives its packets.
func touches(touched map[emit.Destination]bool, s *ir.ServicePort) bool {
	at := func(a netip.Addr, port uint16) bool {
		return touched[emit.Destination{Addr: a, Port: port, Protocol: s.Protocol}] ||
			touched[emit.Destination{Port: port, Protocol: s.Protocol}]
	}
	for _, f := range s.Frontends {
		if at(f.Addr, f.Port) {
			return true
		}
	}
	for _, e := range s.Reachable() {
		if at(e.Addr, e.Port) {
			return true
		}
	}
	return touched[emit.Destination{Port: s.HealthCheckNodePort, Protocol: ir.TCP}]
}
