package validate

import (
	"fmt"
	"net/netip"

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

// sameField says that two claims differ only in the port, which is then the
// same port twice, and reported as such.
func (k claim) sameField(o claim) bool {
	return k.s == o.s && k.field == o.field && k.index == o.index
}

type destination struct {
	addr     netip.AddrPort
	protocol corev1.Protocol
}

// checkClaims finds addresses and ports that are claimed twice. Services come
// in the order of their names, so the first claim is the one that stays.
func (c *checker) checkClaims() {
	taken := make(map[destination]claim, 2*len(c.services))
	for _, s := range c.services {
		if !s.compiled {
			continue
		}
		c.claimAll(taken, s, clusterIPField, s.clusterIPs)
		c.claimAll(taken, s, externalIPField, s.externalIPs)
		c.claimAll(taken, s, vipField, s.vips)
	}
}

func (c *checker) claimAll(taken map[destination]claim, s *service, field claimField, addrs []netip.Addr) {
	for i, a := range addrs {
		if !a.IsValid() || !s.serves(ir.FamilyOf(a)) {
			continue
		}
		for j := range s.Value.Spec.Ports {
			p := &s.Value.Spec.Ports[j]
			if !validPort(p.Port) || !validProtocol(p.Protocol) {
				continue
			}
			d := destination{netip.AddrPortFrom(a, uint16(p.Port)), p.Protocol}
			mine := claim{s, field, i, j}
			first, twice := taken[d]
			if !twice {
				taken[d] = mine
			} else if !mine.sameField(first) {
				c.clash(diag.ClaimedTwice, first, mine, d.addr.String(), d.protocol)
			}
		}
	}
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
	} else if !mine.sameField(first) {
		c.clash(diag.NodePortClash, first, mine, fmt.Sprintf("node port %d", port), protocol)
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
