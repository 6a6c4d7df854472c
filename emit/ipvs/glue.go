package ipvs

import (
	"bytes"
	"fmt"
	"strings"

	"svcc/emit/iptables"
	"svcc/ir"
)

// glue writes the rules beside virtual servers: few, whatever the number of
// Services, since they ask sets. They are kube-proxy's but for these. Node ports
// are marked at the node's own addresses only, and after service addresses, so
// that a ClusterIP with the number of a node port is none. A client that is its
// own endpoint is masqueraded only if a server or nat has sent it there, and if no
// mark does it already, which would stay.
// Guards look at new connections, as in iptables mode. And chains that pods and
// the node meet first, those of inside, know external policy Local; see views.go.
func (l *lowering) glue(inside *ir.Graph, level int) ([]byte, error) {
	var delivery iptables.Delivery
	if len(inside.Entries) > 0 {
		var err error
		if delivery, err = iptables.Deliver(inside, level); err != nil {
			return nil, err
		}
	}
	w := &writer{l: l}
	w.filter()
	w.nat(delivery)
	return w.b.Bytes(), nil
}

// writer writes rules as text. What it writes is made of constants, addresses and
// numbers, and of the pods' interface: the compiler takes only names without
// blanks and quotes.
type writer struct {
	l *lowering
	b bytes.Buffer
}

func (w *writer) table(name string, chains ...string) {
	fmt.Fprintf(&w.b, "*%s\n", name)
	for _, c := range chains {
		fmt.Fprintf(&w.b, ":%s - [0:0]\n", c)
	}
}

// rule appends a rule to a chain, unless it asks a set that holds nothing. In it
// {NAME} stands for a match on a set, which has that name in IPv4.
func (w *writer) rule(chain, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if i, j := strings.IndexByte(text, '{'), strings.IndexByte(text, '}'); i >= 0 && j > i {
		set := text[i+1 : j]
		if len(w.l.sets[set]) == 0 {
			return
		}
		text = text[:i] + "-m set --match-set " + SetName(w.l.g.Family, set) + text[j+1:]
	}
	fmt.Fprintf(&w.b, "-A %s %s\n", chain, text)
}

func (w *writer) filter() {
	chains := []string{iptables.ChainForward, iptables.ChainNodePort, iptables.ChainProxyFirewall, iptables.ChainSourceRanges, iptables.ChainIPVSFilter, iptables.ChainIPVSOut}
	for _, g := range w.l.guards {
		if len(g.sources) > 0 {
			chains = append(chains, g.chain())
		}
	}
	w.table("filter", chains...)
	w.firewall()
	if w.l.g.Options.DropInvalid {
		w.rule(iptables.ChainForward, "-m conntrack --ctstate INVALID -j DROP")
	}
	mark := w.mark()
	w.rule(iptables.ChainForward, `-m comment --comment "kubernetes forwarding rules" -m mark --mark %s/%s -j ACCEPT`, mark, mark)
	w.rule(iptables.ChainForward, `-m comment --comment "kubernetes forwarding conntrack rule" -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT`)
	if w.l.g.Options.DropInvalid {
		w.rule(iptables.ChainNodePort, "-m conntrack --ctstate INVALID {%s} dst -j DROP", setAddresses)
	}
	w.rule(iptables.ChainNodePort, `-p tcp -m comment --comment "Kubernetes health check node port" {%s} dst -j ACCEPT`, setHealthCheck)
	w.access()
	w.outbound()
	w.b.WriteString("COMMIT\n")
}

// firewall drops what source ranges do not let in, and what no local endpoint is
// there for.
func (w *writer) firewall() {
	w.rule(iptables.ChainProxyFirewall, `-m comment --comment "Kubernetes service ip + port without local endpoints" {%s} dst,dst -j DROP`, setNoLocal)
	w.rule(iptables.ChainProxyFirewall, `-m comment --comment "Kubernetes service load balancer ip + port for load balancer with sourceRange" {%s} dst,dst -j %s`, setBalancerGuard, iptables.ChainSourceRanges)
	w.rule(iptables.ChainSourceRanges, `-m comment --comment "Kubernetes service load balancer ip + port + source cidr for packet filter purpose" {%s} dst,dst,src -j RETURN`, setBalancerRanges)
	w.rule(iptables.ChainSourceRanges, `-m comment --comment "Kubernetes service load balancer ip + port + source IP for packet filter purpose" {%s} dst,dst,src -j RETURN`, setBalancerNode)
	w.rule(iptables.ChainSourceRanges, "-j DROP")
}

// access refuses what is for a service address and for none of its ports.
func (w *writer) access() {
	for _, set := range []string{setBalancer, setClusterIP, setExternal, setExternalLocal} {
		w.rule(iptables.ChainIPVSFilter, "{%s} dst,dst -j RETURN", set)
	}
	w.rule(iptables.ChainIPVSFilter, "{%s} dst -j REJECT", setAddresses)
}

