package validate

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"svcc/compiler/addr"
	"svcc/compiler/manifest"
	"svcc/ir"
)

// Defaults fills in, in place, what the API server would have: the defaults of
// the v1 API, clusterIPs and ipFamilies as far as they follow from clusterIP, what
// podCIDR and podCIDRs say of each other,
// and, where core/v1 Endpoints were read, the EndpointSlices that mirror them.
// Nothing that a server would have had to allocate (a cluster IP, a node port)
// is made up.
func Defaults(set *manifest.Set) {
	mirrorEndpoints(set)
	for _, s := range set.Services {
		defaultService(s.Value)
	}
	for _, s := range set.Slices {
		defaultSlice(s.Value)
	}
	for _, n := range set.Nodes {
		defaultPodRanges(&n.Value.Spec)
	}
}

func defaultService(s *corev1.Service) {
	sp := &s.Spec
	setIfZero(&sp.Type, corev1.ServiceTypeClusterIP)
	defaultAffinity(sp)
	for i := range sp.Ports {
		p := &sp.Ports[i]
		setIfZero(&p.Protocol, corev1.ProtocolTCP)
		if p.TargetPort == intstr.FromString("") {
			p.TargetPort = intstr.IntOrString{}
		}
		setIfZero(&p.TargetPort, intstr.FromInt32(p.Port))
	}
	defaultPolicies(sp)
	defaultIngress(s)
	defaultFamilies(sp)
}

// defaultAffinity also drops a configuration that affinity None has no use
// for, as the API server does.
func defaultAffinity(sp *corev1.ServiceSpec) {
	setIfZero(&sp.SessionAffinity, corev1.ServiceAffinityNone)
	switch c := sp.SessionAffinityConfig; {
	case sp.SessionAffinity == corev1.ServiceAffinityNone:
		sp.SessionAffinityConfig = nil
	case sp.SessionAffinity != corev1.ServiceAffinityClientIP:
	case c == nil || c.ClientIP == nil || c.ClientIP.TimeoutSeconds == nil:
		sp.SessionAffinityConfig = &corev1.SessionAffinityConfig{
			ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: new(int32(corev1.DefaultClientIPServiceAffinitySeconds))},
		}
	}
}

func defaultPolicies(sp *corev1.ServiceSpec) {
	if externallyAccessible(sp) {
		setIfZero(&sp.ExternalTrafficPolicy, corev1.ServiceExternalTrafficPolicyCluster)
	}
	switch sp.Type {
	case corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer:
		if sp.InternalTrafficPolicy == nil {
			sp.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicyCluster)
		}
	}
	if sp.Type == corev1.ServiceTypeLoadBalancer && sp.AllocateLoadBalancerNodePorts == nil {
		sp.AllocateLoadBalancerNodePorts = new(true)
	}
}

func defaultIngress(s *corev1.Service) {
	for i := range s.Status.LoadBalancer.Ingress {
		in := &s.Status.LoadBalancer.Ingress[i]
		if in.IP != "" && in.IPMode == nil {
			in.IPMode = new(corev1.LoadBalancerIPModeVIP)
		}
	}
}

// defaultFamilies derives clusterIPs from clusterIP, and from clusterIPs the
// families that ipFamilies does not name. Text that is no address, and a second
// address of one family, are left to Check.
func defaultFamilies(sp *corev1.ServiceSpec) {
	if len(sp.ClusterIPs) == 0 && sp.ClusterIP != "" {
		sp.ClusterIPs = []string{sp.ClusterIP}
	}
	for i := len(sp.IPFamilies); i < len(sp.ClusterIPs); i++ {
		a, _, err := addr.Parse(sp.ClusterIPs[i])
		if err != nil {
			return
		}
		f := familyName(ir.FamilyOf(a))
		if slices.Contains(sp.IPFamilies, f) {
			return
		}
		sp.IPFamilies = append(sp.IPFamilies, f)
	}
}

func defaultSlice(s *discoveryv1.EndpointSlice) {
	for i := range s.Ports {
		p := &s.Ports[i]
		if p.Name == nil {
			p.Name = new("")
		}
		if p.Protocol == nil {
			p.Protocol = new(corev1.ProtocolTCP)
		}
	}
}

// defaultPodRanges makes one of podCIDR and podCIDRs, which are two ways to say the
// same: where the first of podCIDRs is another, podCIDR alone counts (conversion of
// the v1 API).
func defaultPodRanges(sp *corev1.NodeSpec) {
	switch n := len(sp.PodCIDRs); {
	case sp.PodCIDR == "" && n > 0:
		sp.PodCIDR = sp.PodCIDRs[0]
	case sp.PodCIDR != "" && (n == 0 || sp.PodCIDRs[0] != sp.PodCIDR):
		sp.PodCIDRs = []string{sp.PodCIDR}
	}
}

// externallyAccessible says whether externalTrafficPolicy has a meaning.
func externallyAccessible(sp *corev1.ServiceSpec) bool {
	switch sp.Type {
	case corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer:
		return true
	case corev1.ServiceTypeClusterIP:
		return len(sp.ExternalIPs) > 0
	}
	return false
}

func familyName(f ir.Family) corev1.IPFamily {
	if f == ir.IPv4 {
		return corev1.IPv4Protocol
	}
	return corev1.IPv6Protocol
}

func setIfZero[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
