package ipvs

import (
	"bytes"
	"crypto/sha256"
	"encoding/base32"
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
// the node meet first know external policy Local; see views.go.
func (l *lowering) glue(level int) ([]byte, error) {
	var ways iptables.Ways
	if len(l.inside) > 0 {
		var err error
		if ways, err = iptables.Deliver(l.insiders(), level); err != nil {
			return nil, err
		}
	}
	w := &writer{l: l}
	w.filter()
	w.nat(ways)
	return w.b.Bytes(), nil
}

// writer writes rules as text. What it writes is made of constants, addresses
// and numbers.
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
// {NAME} stands for the set KUBE-NAME.
func (w *writer) rule(chain, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if i, j := strings.IndexByte(text, '{'), strings.IndexByte(text, '}'); i >= 0 && j > i {
		set := "KUBE-" + text[i+1:j]
		if len(w.l.sets[set]) == 0 {
			return
		}
		text = text[:i] + "-m set --match-set " + SetName(w.l.g.Family, set) + text[j+1:]
	}
	fmt.Fprintf(&w.b, "-A %s %s\n", chain, text)
}

// The chains that the iptables mode has as well.
const (
	chainServices    = "KUBE-SERVICES"
	chainPostrouting = "KUBE-POSTROUTING"
	chainMark        = "KUBE-MARK-MASQ"
	chainForward     = "KUBE-FORWARD"
	chainFirewall    = "KUBE-PROXY-FIREWALL"
)

func (w *writer) filter() {
	chains := []string{chainForward, iptables.ChainNodePort, chainFirewall, iptables.ChainSourceRanges, iptables.ChainIPVSFilter, iptables.ChainIPVSOut}
	for _, g := range w.l.guards {
		if len(g.sources) > 0 {
			chains = append(chains, guardChain(g.key))
		}
	}
	w.table("filter", chains...)
	w.firewall()
	if w.l.g.Options.DropInvalid {
		w.rule(chainForward, "-m conntrack --ctstate INVALID -j DROP")
	}
	mark := w.mark()
	w.rule(chainForward, `-m comment --comment "kubernetes forwarding rules" -m mark --mark %s/%s -j ACCEPT`, mark, mark)
	w.rule(chainForward, `-m comment --comment "kubernetes forwarding conntrack rule" -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT`)
	if w.l.g.Options.DropInvalid {
		w.rule(iptables.ChainNodePort, "-m conntrack --ctstate INVALID {IPVS-IPS} dst -j DROP")
	}
	w.rule(iptables.ChainNodePort, `-p tcp -m comment --comment "Kubernetes health check node port" {HEALTH-CHECK-NODE-PORT} dst -j ACCEPT`)
	w.access()
	w.outbound()
	w.b.WriteString("COMMIT\n")
}

// firewall drops what source ranges do not let in, and what no local endpoint is
// there for.
func (w *writer) firewall() {
	w.rule(chainFirewall, `-m comment --comment "Kubernetes service ip + port without local endpoints" {NO-LOCAL-ENDPOINTS} dst,dst -j DROP`)
	w.rule(chainFirewall, `-m comment --comment "Kubernetes service load balancer ip + port for load balancer with sourceRange" {LOAD-BALANCER-FW} dst,dst -j %s`, iptables.ChainSourceRanges)
	w.rule(iptables.ChainSourceRanges, `-m comment --comment "Kubernetes service load balancer ip + port + source cidr for packet filter purpose" {LOAD-BALANCER-SOURCE-CIDR} dst,dst,src -j RETURN`)
	w.rule(iptables.ChainSourceRanges, `-m comment --comment "Kubernetes service load balancer ip + port + source IP for packet filter purpose" {LOAD-BALANCER-SOURCE-IP} dst,dst,src -j RETURN`)
	w.rule(iptables.ChainSourceRanges, "-j DROP")
}

// access refuses what is for a service address and for none of its ports.
func (w *writer) access() {
	for _, set := range []string{"LOAD-BALANCER", "CLUSTER-IP", "EXTERNAL-IP", "EXTERNAL-IP-LOCAL"} {
		w.rule(iptables.ChainIPVSFilter, "{%s} dst,dst -j RETURN", set)
	}
	w.rule(iptables.ChainIPVSFilter, "{IPVS-IPS} dst -j REJECT")
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
			verdict = guardChain(g.key)
		}
		w.rule(chain, "-m ipvs --vaddr %s --vproto %s --vport %d -j %s", to.Addr(), g.key.Protocol, to.Port(), verdict)
	}
	for _, g := range w.l.guards {
		for _, p := range g.sources {
			w.rule(guardChain(g.key), "-s %s -j RETURN", p)
		}
		if len(g.sources) > 0 {
			w.rule(guardChain(g.key), "-j DROP")
		}
	}
}

