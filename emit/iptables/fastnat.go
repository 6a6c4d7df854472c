package iptables

import (
	"fmt"
	"slices"

	"svcc/ir"
)

// natTree writes what is done at a destination, in nat.
type natTree struct {
	*fast
	err error
}

func (t *natTree) fail(s ir.Step) {
	if t.err == nil {
		t.err = fmt.Errorf("a step of type %T has no rules at this level", s)
	}
}

// destination writes the rules of one destination into a chain of the tree.
func (t *natTree) destination(chain string, x leaf) {
	e := x.entry
	ms := []match{protocolOnly(e.Service.Protocol)}
	if e.Kind != ir.NodePort {
		ms = append(ms, destinationHost(e.Addr))
	}
	ms = append(ms, port(e.Port))
	t.follow(chain, t.say("%s", e.Service), e.Next, e.Service.Protocol, ms...)
}

// follow writes a step for the packets that match: in place, if it is no more
// than a mark and a target, else as a way to its chain.
func (t *natTree) follow(chain, comment string, s ir.Step, p ir.Protocol, ms ...match) {
	switch x := s.(type) {
	case *ir.Deliver:
		if !slices.Contains(ms, match(protocolOnly(p))) {
			ms = append([]match{protocolOnly(p)}, ms...) // rewriting a port asks for it
		}
		t.nat.add(chain, comment, dnat{x.Endpoint.AddrPort(), brief}, ms...)
	case *ir.Masquerade:
		if x.Label.Part != ir.PartNone {
			t.nat.add(chain, comment, goTo(t.start(s, p)), ms...)
			return
		}
		who := ms[:len(ms):len(ms)]
		if x.UnlessPod {
			who = append(who, t.pods(true)...)
		}
		t.nat.add(chain, "", t.mark(), who...)
		t.follow(chain, comment, x.Next, p, ms...)
	case *ir.Guard, *ir.Balance:
		t.nat.add(chain, comment, goTo(t.start(s, p)), ms...)
	case *ir.Refuse:
	default:
		t.fail(s)
	}
}

// start gives the chain of a step, and writes it at the first use.
func (t *natTree) start(s ir.Step, p ir.Protocol) string {
	if name := t.started[s]; name != "" {
		return name
	}
	var label ir.Label
	switch x := s.(type) {
	case *ir.Guard:
		label = x.Label
	case *ir.Masquerade:
		label = x.Label
	case *ir.Balance:
		label = x.Label
	}
	name := prefixes[label.Part] + serviceHash(label.Service)
	if label.Part == ir.PartNone || !t.nat.declare(name) {
		t.fail(s)
		return name
	}
	t.started[s] = name
	t.write(name, label.Service, s, p)
	return name
}

// write fills a chain with what a step does to every packet that comes.
func (t *natTree) write(chain string, who ir.PortName, s ir.Step, p ir.Protocol) {
	switch x := s.(type) {
	case *ir.Guard:
		t.guard(chain, who, x, p)
	case *ir.Masquerade:
		var ms []match
		if x.UnlessPod {
			ms = t.pods(true)
		}
		t.nat.add(chain, t.say("masquerade traffic for %s external destinations", who), t.mark(), ms...)
		t.write(chain, who, x.Next, p)
	case *ir.Balance:
		if x.Label.Part != ir.PartNone && t.started[s] != chain {
			t.follow(chain, "", s, p)
			return
		}
		t.balance(chain, x)
	case *ir.Deliver:
		t.follow(chain, "", s, p)
	case *ir.Refuse:
	default:
		t.fail(s)
	}
}

// guard writes a question. The node's own packets are the exception: whoever
// else comes leaves first.
func (t *natTree) guard(chain string, who ir.PortName, q *ir.Guard, p ir.Protocol) {
	switch {
	case q.If.FromPod:
		t.follow(chain, t.say("pod traffic for %s external destinations", who), q.Then, p, t.pods(false)...)
		t.write(chain, who, q.Else, p)
	case q.If.FromNode:
		if _, refused := q.Else.(*ir.Refuse); refused {
			t.nat.add(chain, "", back, sourceNotLocal)
		} else {
			t.follow(chain, t.say("local endpoints for %s external destinations", who), q.Else, p, sourceNotLocal)
		}
		t.write(chain, who, q.Then, p)
	default:
		for _, from := range q.If.Sources {
			t.follow(chain, t.say("%s allowed source", who), q.Then, p, source(from))
		}
		if _, refused := q.Else.(*ir.Refuse); !refused {
			t.fail(q.Else)
		}
	}
}

// fewEndpoints are shared out in one line of rules; above, the line is split.
const fewEndpoints = 6

// balance writes the rules of a share: clients that are remembered first.
func (t *natTree) balance(chain string, b *ir.Balance) {
	p := b.Label.Service.Protocol
	if b.AffinitySeconds > 0 {
		for _, e := range b.Endpoints {
			t.nat.add(chain, "", dnat{e.AddrPort(), brief}, protocolOnly(p), update{list: endpointChain(b.Label.Service, e), seconds: b.AffinitySeconds})
		}
	}
	t.split(chain, chain, b, b.Endpoints, splitWidth(len(b.Endpoints)))
}

// splitWidth is into how many parts a share is split so that three levels do:
// the least w with w*w*w endpoints or more.
func splitWidth(n int) int {
	w := fewEndpoints
	for w*w*w < n {
		w++
	}
	return w
}

// split shares packets out among endpoints: rule i takes its part of what is
// left, so that every endpoint gets the same.
func (t *natTree) split(chain, name string, b *ir.Balance, eps []ir.Endpoint, width int) {
	n := len(eps)
	if n <= width {
		for i, e := range eps {
			t.endpoint(chain, b, e, share{1, n - i, brief})
		}
		return
	}
	for i, rest := 0, n; rest > 0; i++ {
		size := (rest + width - i - 1) / (width - i)
		part := eps[n-rest : n-rest+size]
		var ms []match
		if size < rest {
			ms = []match{share{size, rest, brief}}
		}
		rest -= size
		if len(part) == 1 {
			t.endpoint(chain, b, part[0], share{1, rest + 1, brief})
			continue
		}
		to := natSplitPrefix + shortHash(fmt.Sprintf("%s %d", name, i))
		if !t.nat.declare(to) {
			t.fail(b)
			return
		}
		t.nat.add(chain, "", goTo(to), ms...)
		t.split(to, to, b, part, width)
	}
}

// endpoint writes the rule of one endpoint.
func (t *natTree) endpoint(chain string, b *ir.Balance, e ir.Endpoint, s share) {
	ms := []match{protocolOnly(b.Label.Service.Protocol)}
	if s.of > s.part {
		ms = append(ms, s)
	}
	if b.AffinitySeconds > 0 {
		ms = append(ms, remember(endpointChain(b.Label.Service, e)))
	}
	t.nat.add(chain, "", dnat{e.AddrPort(), brief}, ms...)
}

// pods matches packets that pods of this node sent, or those that they did not.
func (l *fast) pods(not bool) []match { return podMatch(l.g.Options.Pods, not) }
