package iptables

import (
	"slices"

	"svcc/emit/iptables/rule"
	"svcc/ir"
)

// filterTrees are the roots of the filter's look-ups, each behind its guards.
type filterTrees struct {
	guarded  []rule.Rule // drops what source ranges did not let through
	cluster  []rule.Rule // refuses ClusterIPs without endpoints
	both     []rule.Rule // refuses what the next two would, in the services' order
	external []rule.Rule // refuses external addresses without endpoints
	ports    []rule.Rule // refuses node ports without endpoints
}

// filterFixed writes the filter: one way for new forwarded connections, one for
// those to the node, one for the node's own. What it refuses it finds by trees.
func (l *fast) filterFixed() {
	t := l.plantFilter()
	chosen := rule.Rule{Matches: []rule.Match{rule.States{List: "DNAT"}}, Action: rule.Jump(l.chosenChain())}
	accepted := rule.Rule{Matches: []rule.Match{rule.Marked{Bit: l.g.Options.MasqueradeMark}}, Action: rule.Accept}

	l.forwardChain()
	l.chainOf(chainNew, t.guarded, []rule.Rule{chosen, accepted}, t.cluster, t.external)
	l.chainOf(ChainServices, t.guarded, []rule.Rule{chosen}, t.cluster)
	open := l.openPorts()
	// What comes by lo the node has sent, and OUTPUT has asked already.
	arrived := chosen
	arrived.Matches = append([]rule.Match{rule.Input{Not: true, Name: "lo"}}, chosen.Matches...)
	l.chainOf(chainExternalServices, t.guarded, []rule.Rule{arrived}, open, t.both, t.external, t.ports)
	l.localnetChain()
}

// chosenChain marks what is to be masqueraded among the connections that nat
// has sent to an endpoint, and gives its name.
func (l *fast) chosenChain() string {
	l.hairpinChain()
	if len(l.g.Masquerades) == 0 {
		return chainHairpin
	}
	l.filter.declare(chainChosen)
	for _, m := range l.g.Masquerades {
		ms := []rule.Match{rule.WasTo{Prefix: m.Prefix, ExceptLow: m.ExceptLow, ExceptHigh: m.ExceptHigh}}
		if m.UnlessPod {
			ms = append(ms, l.pods(true)...)
		}
		l.filter.add(chainChosen, "", l.mark(), ms...)
	}
	l.filter.add(chainChosen, "", rule.GoTo(chainHairpin))
	return chainChosen
}

// chainOf declares a chain with the rules given, one list after the other.
func (l *fast) chainOf(name string, lists ...[]rule.Rule) {
	l.filter.declare(name)
	for _, list := range lists {
		for _, r := range list {
			l.filter.add(name, r.Comment, r.Action, r.Matches...)
		}
	}
}

// forwardChain sorts forwarded packets by state; most are of known flows.
func (l *fast) forwardChain() {
	l.filter.declare(ChainForward)
	l.filter.add(ChainForward, "", rule.GoTo(chainNew), rule.States{List: "NEW"})
	if l.g.Options.DropInvalid {
		l.filter.add(ChainForward, "", rule.Drop, rule.States{List: "INVALID"})
	}
	l.filter.add(ChainForward, "", rule.Accept, rule.Marked{Bit: l.g.Options.MasqueradeMark})
	l.filter.add(ChainForward, "", rule.Accept, rule.States{List: "RELATED,ESTABLISHED"})
}

// openPorts lets health checks in. They are asked for in any state, so there is
// a hook of their own as well; new connections must meet them before what is
// refused.
func (l *fast) openPorts() []rule.Rule {
	if len(l.g.OpenPorts) == 0 {
		return nil
	}
	var leaves []leaf
	seen := map[key]bool{}
	for _, o := range l.g.OpenPorts {
		f := ir.Frontend{Kind: ir.NodePort, Port: o.Port}
		k := newKey(f, ir.TCP)
		if !seen[k] {
			seen[k] = true
			leaves = append(leaves, leaf{k, &ir.Entry{Frontend: f, Service: o.Service}})
		}
	}
	l.filter.declare(chainNodePorts)
	plantAt(l.filter, newTrie(leaves), chainNodePorts, filterTree+"H", func(chain string, x leaf) {
		l.filter.add(chain, l.say("%s health check node port", x.entry.Service), rule.Accept, rule.ProtocolOnly(ir.TCP), rule.Port(x.entry.Port))
	})
	return []rule.Rule{{Action: rule.Jump(chainNodePorts), Matches: []rule.Match{rule.ProtocolOnly(ir.TCP)}}}
}

