package resolve

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"svcc/compiler/addr"
	"svcc/compiler/manifest"
	"svcc/ir"
)

// service adds a Service's ports to the Program of the resolver's family.
func (r *resolver) service(p *ir.Program, s *service, slices []*slice) {
	ip, ok := r.address(clusterIP(s.Value, r.family))
	if !ok {
		return
	}
	shared := r.shared(s.Value)
	for i := range s.Value.Spec.Ports {
		port := &s.Value.Spec.Ports[i]
		proto, err := ir.ParseProtocol(string(port.Protocol))
		if err != nil {
			continue // validation has said so
		}
		sp := &ir.ServicePort{
			PortName: ir.PortName{Namespace: s.Value.Namespace, Name: s.Value.Name, Port: port.Name, Protocol: proto},
			Origin:   s.Pos,
		}
		r.fill(sp, s.Value, port, ip, shared)
		p.Known += r.endpoints(sp, slices)
		r.sources(sp, shared.ranges)
		p.Services = append(p.Services, sp)
	}
}

// shared is what all ports of a Service have in common.
type shared struct {
	externalIPs, vips []netip.Addr
	ranges            []netip.Prefix
}

func (r *resolver) shared(s *corev1.Service) shared {
	var x shared
	for _, ip := range s.Spec.ExternalIPs {
		if a, ok := r.address(ip); ok && r.options.ExternalIPs {
			x.externalIPs = append(x.externalIPs, a)
		}
	}
	for _, in := range s.Status.LoadBalancer.Ingress {
		if in.IPMode != nil && *in.IPMode != corev1.LoadBalancerIPModeVIP {
			continue
		}
		if a, ok := r.address(in.IP); ok {
			x.vips = append(x.vips, a)
		}
	}
	x.ranges = r.ranges(s.Spec.LoadBalancerSourceRanges)
	return x
}

// address reads an address of the resolver's family.
func (r *resolver) address(s string) (netip.Addr, bool) {
	if s == "" {
		return netip.Addr{}, false
	}
	a, _, err := addr.Parse(s)
	return a, err == nil && r.family.Of(a)
}

// ranges reads source ranges of the family; one that holds everybody makes
// the others void, as does none.
func (r *resolver) ranges(list []string) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range list {
		p, _, err := addr.ParsePrefix(s)
		switch {
		case err != nil || !r.family.Of(p.Addr()):
		case p.Bits() == 0:
			return nil
		default:
			out = append(out, p)
		}
	}
	return out
}

// fill sets what does not depend on endpoints.
func (r *resolver) fill(sp *ir.ServicePort, s *corev1.Service, port *corev1.ServicePort, ip netip.Addr, x shared) {
	n := uint16(port.Port)
	sp.Frontends = append(sp.Frontends, ir.Frontend{Kind: ir.ClusterIP, Addr: ip, Port: n})
	for _, a := range x.externalIPs {
		sp.Frontends = append(sp.Frontends, ir.Frontend{Kind: ir.ExternalIP, Addr: a, Port: n})
	}
	for _, a := range x.vips {
		sp.Frontends = append(sp.Frontends, ir.Frontend{Kind: ir.LoadBalancer, Addr: a, Port: n})
	}
	if port.NodePort != 0 {
		sp.Frontends = append(sp.Frontends, ir.Frontend{Kind: ir.NodePort, Port: uint16(port.NodePort)})
	}
	if p := s.Spec.InternalTrafficPolicy; p != nil && *p == corev1.ServiceInternalTrafficPolicyLocal {
		sp.InternalPolicy = ir.Local
	}
	if s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal {
		sp.ExternalPolicy = ir.Local
	}
	if s.Spec.SessionAffinity == corev1.ServiceAffinityClientIP {
		sp.AffinitySeconds = affinitySeconds(s.Spec.SessionAffinityConfig)
	}
	if r.options.Virtual != nil {
		sp.Scheduler = s.Annotations[manifest.SchedulerAnnotation]
	}
	if s.Spec.Type == corev1.ServiceTypeLoadBalancer && sp.ExternalPolicy == ir.Local {
		sp.HealthCheckNodePort = uint16(s.Spec.HealthCheckNodePort)
	}
}

func affinitySeconds(c *corev1.SessionAffinityConfig) int {
	if c == nil || c.ClientIP == nil || c.ClientIP.TimeoutSeconds == nil {
		return int(corev1.DefaultClientIPServiceAffinitySeconds)
	}
	return int(*c.ClientIP.TimeoutSeconds)
}

// external says that a service port has frontends that strangers use.
func external(sp *ir.ServicePort) bool { return len(sp.Frontends) > 1 }

// sources sets the source ranges where they guard something.
func (r *resolver) sources(sp *ir.ServicePort, ranges []netip.Prefix) {
	guarded := false
	for _, f := range sp.Frontends {
		guarded = guarded || f.Kind == ir.LoadBalancer
	}
	if !guarded || len(ranges) == 0 {
		return
	}
	sp.SourceRanges = ranges
	ip := r.facts.ip(r.family, sp)
	for _, p := range ranges {
		sp.NodeAllowed = sp.NodeAllowed || ip.IsValid() && p.Contains(ip)
	}
}
