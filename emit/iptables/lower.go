package iptables

import (
	"fmt"

	"svcc/emit/iptables/rule"
	"svcc/ir"
)

// manyEndpoints is kube-proxy's threshold above which rules of endpoints carry
// no comment.
const manyEndpoints = 1000

// lowering builds the tables of one Graph in kube-proxy's layout.
type lowering struct {
	g           *ir.Graph
	filter, nat *rule.Table
	quiet       bool // leave out the comments of endpoint rules
	part        bool // of nat alone, without hairpins: see Deliver
}

// lower lays a Graph out as kube-proxy does: chains, names, rules and their
// order (kube-proxy semantics, iptables mode).
func lower(g *ir.Graph, hooks bool) (filter, nat *rule.Table, err error) {
	l := newLowering(g)
	if hooks || g.Options.LocalhostNodePorts {
		l.filter.Chains = append(l.filter.Chains, chainFirewall)
	}
	if hooks {
		l.filter.Rules = append(l.filter.Rules, filterHooks...)
		l.nat.Rules = append(l.nat.Rules, natHooks...)
	}
	l.postrouting()
	l.localnet()
	for _, s := range services(g) {
		if err := l.service(s); err != nil {
			return nil, nil, err
		}
	}
	l.nodePorts()
	l.forward()
	return l.filter, l.nat, nil
}

func newLowering(g *ir.Graph) *lowering {
	return &lowering{
		g:      g,
		filter: &rule.Table{Name: "filter", Chains: []string{ChainServices, chainExternalServices, ChainForward, chainNodePorts, ChainProxyFirewall}},
		nat:    &rule.Table{Name: "nat", Chains: []string{ChainServices, chainNodePorts, ChainPostrouting, ChainMarkMasq}},
		quiet:  g.Known > manyEndpoints,
	}
}

// service is what the Graph says of one service port.
type service struct {
	name    ir.PortName
	entries []*ir.Entry
	open    []uint16
}

// services groups a Graph's entries by their service port, in its order.
func services(g *ir.Graph) []service {
	var out []service
	open := g.OpenPorts
	for i := 0; i < len(g.Entries); {
		s := service{name: g.Entries[i].Service}
		for j := i; i < len(g.Entries) && g.Entries[i].Service == s.name; i++ {
			s.entries = g.Entries[j : i+1]
		}
		for len(open) > 0 && open[0].Service == s.name {
			s.open, open = append(s.open, open[0].Port), open[1:]
		}
		out = append(out, s)
	}
	return out
}

func (l *lowering) natRule(chain, comment string, a rule.Action, ms ...rule.Match) {
	l.nat.Rules = append(l.nat.Rules, rule.Rule{Chain: chain, Comment: comment, Matches: ms, Action: a})
}

func (l *lowering) filterRule(chain, comment string, a rule.Action, ms ...rule.Match) {
	l.filter.Rules = append(l.filter.Rules, rule.Rule{Chain: chain, Comment: comment, Matches: ms, Action: a})
}

// postrouting clears the mark before masquerading, so that a packet that is
// routed again (encapsulated, say) is not masqueraded twice.
func (l *lowering) postrouting() {
	bit := l.g.Options.MasqueradeMark
	l.natRule(ChainPostrouting, "", rule.Return, rule.Marked{Not: true, Bit: bit})
	l.natRule(ChainPostrouting, "", rule.SetMark{Op: "xor", Bit: bit})
	l.natRule(ChainPostrouting, "kubernetes service traffic requiring SNAT", rule.Masquerade{})
	l.natRule(ChainMarkMasq, "", rule.SetMark{Op: "or", Bit: bit})
}

// localnet drops what claims to be for 127.0.0.0/8 from elsewhere: localhost
// node ports need route_localnet, which lets it in (CVE-2020-8558).
func (l *lowering) localnet() {
	if !l.g.Options.LocalhostNodePorts {
		return
	}
	lo := l.g.Family.Loopback()
	l.filterRule(chainFirewall, "block incoming localnet connections", rule.Drop,
		rule.Destination(lo), rule.SourceNot(lo), rule.States{Not: true, List: "RELATED,ESTABLISHED,DNAT"})
}

// nodePorts must come last in its chain: a load balancer's address that is
// local must meet its own rules first.
func (l *lowering) nodePorts() {
	o := &l.g.Options
	lo := l.g.Family.Loopback()
	comment := nodePortsComment
	if l.part {
		comment = nodePortsBrief // rules of another mode follow
	}
	if o.NodePorts.All {
		ms := []rule.Match{rule.DestinationLocal}
		if !o.LocalhostNodePorts {
			ms = append(ms, rule.DestinationNot(lo))
		}
		l.natRule(ChainServices, comment, rule.Jump(chainNodePorts), ms...)
		return
	}
	for _, a := range o.NodePorts.Addrs {
		l.natRule(ChainServices, comment, rule.Jump(chainNodePorts), rule.DestinationHost(a))
	}
	for _, p := range o.NodePorts.Prefixes {
		l.natRule(ChainServices, comment, rule.Jump(chainNodePorts), rule.Destination(p), rule.DestinationLocal)
	}
}

// The comments of the jump to node ports, kube-proxy's.
const (
	nodePortsBrief   = "kubernetes service nodeports"
	nodePortsComment = nodePortsBrief + "; NOTE: this must be the last rule in this chain"
)

func (l *lowering) forward() {
	if l.g.Options.DropInvalid {
		l.filterRule(ChainForward, "", rule.Drop, rule.States{List: "INVALID"})
	}
	l.filterRule(ChainForward, "kubernetes forwarding rules", rule.Accept, rule.Marked{Bit: l.g.Options.MasqueradeMark})
	l.filterRule(ChainForward, "kubernetes forwarding conntrack rule", rule.Accept, rule.States{List: "RELATED,ESTABLISHED"})
}

// service writes one service port: its frontends, then its own chains.
func (l *lowering) service(s service) error {
	c := &serviceChains{lowering: l, name: s.name, hash: serviceHash(s.name)}
	for _, e := range s.entries {
		if err := c.visit(e.Next); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	c.declare()
	for _, e := range s.entries {
		c.frontend(e)
	}
	for _, p := range s.open {
		l.filterRule(chainNodePorts, s.name.Display()+" health check node port", rule.Accept, rule.Protocol(ir.TCP), rule.Port(p))
	}
	for _, e := range s.entries {
		if e.Kind == ir.ClusterIP {
			c.internalMasquerade(e)
		}
	}
	c.externalChain()
	c.firewallChain(s.entries)
	c.balanceChain(c.cluster)
	c.balanceChain(c.local)
	for _, e := range c.reachable {
		c.endpointChain(e)
	}
	return nil
}
