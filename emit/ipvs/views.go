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
	asks := false
	walkSteps(e.Next, func(s ir.Step) {
		g, ok := s.(*ir.Guard)
		asks = asks || ok && (g.If.FromPod || g.If.FromNode)
	})
	return asks
}

// walkSteps visits the steps of a way.
func walkSteps(s ir.Step, visit func(ir.Step)) {
	visit(s)
	switch s := s.(type) {
	case *ir.Guard:
		walkSteps(s.Then, visit)
		walkSteps(s.Else, visit)
	case *ir.Masquerade:
		walkSteps(s.Next, visit)
	}
}

// insiders is the Graph that nat is lowered from: the entries whose way depends
// on the sender, for pods and the node alone; and whole, those that share a
// destination with another, of which one virtual server could not know.
func (l *lowering) insiders() *ir.Graph {
	g := &ir.Graph{Family: l.g.Family, Node: l.g.Node, Options: l.g.Options, Known: l.g.Known}
	c := cutter{done: map[ir.Step]ir.Step{}}
	for _, e := range l.inside {
		entry := *e
		whole := false
		for _, k := range l.keys(e) {
			whole = whole || l.shared[k] != nil
		}
		if !whole && !l.sharesWay(e) {
			entry.Next = c.cut(e.Next)
		}
		g.Entries = append(g.Entries, &entry)
		walkSteps(entry.Next, func(s ir.Step) { l.hairpins(e.Service.Protocol, s) })
	}
	return g
}

// sharesWay says that another entry of the service is delivered by nat as a
// whole, so that its steps, and thus their chains, cannot be cut.
func (l *lowering) sharesWay(e *ir.Entry) bool {
	for _, x := range l.inside {
		if x.Service != e.Service {
			continue
		}
		for _, k := range l.keys(x) {
			if l.shared[k] != nil {
				return true
			}
		}
	}
	return false
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

// findShared finds destinations that an address and a node port have in common.
func (l *lowering) findShared() {
	byKey := map[Key]*ir.Entry{}
	l.shared = map[Key][]*ir.Entry{}
	for _, e := range l.g.Entries {
		for _, k := range l.keys(e) {
			if first := byKey[k]; first != nil {
				l.shared[k] = []*ir.Entry{first, e}
			} else {
				byKey[k] = e
			}
		}
	}
}

// sharedKey leaves to the kernel what nat does not deliver of a shared
// destination: the refusal of the entry whose service comes first.
func (l *lowering) sharedKey(k Key) {
	for _, e := range l.shared[k] {
		s, err := outsider(e.Next)
		switch {
		case err != nil || s.refuse == 0:
			continue
		case s.refuse == ir.NoLocalEndpoints:
			l.add(setNoLocal, k.entry())
		case !l.has(k):
			l.state.Servers = append(l.state.Servers, &Server{Key: k, Scheduler: l.v.Scheduler})
		}
		return
	}
}

func (l *lowering) has(k Key) bool {
	for _, v := range l.state.Servers {
		if v.Key == k {
			return true
		}
	}
	return false
}
