package iptables

import (
	"fmt"
	"net/netip"
	"slices"

	"svcc/emit/iptables/rule"
	"svcc/ir"
)

// serviceChains are the chains of one service port, as its steps need them.
type serviceChains struct {
	*lowering
	name               ir.PortName
	hash               string
	external, firewall ir.Step
	cluster, local     *ir.Balance
	reachable          []ir.Endpoint          // of both shares, in order, each once
	endpointChains     map[ir.Endpoint]string // their chains
}

// visit finds the steps of a way that have chains of their own.
func (c *serviceChains) visit(way ir.Step) error {
	for s := range ir.Steps(way) {
		switch s := s.(type) {
		case *ir.Guard:
			c.own(s.Label.Part, s)
		case *ir.Masquerade:
			c.own(s.Label.Part, s)
		case *ir.Balance:
			if s.Label.Part == ir.PartLocalShare {
				c.local = s
			} else {
				c.cluster = s
			}
		case *ir.Refuse:
		default:
			return fmt.Errorf("a step of type %T has no rules at this level", s)
		}
	}
	return nil
}

// own notes the first step of a part: the one that its chain starts with.
func (c *serviceChains) own(p ir.Part, s ir.Step) {
	switch {
	case p == ir.PartExternal && c.external == nil:
		c.external = s
	case p == ir.PartFirewall && c.firewall == nil:
		c.firewall = s
	}
}

func (c *serviceChains) chain(p ir.Part) string { return prefixes[p] + c.hash }

// target is the chain that a step begins; "" for a step without one.
func (c *serviceChains) target(s ir.Step) string {
	switch s := s.(type) {
	case *ir.Guard:
		return c.labelled(s.Label.Part)
	case *ir.Masquerade:
		return c.labelled(s.Label.Part)
	case *ir.Balance:
		return c.chain(s.Label.Part)
	}
	return ""
}

func (c *serviceChains) labelled(p ir.Part) string {
	if p == ir.PartNone {
		return ""
	}
	return c.chain(p)
}

// declare lists the chains in kube-proxy's order.
func (c *serviceChains) declare() {
	add := func(name string) { c.nat.Chains = append(c.nat.Chains, name) }
	if c.external != nil {
		add(c.chain(ir.PartExternal))
	}
	if c.firewall != nil {
		add(c.chain(ir.PartFirewall))
	}
	if c.cluster != nil {
		add(c.chain(ir.PartClusterShare))
	}
	if c.local != nil {
		add(c.chain(ir.PartLocalShare))
	}
	c.reachable = c.endpoints()
	c.endpointChains = make(map[ir.Endpoint]string, len(c.reachable))
	for _, e := range c.reachable {
		name := endpointChain(c.name, e)
		c.endpointChains[e] = name
		add(name)
	}
}

// endpoints is the union of both shares.
func (c *serviceChains) endpoints() []ir.Endpoint {
	var all []ir.Endpoint
	for _, b := range []*ir.Balance{c.cluster, c.local} {
		if b != nil {
			all = append(all, b.Endpoints...)
		}
	}
	if c.cluster == nil || c.local == nil {
		return all
	}
	slices.SortFunc(all, ir.CompareEndpoints)
	return slices.Compact(all)
}

// frontend writes the rules that match an entry's destination.
func (c *serviceChains) frontend(e *ir.Entry) {
	name := c.name.Display()
	what := map[ir.FrontendKind]string{
		ir.ClusterIP: " cluster IP", ir.ExternalIP: " external IP", ir.LoadBalancer: " loadbalancer IP", ir.NodePort: "",
	}[e.Kind]
	if to := c.first(e.Next); to != "" {
		chain := ChainServices
		if e.Kind == ir.NodePort {
			chain = chainNodePorts
		}
		c.natRule(chain, name+what, rule.Jump(to), c.destination(e, nil)...)
	}
	if g, ok := e.Next.(*ir.Guard); ok && g.Label.Part == ir.PartFirewall {
		c.filterRule(ChainProxyFirewall, fmt.Sprintf("%s traffic not accepted by %s", name, c.chain(ir.PartFirewall)), rule.Drop, c.destination(e, nil)...)
	}
	c.refusal(e)
}

// first is the chain that an entry jumps to: an unlabelled question about the
// client is asked inside the balance's chain (see internalMasquerade).
func (c *serviceChains) first(s ir.Step) string {
	if to := c.target(s); to != "" {
		return to
	}
	switch s := s.(type) {
	case *ir.Guard:
		return c.target(s.Then)
	case *ir.Masquerade:
		return c.target(s.Next)
	}
	return ""
}

// destination matches an entry's protocol, address and port.
func (c *serviceChains) destination(e *ir.Entry, local []rule.Match) []rule.Match {
	ms := append(local, rule.Protocol(c.name.Protocol))
	if e.Kind != ir.NodePort {
		ms = append(ms, rule.DestinationHost(e.Addr))
	}
	return append(ms, rule.Port(e.Port))
}

