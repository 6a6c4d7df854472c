package eval

import (
	"fmt"
	"net/netip"
	"slices"

	"svcc/ir"
)

// NewGraph evaluates a Graph.
func NewGraph(g *ir.Graph) *Evaluator {
	e := newEvaluator(g.Options)
	for i, entry := range g.Entries {
		w := way{graph: g, start: entry.Next}
		r := &row{order: i, local: entry.Policy == ir.Local, route: w.route}
		r.guarded, r.refuse, r.delivers = asksSource(entry.Next), ir.Refusal(entry.Next), ir.Delivers(entry.Next)
		e.add(entry.Frontend, entry.Service.Protocol, r)
		if e.gap() {
			e.placeAll(entry.Service.Protocol, entry.Next)
		}
	}
	for _, o := range g.OpenPorts {
		e.open[o.Port] = true
	}
	return e
}

// placeAll is place for all steps of a way.
func (e *Evaluator) placeAll(proto ir.Protocol, way ir.Step) {
	for s := range ir.Steps(way) {
		switch s := s.(type) {
		case *ir.Balance:
			e.place(proto, s.Endpoints)
		case *ir.Deliver:
			e.place(proto, []ir.Endpoint{s.Endpoint})
		}
	}
}

// asksSource says whether a guard by source stands on a way: the filter drops then
// what still carries the destination.
func asksSource(way ir.Step) bool {
	for s := range ir.Steps(way) {
		if g, ok := s.(*ir.Guard); ok && len(g.If.Sources) > 0 {
			return true
		}
	}
	return false
}

type way struct {
	graph *ir.Graph
	start ir.Step
}

func (w way) route(p Packet, h Host) (choices, error) {
	var c choices
	for _, m := range w.graph.Masquerades {
		c.masquerade = c.masquerade || m.Holds(p.Dst, w.holds(ir.Condition{FromPod: true}, p, h))
	}
	for step := w.start; ; {
		switch s := step.(type) {
		case *ir.Guard:
			if step = s.Else; w.holds(s.If, p, h) {
				step = s.Then
			}
		case *ir.Masquerade:
			c.masquerade = c.masquerade || !s.UnlessPod || !w.holds(ir.Condition{FromPod: true}, p, h)
			step = s.Next
		case *ir.Balance:
			c.endpoints, c.sticky = s.Endpoints, s.AffinitySeconds
			return c, nil
		case *ir.Deliver:
			c.endpoints = []ir.Endpoint{s.Endpoint}
			return c, nil
		case *ir.Refuse:
			return choices{}, nil
		default:
			return choices{}, fmt.Errorf("graph: a step of type %T has no meaning", step)
		}
	}
}

func (w way) holds(c ir.Condition, p Packet, h Host) bool {
	switch {
	case c.FromPod:
		return w.graph.Options.Pods.Match(p.Src.Addr(), p.In)
	case c.FromNode:
		return h.Local(p.Src.Addr())
	}
	return slices.ContainsFunc(c.Sources, func(r netip.Prefix) bool { return r.Contains(p.Src.Addr()) })
}
