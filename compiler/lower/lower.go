package lower

import "svcc/ir"

// Lower gives the Graph of a Program. Entries stand in the Program's order.
func Lower(p *ir.Program) *ir.Graph {
	g := &ir.Graph{Family: p.Family, Node: p.Node, Options: p.Options, Known: p.Known}
	for _, s := range p.Services {
		w := ways{options: &p.Options, port: s}
		w.cluster = w.balance(ir.PartClusterShare, s.Cluster)
		w.local = w.balance(ir.PartLocalShare, s.Local)
		w.external = w.externalWay()
		for _, f := range s.Frontends {
			g.Entries = append(g.Entries, &ir.Entry{
				Frontend: f, Service: s.PortName, Next: w.way(f.Kind),
				Policy: s.Policy(f.Kind), Scheduler: s.Scheduler, AffinitySeconds: s.AffinitySeconds,
			})
		}
		if s.HealthCheckNodePort != 0 {
			g.OpenPorts = append(g.OpenPorts, ir.OpenPort{Port: s.HealthCheckNodePort, Service: s.PortName})
		}
	}
	return g
}

// ways holds the steps of one service port that its frontends share.
type ways struct {
	options        *ir.Options
	port           *ir.ServicePort
	cluster, local ir.Step // nil without endpoints
	external       ir.Step
	firewall       ir.Step
}

func (w *ways) label(p ir.Part) ir.Label { return ir.Label{Service: w.port.PortName, Part: p} }

func (w *ways) balance(part ir.Part, eps []ir.Endpoint) ir.Step {
	if len(eps) == 0 {
		return nil
	}
	return &ir.Balance{Label: w.label(part), Endpoints: eps, AffinitySeconds: w.port.AffinitySeconds}
}

func (w *ways) way(k ir.FrontendKind) ir.Step {
	switch {
	case k == ir.ClusterIP:
		return w.internalWay()
	case k == ir.LoadBalancer && w.port.Usable && len(w.port.SourceRanges) > 0:
		if w.firewall == nil {
			w.firewall = &ir.Guard{
				Label: w.label(ir.PartFirewall),
				If:    ir.Condition{Sources: w.port.AllowedSources()},
				Then:  w.external,
				Else:  &ir.Refuse{Reason: ir.SourceRefused},
			}
		}
		return w.firewall
	}
	return w.external
}

// share is the balance for a policy, or the reason why there is none.
func (w *ways) share(p ir.Policy) ir.Step {
	b := w.cluster
	if p == ir.Local {
		b = w.local
	}
	switch {
	case b != nil:
		return b
	case w.port.Usable:
		return &ir.Refuse{Reason: ir.NoLocalEndpoints}
	}
	return &ir.Refuse{Reason: ir.NoEndpoints}
}

// internalWay masquerades clients that are no pods: replies to them would not
// come back through this node otherwise.
func (w *ways) internalWay() ir.Step {
	b := w.share(w.port.InternalPolicy)
	if _, refused := b.(*ir.Refuse); refused {
		return b
	}
	switch {
	case w.options.MasqueradeAll:
		return &ir.Masquerade{Next: b}
	case w.options.Pods.Kind != ir.DetectNone:
		return &ir.Guard{If: ir.Condition{FromPod: true}, Then: b, Else: &ir.Masquerade{Next: b}}
	case w.options.Facts().BindsAddresses:
		return &ir.Guard{If: ir.Condition{FromNode: true}, Then: &ir.Masquerade{Next: b}, Else: b}
	}
	return b
}

// externalWay short-cuts policy Local for pods and the node itself: they are
// inside, where every endpoint is reachable.
func (w *ways) externalWay() ir.Step {
	ext := w.label(ir.PartExternal)
	if w.cluster == nil {
		return w.share(w.port.ExternalPolicy)
	}
	if w.port.ExternalPolicy == ir.Cluster {
		return &ir.Masquerade{Label: ext, Next: w.cluster}
	}
	node := &ir.Guard{
		Label: ext,
		If:    ir.Condition{FromNode: true},
		Then:  &ir.Masquerade{Next: w.cluster},
		Else:  w.share(ir.Local),
	}
	if w.options.Pods.Kind == ir.DetectNone {
		return node
	}
	return &ir.Guard{Label: ext, If: ir.Condition{FromPod: true}, Then: w.cluster, Else: node}
}
