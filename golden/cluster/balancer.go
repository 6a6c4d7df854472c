package cluster

import (
	corev1 "k8s.io/api/core/v1"
)

// dressLoadBalancer makes a Service of type LoadBalancer. Where node ports are
// short it has none, as with balancers that send straight to pods.
func (g *generator) dressLoadBalancer(s *corev1.Service) {
	s.Spec.Type = corev1.ServiceTypeLoadBalancer
	s.Finalizers = []string{"service.kubernetes.io/load-balancer-cleanup"}
	ported := g.nodePortsFor(s)
	s.Spec.AllocateLoadBalancerNodePorts = &ported
	g.open(s, ported && g.chance(0.4))
	if s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal {
		s.Spec.HealthCheckNodePort = g.takeNodePort()
	}
	if g.chance(0.3) {
		s.Spec.LoadBalancerSourceRanges = g.sourceRanges(s)
	}
	if g.chance(0.3) {
		s.Spec.LoadBalancerClass = ptr("example.com/internal")
	}
	g.expose(s)
}

// sourceRanges gives one to four ranges of each of the Service's families.
func (g *generator) sourceRanges(s *corev1.Service) []string {
	v4 := []string{"192.0.2.0/24", "198.51.100.0/25", "203.0.113.0/24", NodeCIDR, PodCIDR}
	v6 := []string{"2001:db8:1::/48", "2001:db8:2::/64", "fd00:192:168::/48", PodCIDR6}
	out := g.some(v4, 4)
	if len(s.Spec.IPFamilies) > 1 {
		out = append(out, g.some(v6, 2)...)
	}
	return out
}

// some gives at least one and at most n of the choices, in their order.
func (g *generator) some(choices []string, n int) []string {
	n = g.between(1, n)
	var out []string
	for i, c := range choices {
		if g.chance(float64(n-len(out)) / float64(len(choices)-i)) {
			out = append(out, c)
		}
	}
	return out
}

// expose writes the balancer's part of the status: mostly addresses that nodes
// answer for, at times a proxy or a host name (for which nodes have no rules),
// and one in a hundred is pending.
func (g *generator) expose(s *corev1.Service) {
	switch x := g.Float64(); {
	case x < 0.01:
	case x < 0.06:
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{Hostname: s.Name + ".lb.example.com", Ports: portStatus(s)}}
	case x < 0.11:
		g.ingress(s, corev1.LoadBalancerIPModeProxy)
	default:
		g.ingress(s, corev1.LoadBalancerIPModeVIP)
	}
}

func (g *generator) ingress(s *corev1.Service, mode corev1.LoadBalancerIPMode) {
	for _, a := range g.addresses(&g.balancers, s) {
		in := corev1.LoadBalancerIngress{IP: a, IPMode: ptr(mode)}
		s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, in)
	}
}

func portStatus(s *corev1.Service) []corev1.PortStatus {
	var out []corev1.PortStatus
	for _, p := range s.Spec.Ports {
		out = append(out, corev1.PortStatus{Port: p.Port, Protocol: p.Protocol})
	}
	return out
}

// addresses takes one address from the pool for each of the Service's families.
func (g *generator) addresses(p *pool, s *corev1.Service) []string {
	v4, v6 := p.take()
	out := []string{v4.String()}
	if len(s.Spec.IPFamilies) > 1 {
		out = append(out, v6.String())
	}
	return out
}