// outbound holds the node's own packets to source ranges. A server has sent them
// to an endpoint already when OUTPUT sees them. Where nat sends the node's packets
// to endpoints, a server sees only those that no range lets in.
func (w *writer) outbound() {
	chain := iptables.ChainIPVSOut
	if len(w.l.guards) == 0 {
		return
	}
	w.rule(chain, "-m ipvs ! --ipvs -j RETURN")
	w.rule(chain, "-m addrtype ! --src-type LOCAL -j RETURN")
	for _, g := range w.l.guards {
		to, verdict := g.key.Address, "DROP"
		if len(g.sources) > 0 {
			verdict = g.chain()
		}
		w.rule(chain, "-m ipvs --vaddr %s --vproto %s --vport %d -j %s", to.Addr(), g.key.Protocol, to.Port(), verdict)
	}
	for _, g := range w.l.guards {
		for _, p := range g.sources {
			w.rule(g.chain(), "-s %s -j RETURN", p)
		}
		if len(g.sources) > 0 {
			w.rule(g.chain(), "-j DROP")
		}
	}
}

// chain names the one that guards the server's connections of the node.
func (g *guarded) chain() string { return iptables.GuardChain(g.key.String()) }

func (w *writer) nat(d iptables.Delivery) {
	chains := []string{iptables.ChainServices, iptables.ChainPostrouting, iptables.ChainNodePort, iptables.ChainLoadBalancer, iptables.ChainMarkMasq}
	w.table("nat", append(chains, d.Chains...)...)
	w.b.Write(d.Rules)
	w.services()
	w.nodePorts()
	mark := w.mark()
	sent := []string{"-m ipvs --ipvs"}
	if len(w.l.inside) > 0 {
		sent = append(sent, "-m conntrack --ctstate DNAT")
	}
	for _, sent := range sent {
		w.rule(iptables.ChainPostrouting, `-m mark ! --mark %s/%s %s -m comment --comment "Kubernetes endpoints dst ip:port, source ip for solving hairpin purpose" {%s} dst,dst,src -j MASQUERADE --random-fully`, mark, mark, sent, setLoopback)
	}
	w.rule(iptables.ChainPostrouting, "-m mark ! --mark %s/%s -j RETURN", mark, mark)
	w.rule(iptables.ChainPostrouting, "-j MARK --xor-mark %s", mark)
	w.rule(iptables.ChainPostrouting, `-m comment --comment "kubernetes service traffic requiring SNAT" -j MASQUERADE --random-fully`)
	w.rule(iptables.ChainMarkMasq, "-j MARK --or-mark %s", mark)
	w.b.WriteString("COMMIT\n")
}

func (w *writer) mark() string { return fmt.Sprintf("0x%08x", w.l.g.Options.MasqueradeMark) }

// services marks who is to be masqueraded at a service address.
func (w *writer) services() {
	w.rule(iptables.ChainServices, `-m comment --comment "Kubernetes service lb portal" {%s} dst,dst -j %s`, setBalancer, iptables.ChainLoadBalancer)
	w.rule(iptables.ChainLoadBalancer, `-m comment --comment "Kubernetes service load balancer ip + port with externalTrafficPolicy=local" {%s} dst,dst -j RETURN`, setBalancerLocal)
	w.rule(iptables.ChainLoadBalancer, "-j %s", iptables.ChainMarkMasq)
	w.rule(iptables.ChainServices, `-m comment --comment "Kubernetes service cluster ip + port for masquerade purpose" {%s} dst,dst%s -j %s`, setClusterIP, w.notPods(), iptables.ChainMarkMasq)
	w.rule(iptables.ChainServices, `-m comment --comment "Kubernetes service external ip + port for masquerade and filter purpose" {%s} dst,dst -j %s`, setExternal, iptables.ChainMarkMasq)
	for _, set := range []string{setClusterIP, setBalancer, setExternal, setExternalLocal} {
		w.rule(iptables.ChainServices, "{%s} dst,dst -j ACCEPT", set)
	}
	for _, a := range w.l.g.Options.NodePorts.Addrs {
		w.rule(iptables.ChainServices, "-d %s -j %s", a, iptables.ChainNodePort)
	}
}

// notPods is who is masqueraded at a ClusterIP. Where pods cannot be told, it is
// the node alone: its source would be the service address.
func (w *writer) notPods() string {
	o := &w.l.g.Options
	switch {
	case o.MasqueradeAll:
		return ""
	case o.Pods.Kind == ir.DetectCIDR:
		return " ! -s " + o.Pods.Prefix.String()
	case o.Pods.Kind == ir.DetectBridge:
		return " ! -i " + o.Pods.Interface
	case o.Pods.Kind == ir.DetectInterface:
		return " ! -i " + o.Pods.Interface + "+"
	}
	return " -m addrtype --src-type LOCAL"
}

// nodePorts marks who comes to a node port, but for those of policy Local. A port
// number of a set is of any protocol, so the rules ask for it.
func (w *writer) nodePorts() {
	for _, p := range []ir.Protocol{ir.TCP, ir.UDP, ir.SCTP} {
		sets, name, ends := portSets(p, true), strings.ToUpper(p.String()), "dst"
		if p == ir.SCTP {
			ends = "dst,dst"
		}
		w.rule(iptables.ChainNodePort, `-p %s -m comment --comment "Kubernetes nodeport %s port with externalTrafficPolicy=local" {%s} %s -j RETURN`, p, name, sets[1], ends)
		w.rule(iptables.ChainNodePort, `-p %s -m comment --comment "Kubernetes nodeport %s port for masquerade purpose" {%s} %s -j %s`, p, name, sets[0], ends, iptables.ChainMarkMasq)
	}
}
