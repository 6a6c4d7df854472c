package validate

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"svcc/ir"
	"svcc/ir/diag"
)

// claim is who asks for a destination: a field of a Service.
type claim struct {
	s     *service
	field claimField
	index int // within the field
	port  int // index in spec.ports
}

type claimField uint8

const (
	clusterIPField claimField = iota
	externalIPField
	vipField
	nodePortField
	healthCheckField
)

func (f claimField) String() string {
	return [...]string{"cluster IP", "external IP", "load balancer address", "node port", "health check port"}[f]
}

// at is where the claim stands in the Service.
func (k claim) at() path {
	switch k.field {
	case clusterIPField:
		return clusterIPPath(k.index)
	case externalIPField:
		return path{"spec", "externalIPs", k.index}
	case vipField:
		return path{"status", "loadBalancer", "ingress", k.index, "ip"}
	case nodePortField:
		return path{"spec", "ports", k.port, "nodePort"}
	}
	return path{"spec", "healthCheckNodePort"}
}

type destination struct {
	addr     netip.AddrPort
	protocol corev1.Protocol
}

// checkClaims finds addresses and ports that are claimed twice. Services come
// in the order of their names, so the first claim is the one that stays.
func (c *checker) checkClaims() {
	taken := make(map[destination]claim, 2*len(c.services))
	owners := make(map[netip.Addr]*service, len(c.services))
	for _, s := range c.services {
		if !s.compiled {
			continue
		}
		c.claimAll(taken, s, clusterIPField, s.clusterIPs)
		c.claimClusterIPs(owners, s)
		c.claimAll(taken, s, externalIPField, s.externalIPs)
		c.claimAll(taken, s, vipField, s.vips)
	}
	c.checkHiddenPorts(taken)
}

func (c *checker) claimAll(taken map[destination]claim, s *service, field claimField, addrs []netip.Addr) {
	for i, a := range addrs {
		if !a.IsValid() || !s.serves(ir.FamilyOf(a)) {
			continue
		}
		again := false
		for j := range s.Value.Spec.Ports {
			p := &s.Value.Spec.Ports[j]
			if !validPort(p.Port) || !validProtocol(p.Protocol) {
				continue
			}
			d := destination{netip.AddrPortFrom(a, uint16(p.Port)), p.Protocol}
			mine := claim{s, field, i, j}
			first, twice := taken[d]
			switch {
			case !twice:
				taken[d] = mine
			case first.s != s:
				c.clash(diag.ClaimedTwice, first, mine, d.addr.String(), d.protocol)
			case first.port == j && !again: // else it is the same port twice, or said already
				c.claimAgain(first, mine, a)
				again = true
			}
		}
	}
}

// claimAgain reports an address that its Service has already. The first decides
// (ir.ServicePort.Frontends), and the API server takes the object.
func (c *checker) claimAgain(first, mine claim, a netip.Addr) {
	pos := first.s.At(first.at()...)
	d := c.onService(mine.s, diag.ClaimedAgain, mine.at(), "%s is the Service's %s already, which decides", a, first.field)
	d.Hint = "remove one of them"
	d.Related = related(pos, "the first is here")
}

// claimClusterIPs finds a cluster IP that another Service has, at other ports; at
// the same port it is a destination claimed twice.
func (c *checker) claimClusterIPs(owners map[netip.Addr]*service, s *service) {
	for i, a := range s.clusterIPs {
		if !a.IsValid() {
			continue
		}
		first := owners[a]
		if first == nil {
			owners[a] = s
			continue
		}
		if first == s || sharePort(first, s) {
			continue
		}
		at := claim{s: first, field: clusterIPField, index: slices.Index(first.clusterIPs, a)}.at()
		pos := first.At(at...)
		d := c.onService(s, diag.ClusterIPTwice, clusterIPPath(i), "cluster IP %s is already that of %s", a, c.object("Service", first.Value.Namespace, first.Value.Name))
		d.Hint = "give one of them another cluster IP"
		d.Related = related(pos, "the first is here")
	}
}

