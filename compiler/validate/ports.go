package validate

import (
	corev1 "k8s.io/api/core/v1"

	"svcc/ir/diag"
)

// portKey is what must be unique among the ports, or node ports, of a Service.
type portKey struct {
	protocol corev1.Protocol
	number   int32
}

func validPort(p int32) bool { return p >= 1 && p <= 65535 }

func validProtocol(p corev1.Protocol) bool {
	return p == corev1.ProtocolTCP || p == corev1.ProtocolUDP || p == corev1.ProtocolSCTP
}

func (c *checker) checkPorts(s *service) {
	ports := s.Value.Spec.Ports
	if len(ports) == 0 && !s.headless {
		c.onService(s, diag.NoPorts, path{"spec", "ports"}, "the Service has no ports").Hint = "add at least one to spec.ports"
	}
	for i := range ports {
		c.checkPort(s, i)
	}
	if len(ports) > 1 {
		c.checkPortNames(s)
		c.checkPortsUnique(s)
	}
}

func (c *checker) checkPort(s *service, i int) {
	p := &s.Value.Spec.Ports[i]
	if p.Name != "" && !c.names.isLabel(p.Name) {
		c.onService(s, diag.BadPortName, path{"spec", "ports", i, "name"}, "port name %q is not a DNS label", p.Name).Hint = labelRule
	}
	if !validPort(p.Port) {
		c.onService(s, diag.BadPort, path{"spec", "ports", i, "port"}, "port %d is not within 1 to 65535", p.Port)
	}
	if !validProtocol(p.Protocol) {
		c.onService(s, diag.BadProtocol, path{"spec", "ports", i, "protocol"}, "protocol %q is unknown", p.Protocol).Hint = "use TCP, UDP or SCTP, in capitals"
	}
	c.checkNodePort(s, i)
}

func (c *checker) checkNodePort(s *service, i int) {
	sp := &s.Value.Spec
	p, at := sp.Ports[i].NodePort, path{"spec", "ports", i, "nodePort"}
	switch {
	case p == 0:
		if s.compiled && allocatesNodePorts(sp) {
			c.onService(s, diag.NoNodePort, path{"spec", "ports", i}, "port %d has no node port", sp.Ports[i].Port).Hint = "set nodePort"
		}
	case !validPort(p):
		c.onService(s, diag.BadPort, at, "nodePort %d is not within 1 to 65535", p)
	case sp.Type == corev1.ServiceTypeClusterIP:
		c.onService(s, diag.NodePortMisplaced, at, "nodePort is set on a Service of type ClusterIP").Hint = "remove it, or use type NodePort"
	case s.compiled:
		c.checkNodePortRange(s, at, p)
	}
}

// allocatesNodePorts says whether the API server gives each port a node port.
func allocatesNodePorts(sp *corev1.ServiceSpec) bool {
	switch sp.Type {
	case corev1.ServiceTypeNodePort:
		return true
	case corev1.ServiceTypeLoadBalancer:
		return sp.AllocateLoadBalancerNodePorts == nil || *sp.AllocateLoadBalancerNodePorts
	}
	return false
}

func (c *checker) checkNodePortRange(s *service, at path, p int32) {
	switch r, e := c.o.NodePortRange, c.o.EphemeralRange; {
	case !r.has(p):
		c.onService(s, diag.NodePortOutsideRange, at, "node port %d is outside %d-%d", p, r.First, r.Last)
	case e.has(p):
		c.onService(s, diag.NodePortEphemeral, at, "node port %d is among the kernel's ephemeral ports %d-%d", p, e.First, e.Last).
			Hint = "keep the two ranges apart, or reserve the port with net.ipv4.ip_local_reserved_ports"
	}
}

func (c *checker) checkPortNames(s *service) {
	seen := map[string]int{}
	for i, p := range s.Value.Spec.Ports {
		if p.Name == "" {
			c.onService(s, diag.PortNameMissing, path{"spec", "ports", i}, "port %d has no name, though the Service has more than one port", p.Port).Hint = "name every port"
			continue
		}
		first, twice := seen[p.Name]
		if !twice {
			seen[p.Name] = i
			continue
		}
		pos := s.At("spec", "ports", first, "name")
		c.onService(s, diag.DuplicatePortName, path{"spec", "ports", i, "name"}, "two ports have the name %q", p.Name).
			Related = related(pos, "the first is here")
	}
}

func (c *checker) checkPortsUnique(s *service) {
	ports, nodePorts := map[portKey]int{}, map[portKey]int{}
	for i, p := range s.Value.Spec.Ports {
		if !validProtocol(p.Protocol) {
			continue
		}
		c.uniquePort(s, ports, i, "port", p.Protocol, p.Port)
		if p.NodePort != 0 {
			c.uniquePort(s, nodePorts, i, "nodePort", p.Protocol, p.NodePort)
		}
	}
}

func (c *checker) uniquePort(s *service, seen map[portKey]int, i int, field string, protocol corev1.Protocol, number int32) {
	key := portKey{protocol, number}
	first, twice := seen[key]
	if !twice {
		seen[key] = i
		return
	}
	pos := s.At("spec", "ports", first, field)
	c.onService(s, diag.DuplicatePort, path{"spec", "ports", i, field}, "two ports have %s %d/%s", field, number, protocol).
		Related = related(pos, "the first is here")
}

func related(pos diag.Pos, message string) []diag.Related {
	return []diag.Related{{Pos: pos, Message: message}}
}
