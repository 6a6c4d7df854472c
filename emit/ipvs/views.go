package ipvs

import (
	"fmt"
	"net/netip"

	"svcc/ir"
)

// stranger is what an entry's way is to a client that is neither a pod nor the
// node: what a virtual server can say.
type stranger struct {
	endpoints []ir.Endpoint
	refuse    ir.Reason      // why there are none
	sources   []netip.Prefix // only these may come; nil for everybody
}

// outsider follows a way as a stranger goes it.
func outsider(s ir.Step) (stranger, error) {
	switch s := s.(type) {
	case *ir.Guard:
		if len(s.If.Sources) == 0 {
			return outsider(s.Else)
		}
		if r, refused := s.Else.(*ir.Refuse); !refused || r.Reason != ir.SourceRefused {
			return stranger{}, fmt.Errorf("refused sources go another way, which virtual servers cannot")
		}
		out, err := outsider(s.Then)
		out.sources = s.If.Sources
		return out, err
	case *ir.Masquerade:
		return outsider(s.Next)
	case *ir.Balance:
		return stranger{endpoints: s.Endpoints}, nil
	case *ir.Deliver:
		return stranger{endpoints: []ir.Endpoint{s.Endpoint}}, nil
	case *ir.Refuse:
		return stranger{refuse: s.Reason}, nil
	}
	return stranger{}, fmt.Errorf("a step of type %T has no virtual server", s)
}

// asksWho says that an external entry's way depends on whether a pod or the node
// itself is the sender. A virtual server cannot tell, but nat, which comes before
// it, can.
func asksWho(e *ir.Entry) bool {
	if e.Kind == ir.ClusterIP {
		return false
	}
	for s := range ir.Steps(e.Next) {
		if g, ok := s.(*ir.Guard); ok && (g.If.FromPod || g.If.FromNode) {
			return true
		}
	}
	return false
}

// insiders is the Graph that nat is lowered from: the entries whose way depends
// on the sender, for pods and the node alone. The endpoints that these reach are
// noted as clients of themselves.
func (l *lowering) insiders() *ir.Graph {
	g := &ir.Graph{Family: l.g.Family, Node: l.g.Node, Options: l.g.Options, Known: l.g.Known}
	c := cutter{done: map[ir.Step]ir.Step{}}
	for _, e := range l.inside {
		entry := *e
		entry.Next = c.cut(e.Next)
		g.Entries = append(g.Entries, &entry)
		for s := range ir.Steps(entry.Next) {
			l.hairpins(e.Service.Protocol, s)
		}
	}
	return g
}

// hairpins notes the endpoints of a step.
func (l *lowering) hairpins(p ir.Protocol, s ir.Step) {
	switch s := s.(type) {
	case *ir.Balance:
		for _, ep := range s.Endpoints {
			l.hairpin(p, ep)
		}
	case *ir.Deliver:
		l.hairpin(p, s.Endpoint)
	}
}

// cutter makes copies of ways without what strangers do, each step once, since
// chains are named by steps.
type cutter struct{ done map[ir.Step]ir.Step }

func (c *cutter) cut(s ir.Step) ir.Step {
	g, ok := s.(*ir.Guard)
	if !ok {
		return s
	}
	if c.done[s] != nil {
		return c.done[s]
	}
	cut := *g
	c.done[s] = &cut
	switch {
	case g.If.FromNode:
		cut.Else = &ir.Refuse{Reason: ir.SourceRefused}
	case g.If.FromPod:
		cut.Else = c.cut(g.Else)
	default:
		cut.Then = c.cut(g.Then)
	}
	return &cut
}