// sharePort says whether two Services have a port of the same protocol and number.
func sharePort(s, t *service) bool {
	return slices.ContainsFunc(s.Value.Spec.Ports, func(p corev1.ServicePort) bool {
		return slices.ContainsFunc(t.Value.Spec.Ports, func(q corev1.ServicePort) bool {
			return p.Port == q.Port && p.Protocol == q.Protocol
		})
	})
}

// checkNodePorts does the same for node ports, which belong to every address
// of the node, and for the TCP ports of health checks.
func (c *checker) checkNodePorts() {
	taken := map[portKey]claim{}
	for _, s := range c.services {
		if !s.compiled {
			continue
		}
		for j := range s.Value.Spec.Ports {
			p := &s.Value.Spec.Ports[j]
			c.claimNodePort(taken, p.NodePort, p.Protocol, claim{s, nodePortField, 0, j})
		}
		if wantsHealthCheck(&s.Value.Spec) {
			c.claimNodePort(taken, s.Value.Spec.HealthCheckNodePort, corev1.ProtocolTCP, claim{s, healthCheckField, 0, 0})
		}
	}
}

func (c *checker) claimNodePort(taken map[portKey]claim, port int32, protocol corev1.Protocol, mine claim) {
	if !validPort(port) || !validProtocol(protocol) {
		return
	}
	key := portKey{protocol, port}
	first, twice := taken[key]
	if !twice {
		taken[key] = mine
	} else if first.s != mine.s || first.field != mine.field { // else it is the same port twice
		c.clash(diag.NodePortClash, first, mine, fmt.Sprintf("node port %d", port), protocol)
	}
}

// checkHiddenPorts finds node ports that another Service's address covers at a
// node: rules look at addresses first. (IPVS mode refuses such a pair at this node;
// see ir.Program.Clashes.)
func (c *checker) checkHiddenPorts(taken map[destination]claim) {
	if c.o.Facts.ExclusiveDestinations {
		return
	}
	for _, s := range c.services {
		if !s.compiled {
			continue
		}
		for j := range s.Value.Spec.Ports {
			if p := &s.Value.Spec.Ports[j]; validPort(p.NodePort) && validProtocol(p.Protocol) {
				c.checkHiddenPort(taken, claim{s, nodePortField, 0, j})
			}
		}
	}
}

// checkHiddenPort reports the first node, by address, at which a node port is hidden.
func (c *checker) checkHiddenPort(taken map[destination]claim, mine claim) {
	p := &mine.s.Value.Spec.Ports[mine.port]
	for _, a := range c.nodeAddrs {
		other, hidden := taken[destination{netip.AddrPortFrom(a, uint16(p.NodePort)), p.Protocol}]
		if !hidden || other.s == mine.s || !mine.s.serves(ir.FamilyOf(a)) {
			continue
		}
		pos := other.s.At(other.at()...)
		d := c.onService(mine.s, diag.NodePortHidden, mine.at(), "node port %d/%s does not answer at %s of %s: %s has that address and port", p.NodePort, p.Protocol, a, c.nodes[a],
			c.object("Service", other.s.Value.Namespace, other.s.Value.Name))
		d.Hint = "give one of them another port"
		d.Related = related(pos, "the address is claimed here")
		return
	}
}

func (c *checker) clash(code diag.Code, first, mine claim, what string, protocol corev1.Protocol) {
	who := c.object("Service", first.s.Value.Namespace, first.s.Value.Name)
	if first.s == mine.s {
		who = "the same Service"
	}
	pos := first.s.At(first.at()...)
	d := c.onService(mine.s, code, mine.at(), "%s/%s is already claimed by %s", what, protocol, who)
	d.Hint = "give one of them another address or port"
	d.Related = related(pos, "the first claim is here")
}
