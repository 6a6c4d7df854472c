package eval

import (
	"slices"

	"svcc/ir"
)

// NewProgram evaluates a Program: the specification.
func NewProgram(p *ir.Program) *Evaluator {
	e := newEvaluator(p.Options)
	for i, s := range p.Services {
		v := view{program: p, port: s, allowed: ir.NewPrefixSet(s.AllowedSources()), cluster: byAddress(s.Cluster), local: byAddress(s.Local)}
		for j, f := range s.Frontends {
			v.kind = f.Kind
			e.add(f, s.Protocol, &row{order: i, local: s.ExternalPolicy == ir.Local, guarded: v.guarded(), refuse: v.refuse(), route: v.route, delivers: v.delivers()})
			if e.gap() && (j == 0 || s.Frontends[j-1].Kind != f.Kind) {
				e.place(s.Protocol, v.reached())
			}
		}
		if s.HealthCheckNodePort != 0 {
			e.open[s.HealthCheckNodePort] = true
		}
	}
	return e
}

// view is a service port as one kind of its frontends shows it.
type view struct {
	program *ir.Program
	port    *ir.ServicePort
	kind    ir.FrontendKind
	allowed ir.PrefixSet
	// The port's endpoints in the order of outcomes, which need no sorting then.
	cluster, local []ir.Endpoint
}

func byAddress(list []ir.Endpoint) []ir.Endpoint {
	return slices.SortedFunc(slices.Values(list), func(a, b ir.Endpoint) int { return a.AddrPort().Compare(b.AddrPort()) })
}

// guarded: source ranges guard load-balancer addresses only, and nothing
// where there is no endpoint at all (rejection comes first).
func (v view) guarded() bool {
	return v.kind == ir.LoadBalancer && !v.allowed.Empty() && v.port.Usable
}

// refuse is why this kind of frontend has no endpoints for strangers, or 0.
func (v view) refuse() ir.Reason {
	switch {
	case !v.port.Usable:
		return ir.NoEndpoints
	case len(v.port.Endpoints(v.port.Policy(v.kind))) == 0:
		return ir.NoLocalEndpoints
	}
	return 0
}

// route is the truth table of traffic policies (kube-proxy semantics, who gets
// what): ClusterIPs masquerade clients that are no pods; external frontends
// masquerade everybody under policy Cluster, and under policy Local lead pods
// and the node itself to all endpoints, strangers to local ones, unmasqueraded.
func (v view) route(p Packet, h Host) (choices, error) {
	s, o := v.port, &v.program.Options
	c := choices{sticky: s.AffinitySeconds}
	pod := o.Pods.Match(p.Src.Addr(), p.In)
	switch {
	case v.kind == ir.ClusterIP:
		c.endpoints = v.endpoints(s.InternalPolicy)
		c.masquerade = o.MasqueradeAll || o.Pods.Kind != ir.DetectNone && !pod
		if o.Facts().BindsAddresses && o.Pods.Kind == ir.DetectNone {
			// The node's own source would be the service address, to which no
			// reply from another node comes back.
			c.masquerade = c.masquerade || h.Local(p.Src.Addr())
		}
	case v.guarded() && !v.allowed.Contains(p.Src.Addr()):
	case s.ExternalPolicy == ir.Cluster:
		c.endpoints, c.masquerade = v.cluster, true
	case pod:
		c.endpoints = v.cluster
	case h.Local(p.Src.Addr()):
		c.endpoints, c.masquerade = v.cluster, true
	default:
		c.endpoints = v.local
	}
	return c, nil
}

// delivers says whether somebody is led to an endpoint.
func (v view) delivers() bool {
	if v.kind == ir.ClusterIP {
		return len(v.endpoints(v.port.InternalPolicy)) > 0
	}
	return len(v.cluster) > 0 || v.port.ExternalPolicy == ir.Local && len(v.local) > 0
}

// reached are all endpoints that anybody is led to.
func (v view) reached() []ir.Endpoint {
	switch {
	case v.kind == ir.ClusterIP:
		return v.endpoints(v.port.InternalPolicy)
	case v.port.ExternalPolicy == ir.Cluster:
		return v.cluster
	}
	return v.port.Reachable()
}

func (v view) endpoints(p ir.Policy) []ir.Endpoint {
	if p == ir.Local {
		return v.local
	}
	return v.cluster
}