// refusal writes the filter's verdict for a frontend without endpoints.
func (c *serviceChains) refusal(e *ir.Entry) {
	reason := ir.Refusal(e.Next)
	if reason == 0 {
		return
	}
	verdict, comment := rule.Reject, " has no endpoints"
	if reason == ir.NoLocalEndpoints {
		verdict, comment = rule.Drop, " has no local endpoints"
	}
	switch e.Kind {
	case ir.ClusterIP:
		c.filterRule(ChainServices, c.name.Display()+comment, verdict, c.destination(e, nil)...)
	case ir.NodePort:
		c.filterRule(chainExternalServices, c.name.Display()+comment, verdict, c.destination(e, []rule.Match{rule.DestinationLocal})...)
	default:
		c.filterRule(chainExternalServices, c.name.Display()+comment, verdict, c.destination(e, nil)...)
	}
}

// internalMasquerade marks ClusterIP connections of clients that are no pods.
func (c *serviceChains) internalMasquerade(e *ir.Entry) {
	ms := c.destination(e, nil)
	switch e.Next.(type) {
	case *ir.Guard:
		ms = append(ms, c.pods(true)...)
	case *ir.Masquerade:
	default:
		return
	}
	c.natRule(c.first(e.Next), c.name.Display()+" cluster IP", rule.Jump(ChainMarkMasq), ms...)
}

// pods matches packets that pods of this node sent, or those that they did not.
func (c *serviceChains) pods(not bool) []rule.Match { return Pods(c.g.Options.Pods, not) }

// Pods recognises pods as a detector does; nothing if it does not.
func Pods(d ir.Detector, not bool) []rule.Match {
	switch d.Kind {
	case ir.DetectCIDR:
		return []rule.Match{rule.Address{Flag: "-s", Not: not, Prefix: d.Prefix}}
	case ir.DetectBridge:
		return []rule.Match{rule.Input{Not: not, Name: d.Interface}}
	case ir.DetectInterface:
		return []rule.Match{rule.Input{Not: not, Name: d.Interface + "+"}}
	}
	return nil
}

// externalChain tells external clients from pods and the node itself.
func (c *serviceChains) externalChain() {
	chain, ext := c.chain(ir.PartExternal), c.name.Display()+" external destinations"
	for step := c.external; step != nil; {
		switch s := step.(type) {
		case *ir.Masquerade:
			c.natRule(chain, "masquerade traffic for "+ext, rule.Jump(ChainMarkMasq))
			step = s.Next
		case *ir.Guard:
			if s.If.FromPod {
				c.natRule(chain, "pod traffic for "+ext, rule.Jump(c.target(s.Then)), c.pods(false)...)
			} else {
				c.natRule(chain, "masquerade LOCAL traffic for "+ext, rule.Jump(ChainMarkMasq), rule.SourceLocal)
				c.natRule(chain, "route LOCAL traffic for "+ext, rule.Jump(c.target(s.Then.(*ir.Masquerade).Next)), rule.SourceLocal)
			}
			step = s.Else
		case *ir.Balance:
			c.natRule(chain, "", rule.Jump(c.target(s)))
			step = nil
		default:
			step = nil
		}
	}
}

// firewallChain lets the allowed sources through; what falls off its end is
// dropped in the filter.
func (c *serviceChains) firewallChain(entries []*ir.Entry) {
	g, ok := c.firewall.(*ir.Guard)
	if !ok {
		return
	}
	chain := c.chain(ir.PartFirewall)
	pass := func(from rule.Match) {
		c.natRule(chain, c.name.Display()+" loadbalancer IP", rule.Jump(c.target(g.Then)), from)
	}
	ranges := c.sourceRanges(g.If.Sources, entries)
	for _, p := range g.If.Sources[:ranges] {
		pass(rule.Source(p))
	}
	for _, p := range g.If.Sources[ranges:] {
		pass(rule.SourceHost(p.Addr()))
	}
	c.natRule(chain, "other traffic to "+c.name.Display()+" will be dropped by KUBE-PROXY-FIREWALL", nil)
}

// sourceRanges counts the source ranges among what a firewall lets in. Where one of
// them holds the node, the load balancer's own addresses follow them
// (ir.ServicePort.AllowedSources), which kube-proxy writes without a length.
func (c *serviceChains) sourceRanges(all []netip.Prefix, entries []*ir.Entry) int {
	n, node := len(all), c.g.Node.IP
	for _, e := range entries {
		if e.Kind == ir.LoadBalancer && n > 0 {
			n--
		}
	}
	if !slices.ContainsFunc(all[:n], func(p netip.Prefix) bool { return p.Contains(node) }) {
		return len(all)
	}
	return n
}