// localnetChain is kube-proxy's, under its name.
func (l *fast) localnetChain() {
	if !l.g.Options.LocalhostNodePorts {
		return
	}
	lo := l.g.Family.Loopback()
	l.filter.declare(chainFirewall)
	l.filter.add(chainFirewall, "", rule.Drop,
		rule.Destination(lo), rule.SourceNot(lo), rule.States{Not: true, List: "RELATED,ESTABLISHED,DNAT"})
}

// plantFilter writes the trees and gives the rules that lead to them.
func (l *fast) plantFilter() filterTrees {
	var firewalled, cluster, external, ports []leaf
	for _, e := range l.g.Entries {
		x := leaf{newKey(e.Frontend, e.Service.Protocol), e}
		if q, ok := e.Next.(*ir.Guard); ok && len(q.If.Sources) > 0 {
			firewalled = append(firewalled, x)
		}
		if ir.Refusal(e.Next) == 0 {
			continue
		}
		switch e.Kind {
		case ir.ClusterIP:
			cluster = append(cluster, x)
		case ir.NodePort:
			ports = append(ports, x)
		default:
			external = append(external, x)
		}
	}
	firewalled, external = distinct(firewalled), distinct(external)
	return filterTrees{
		guarded:  guarded(l.filter, firewalled, filterTree+"F", l.dropGuarded),
		cluster:  guarded(l.filter, cluster, filterTree+"C", l.refuse),
		both:     guarded(l.filter, portFirst(external, ports), filterTree+"B", l.refuse),
		external: guarded(l.filter, external, filterTree+"X", l.refuse),
		ports:    l.filterPorts(ports),
	}
}

// distinct leaves out destinations that a frontend before has: of one service port,
// they are refused alike.
func distinct(leaves []leaf) []leaf {
	seen := make(map[key]bool, len(leaves))
	return slices.DeleteFunc(leaves, func(x leaf) bool {
		again := seen[x.key]
		seen[x.key] = true
		return again
	})
}

// portFirst finds the external addresses whose port is a node port too, where
// both are refused, the node port for another reason and by an earlier service:
// if such an address is the node's, the earlier service's reason counts.
func portFirst(external, ports []leaf) []leaf {
	earlier := map[key]*ir.Entry{}
	for _, x := range ports {
		earlier[x.key] = x.entry
	}
	var out []leaf
	for _, x := range external {
		port := earlier[newKey(ir.Frontend{Kind: ir.NodePort, Port: x.entry.Port}, x.key.protocol())]
		if port == nil || port.Service.Compare(x.entry.Service) > 0 || ir.Refusal(port.Next) == ir.Refusal(x.entry.Next) {
			continue
		}
		out = append(out, leaf{x.key, &ir.Entry{Frontend: x.entry.Frontend, Service: port.Service, Next: port.Next}})
	}
	return out
}

// filterPorts plants the tree of node ports, which any local address has here,
// whatever the addresses at which they answer: so kube-proxy does it.
func (l *fast) filterPorts(leaves []leaf) []rule.Rule {
	if len(leaves) == 0 {
		return nil
	}
	root := filterTree + "PORTS"
	l.filter.declare(root)
	plantAt(l.filter, newTrie(leaves), root, filterTree+"P", l.refuse)
	var out []rule.Rule
	for _, between := range spans(leaves) {
		out = append(out, rule.Rule{Matches: append(slices.Clone(between), rule.DestinationLocal), Action: rule.Jump(root)})
	}
	return out
}

func (l *fast) dropGuarded(chain string, x leaf) {
	l.filter.add(chain, l.say("%s traffic from sources not allowed", x.entry.Service), rule.Drop, x.match()...)
}

func (l *fast) refuse(chain string, x leaf) {
	verdict, why := rule.Reject, "%s has no endpoints"
	if ir.Refusal(x.entry.Next) == ir.NoLocalEndpoints {
		verdict, why = rule.Drop, "%s has no local endpoints"
	}
	l.filter.add(chain, l.say(why, x.entry.Service), verdict, x.match()...)
}

// match holds for packets to exactly this destination.
func (x leaf) match() []rule.Match {
	ms := []rule.Match{rule.ProtocolOnly(x.key.protocol())}
	if x.entry.Kind != ir.NodePort {
		ms = append(ms, rule.DestinationHost(x.entry.Addr))
	}
	return append(ms, rule.Port(x.entry.Port))
}
