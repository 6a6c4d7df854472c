package ipvs

import (
	"slices"
	"strings"

	"svcc/emit"
	"svcc/emit/iptables"
	"svcc/emit/iptables/rule"
	"svcc/ir"
)

// glue makes the rules beside virtual servers: few, whatever the number of
// Services, since they ask sets. They are kube-proxy's but for these. Node ports
// are marked at the node's own addresses only, and after service addresses, so
// that a ClusterIP with the number of a node port is none. A client that is its
// own endpoint is masqueraded only if a server or nat has sent it there, and if no
// mark does it already, which would stay.
// Guards look at new connections, as in iptables mode. And chains that pods and
// the node meet first, those of inside, know external policy Local; see views.go.
func (l *lowering) glue(inside *ir.Graph, o emit.Options) ([]byte, error) {
	var delivery iptables.Delivery
	if len(inside.Entries) > 0 {
		var err error
		if delivery, err = iptables.Deliver(inside, o.Level); err != nil {
			return nil, err
		}
	}
	var text []byte
	for _, t := range []*rule.Table{l.filter(), l.nat(delivery)} {
		if o.Hooks {
			t.Rules = append(t.Rules, iptables.Hooks(t.Name, t.Chains)...)
		}
		var err error
		if text, err = rule.AppendTable(text, t); err != nil {
			return nil, err
		}
	}
	return text, nil
}

// tableOf collects the rules of one table, but for those that ask a set which holds
// nothing. Sets are named in them as in IPv4.
type tableOf struct {
	*lowering
	rule.Table
}

// rule adds a rule that asks before it comments.
func (t *tableOf) rule(chain string, early []rule.Match, comment string, a rule.Action, ms ...rule.Match) {
	for i, m := range ms {
		set, ok := m.(rule.Set)
		if !ok {
			continue
		}
		if len(t.sets[set.Name]) == 0 {
			return
		}
		ms[i] = rule.Set{Name: SetName(t.g.Family, set.Name), Sides: set.Sides}
	}
	t.Rules = append(t.Rules, rule.Rule{Chain: chain, Early: early, Comment: comment, Matches: ms, Action: a})
}

func (t *tableOf) add(chain, comment string, a rule.Action, ms ...rule.Match) {
	t.rule(chain, nil, comment, a, ms...)
}

// in asks whether a set holds the packet's destination, or more.
func in(set, sides string) rule.Set { return rule.Set{Name: set, Sides: sides} }

func (l *lowering) filter() *rule.Table {
	t := &tableOf{l, rule.Table{Name: "filter", Chains: []string{
		iptables.ChainForward, iptables.ChainNodePort, iptables.ChainProxyFirewall, iptables.ChainSourceRanges, iptables.ChainIPVSFilter, iptables.ChainIPVSOut}}}
	for _, g := range l.guards {
		if len(g.sources) > 0 {
			t.Chains = append(t.Chains, g.chain())
		}
	}
	t.firewall()
	invalid := rule.States{List: "INVALID"}
	if l.g.Options.DropInvalid {
		t.add(iptables.ChainForward, "", rule.Drop, invalid)
	}
	t.add(iptables.ChainForward, "kubernetes forwarding rules", rule.Accept, rule.Marked{Bit: l.g.Options.MasqueradeMark})
	t.add(iptables.ChainForward, "kubernetes forwarding conntrack rule", rule.Accept, rule.States{List: "RELATED,ESTABLISHED"})
	if l.g.Options.DropInvalid {
		t.add(iptables.ChainNodePort, "", rule.Drop, invalid, in(setAddresses, "dst"))
	}
	t.rule(iptables.ChainNodePort, []rule.Match{rule.ProtocolOnly(ir.TCP)}, "Kubernetes health check node port", rule.Accept, in(setHealthCheck, "dst"))
	t.access()
	t.outbound()
	return &t.Table
}

// firewall drops what source ranges do not let in, and what no local endpoint is
// there for.
func (t *tableOf) firewall() {
	t.add(iptables.ChainProxyFirewall, "Kubernetes service ip + port without local endpoints", rule.Drop, in(setNoLocal, "dst,dst"))
	t.add(iptables.ChainProxyFirewall, "Kubernetes service load balancer ip + port for load balancer with sourceRange", rule.Jump(iptables.ChainSourceRanges), in(setBalancerGuard, "dst,dst"))
	t.add(iptables.ChainSourceRanges, "Kubernetes service load balancer ip + port + source cidr for packet filter purpose", rule.Return, in(setBalancerRanges, "dst,dst,src"))
	t.add(iptables.ChainSourceRanges, "Kubernetes service load balancer ip + port + source IP for packet filter purpose", rule.Return, in(setBalancerNode, "dst,dst,src"))
	t.add(iptables.ChainSourceRanges, "", rule.Drop)
}

// access refuses what is for a service address and for none of its ports.
func (t *tableOf) access() {
	for _, set := range []string{setBalancer, setClusterIP, setExternal, setExternalLocal} {
		t.add(iptables.ChainIPVSFilter, "", rule.Return, in(set, "dst,dst"))
	}
	t.add(iptables.ChainIPVSFilter, "", rule.Reject, in(setAddresses, "dst"))
}