// guardChain names the chain that guards a server's connections of the node.
func guardChain(k Key) string {
	sum := sha256.Sum256([]byte("guard " + k.String()))
	return "KUBE-SVCC-" + base32.StdEncoding.EncodeToString(sum[:])[:16]
}

func (w *writer) nat(ways iptables.Ways) {
	chains := []string{chainServices, chainPostrouting, iptables.ChainNodePort, iptables.ChainLoadBalancer, chainMark}
	w.table("nat", append(chains, ways.Chains...)...)
	w.b.Write(ways.Rules)
	w.services()
	w.nodePorts()
	mark := w.mark()
	sent := []string{"-m ipvs --ipvs"}
	if len(w.l.inside) > 0 {
		sent = append(sent, "-m conntrack --ctstate DNAT")
	}
	for _, sent := range sent {
		w.rule(chainPostrouting, `-m mark ! --mark %s/%s %s -m comment --comment "Kubernetes endpoints dst ip:port, source ip for solving hairpin purpose" {LOOP-BACK} dst,dst,src -j MASQUERADE --random-fully`, mark, mark, sent)
	}
	w.rule(chainPostrouting, "-m mark ! --mark %s/%s -j RETURN", mark, mark)
	w.rule(chainPostrouting, "-j MARK --xor-mark %s", mark)
	w.rule(chainPostrouting, `-m comment --comment "kubernetes service traffic requiring SNAT" -j MASQUERADE --random-fully`)
	w.rule(chainMark, "-j MARK --or-mark %s", mark)
	w.b.WriteString("COMMIT\n")
}

func (w *writer) mark() string { return fmt.Sprintf("0x%08x", w.l.g.Options.MasqueradeMark) }

// services marks who is to be masqueraded at a service address.
func (w *writer) services() {
	w.rule(chainServices, `-m comment --comment "Kubernetes service lb portal" {LOAD-BALANCER} dst,dst -j %s`, iptables.ChainLoadBalancer)
	w.rule(iptables.ChainLoadBalancer, `-m comment --comment "Kubernetes service load balancer ip + port with externalTrafficPolicy=local" {LOAD-BALANCER-LOCAL} dst,dst -j RETURN`)
	w.rule(iptables.ChainLoadBalancer, "-j %s", chainMark)
	w.rule(chainServices, `-m comment --comment "Kubernetes service cluster ip + port for masquerade purpose" {CLUSTER-IP} dst,dst%s -j %s`, w.notPods(), chainMark)
	w.rule(chainServices, `-m comment --comment "Kubernetes service external ip + port for masquerade and filter purpose" {EXTERNAL-IP} dst,dst -j %s`, chainMark)
	for _, set := range []string{"CLUSTER-IP", "LOAD-BALANCER", "EXTERNAL-IP", "EXTERNAL-IP-LOCAL"} {
		w.rule(chainServices, "{%s} dst,dst -j ACCEPT", set)
	}
	for _, a := range w.l.g.Options.NodePorts.Addrs {
		w.rule(chainServices, "-d %s -j %s", a, iptables.ChainNodePort)
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
	for _, p := range []struct{ name, set, ends string }{
		{"tcp", "TCP", "dst"}, {"udp", "UDP", "dst"}, {"sctp", "SCTP-HASH", "dst,dst"},
	} {
		name := strings.ToUpper(p.name)
		w.rule(iptables.ChainNodePort, `-p %s -m comment --comment "Kubernetes nodeport %s port with externalTrafficPolicy=local" {NODE-PORT-LOCAL-%s} %s -j RETURN`, p.name, name, p.set, p.ends)
		w.rule(iptables.ChainNodePort, `-p %s -m comment --comment "Kubernetes nodeport %s port for masquerade purpose" {NODE-PORT-%s} %s -j %s`, p.name, name, p.set, p.ends, chainMark)
	}
}
