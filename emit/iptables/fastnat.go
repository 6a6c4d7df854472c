package iptables

import (
	"fmt"
	"slices"

	"svcc/emit/iptables/rule"
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
	ms := []rule.Match{rule.ProtocolOnly(e.Service.Protocol)}
	if e.Kind != ir.NodePort {
		ms = append(ms, rule.DestinationHost(e.Addr))
	}
	ms = append(ms, rule.Port(e.Port))
	t.follow(chain, t.say("%s", e.Service), e.Next, e.Service.Protocol, ms...)
}

// follow writes a step for the packets that match: in place, if it is no more
// than a mark and a target, else as a way to its chain.
func (t *natTree) follow(chain, comment string, s ir.Step, p ir.Protocol, ms ...rule.Match) {
	switch x := s.(type) {
	case *ir.Deliver:
		if !slices.Contains(ms, rule.Match(rule.ProtocolOnly(p))) {
			ms = append([]rule.Match{rule.ProtocolOnly(p)}, ms...) // rewriting a port asks for it
		}
		t.nat.add(chain, comment, rule.DNAT{To: x.Endpoint.AddrPort(), Style: rule.Brief}, ms...)
	case *ir.Masquerade:
		if x.Label.Part != ir.PartNone {
			t.nat.add(chain, comment, rule.GoTo(t.start(s, p)), ms...)
			return
		}
		who := ms[:len(ms):len(ms)]
		if x.UnlessPod {
			who = append(who, t.pods(true)...)
		}
		t.nat.add(chain, "", t.mark(), who...)
		t.follow(chain, comment, x.Next, p, ms...)
	case *ir.Guard, *ir.Balance:
		t.nat.add(chain, comment, rule.GoTo(t.start(s, p)), ms...)
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
		var ms []rule.Match
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
			t.nat.add(chain, "", rule.Return, rule.SourceNotLocal)
		} else {
			t.follow(chain, t.say("local endpoints for %s external destinations", who), q.Else, p, rule.SourceNotLocal)
		}
		t.write(chain, who, q.Then, p)
	default:
		for _, from := range q.If.Sources {
			t.follow(chain, t.say("%s allowed source", who), q.Then, p, rule.Source(from))
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
			t.nat.add(chain, "", rule.DNAT{To: e.AddrPort(), Style: rule.Brief}, rule.ProtocolOnly(p), rule.Update{List: endpointChain(b.Label.Service, e), Seconds: b.AffinitySeconds})
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
			t.endpoint(chain, b, e, rule.Share{Part: 1, Of: n - i, Style: rule.Brief})
		}
		return
	}
	for i, rest := 0, n; rest > 0; i++ {
		size := (rest + width - i - 1) / (width - i)
		part := eps[n-rest : n-rest+size]
		var ms []rule.Match
		if size < rest {
			ms = []rule.Match{rule.Share{Part: size, Of: rest, Style: rule.Brief}}
		}
		rest -= size
		if len(part) == 1 {
			t.endpoint(chain, b, part[0], rule.Share{Part: 1, Of: rest + 1, Style: rule.Brief})
			continue
		}
		to := natSplitPrefix + shortHash(fmt.Sprintf("%s %d", name, i))
		if !t.nat.declare(to) {
			t.fail(b)
			return
		}
		t.nat.add(chain, "", rule.GoTo(to), ms...)
		t.split(to, to, b, part, width)
	}
}

// endpoint writes the rule of one endpoint.
func (t *natTree) endpoint(chain string, b *ir.Balance, e ir.Endpoint, s rule.Share) {
	ms := []rule.Match{rule.ProtocolOnly(b.Label.Service.Protocol)}
	if s.Of > s.Part {
		ms = append(ms, s)
	}
	if b.AffinitySeconds > 0 {
		ms = append(ms, rule.Remember(endpointChain(b.Label.Service, e)))
	}
	t.nat.add(chain, "", rule.DNAT{To: e.AddrPort(), Style: rule.Brief}, ms...)
}

// pods matches packets that pods of this node sent, or those that they did not.
func (l *fast) pods(not bool) []rule.Match { return Pods(l.g.Options.Pods, not) }