// outbound holds the node's own packets to source ranges. A server has sent them
// to an endpoint already when OUTPUT sees them. Where nat sends the node's packets
// to endpoints, a server sees only those that no range lets in.
func (t *tableOf) outbound() {
	chain := iptables.ChainIPVSOut
	if len(t.guards) == 0 {
		return
	}
	t.add(chain, "", rule.Return, rule.Served{Not: true})
	t.add(chain, "", rule.Return, rule.SourceNotLocal)
	for _, g := range t.guards {
		verdict := rule.Drop
		if len(g.sources) > 0 {
			verdict = rule.Jump(g.chain())
		}
		t.add(chain, "", verdict, rule.ServedAt{At: g.key.Address, Protocol: g.key.Protocol})
	}
	for _, g := range t.guards {
		for _, p := range g.sources {
			t.add(g.chain(), "", rule.Return, rule.Source(p))
		}
		if len(g.sources) > 0 {
			t.add(g.chain(), "", rule.Drop)
		}
	}
}

// chain names the one that guards the server's connections of the node.
func (g *guarded) chain() string { return iptables.GuardChain(g.key.String()) }

func (l *lowering) nat(d iptables.Delivery) *rule.Table {
	chains := []string{iptables.ChainServices, iptables.ChainPostrouting, iptables.ChainNodePort, iptables.ChainLoadBalancer, iptables.ChainMarkMasq}
	t := &tableOf{l, rule.Table{Name: "nat", Chains: slices.Concat(chains, d.Chains), Rules: d.Rules}}
	t.services()
	t.nodePorts()
	unmarked := rule.Marked{Not: true, Bit: l.g.Options.MasqueradeMark}
	sent := []rule.Match{rule.Served{}}
	if len(l.inside) > 0 {
		sent = append(sent, rule.States{List: "DNAT"})
	}
	for _, sent := range sent {
		t.rule(iptables.ChainPostrouting, []rule.Match{unmarked, sent}, "Kubernetes endpoints dst ip:port, source ip for solving hairpin purpose", rule.Masquerade{}, in(setLoopback, "dst,dst,src"))
	}
	t.add(iptables.ChainPostrouting, "", rule.Return, unmarked)
	t.add(iptables.ChainPostrouting, "", rule.SetMark{Op: "xor", Bit: unmarked.Bit})
	t.add(iptables.ChainPostrouting, "kubernetes service traffic requiring SNAT", rule.Masquerade{})
	t.add(iptables.ChainMarkMasq, "", rule.SetMark{Op: "or", Bit: unmarked.Bit})
	return &t.Table
}

// services marks who is to be masqueraded at a service address.
func (t *tableOf) services() {
	marks := rule.Jump(iptables.ChainMarkMasq)
	t.add(iptables.ChainServices, "Kubernetes service lb portal", rule.Jump(iptables.ChainLoadBalancer), in(setBalancer, "dst,dst"))
	t.add(iptables.ChainLoadBalancer, "Kubernetes service load balancer ip + port with externalTrafficPolicy=local", rule.Return, in(setBalancerLocal, "dst,dst"))
	t.add(iptables.ChainLoadBalancer, "", marks)
	t.add(iptables.ChainServices, "Kubernetes service cluster ip + port for masquerade purpose", marks, append([]rule.Match{in(setClusterIP, "dst,dst")}, t.notPods()...)...)
	t.add(iptables.ChainServices, "Kubernetes service external ip + port for masquerade and filter purpose", marks, in(setExternal, "dst,dst"))
	for _, set := range []string{setClusterIP, setBalancer, setExternal, setExternalLocal} {
		t.add(iptables.ChainServices, "", rule.Accept, in(set, "dst,dst"))
	}
	for _, a := range t.g.Options.NodePorts.Addrs {
		t.add(iptables.ChainServices, "", rule.Jump(iptables.ChainNodePort), rule.DestinationHost(a))
	}
}

// notPods is who is masqueraded at a ClusterIP. Where pods cannot be told, it is
// the node alone: its source would be the service address.
func (t *tableOf) notPods() []rule.Match {
	switch o := &t.g.Options; {
	case o.MasqueradeAll:
		return nil
	case o.Pods.Kind == ir.DetectNone:
		return []rule.Match{rule.SourceLocal}
	default:
		return iptables.Pods(o.Pods, true)
	}
}

// nodePorts marks who comes to a node port, but for those of policy Local. A port
// number of a set is of any protocol, so the rules ask for it.
func (t *tableOf) nodePorts() {
	for _, p := range []ir.Protocol{ir.TCP, ir.UDP, ir.SCTP} {
		sets, name, ends := portSets(p, true), "Kubernetes nodeport "+strings.ToUpper(p.String())+" port ", "dst"
		if p == ir.SCTP {
			ends = "dst,dst"
		}
		of := []rule.Match{rule.ProtocolOnly(p)}
		t.rule(iptables.ChainNodePort, of, name+"with externalTrafficPolicy=local", rule.Return, in(sets[1], ends))
		t.rule(iptables.ChainNodePort, of, name+"for masquerade purpose", rule.Jump(iptables.ChainMarkMasq), in(sets[0], ends))
	}
}
