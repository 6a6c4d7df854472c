package main

import (
	"fmt"
	"math/bits"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"svcc/golden/cluster"
	"svcc/ir"
)

// objects are manifests of a Program's service ports: each becomes a Service with a
// slice for every port number of its endpoints. They need not mean the same to the
// last: what matters is that Services have the Program's addresses, ports and sources.
func objects(p *ir.Program) *cluster.Cluster {
	c := &cluster.Cluster{Nodes: []*corev1.Node{{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: p.Node.Name},
		Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: p.Node.IP.String()}}},
	}}}
	for _, s := range p.Services {
		c.Services = append(c.Services, service(p.Family, s))
		c.Slices = append(c.Slices, slicesOf(p, s)...)
	}
	return c
}

func service(f ir.Family, s *ir.ServicePort) *corev1.Service {
	out := &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name},
	}
	out.Spec.Type, out.Spec.IPFamilies = corev1.ServiceTypeClusterIP, []corev1.IPFamily{kubeFamily(f)}
	port := corev1.ServicePort{Name: s.Port, Protocol: kubeProtocol(s.Protocol)}
	for _, fr := range s.Frontends {
		address(out, &port, fr)
	}
	out.Spec.Ports = []corev1.ServicePort{port}
	if s.InternalPolicy == ir.Local {
		out.Spec.InternalTrafficPolicy = ptr(corev1.ServiceInternalTrafficPolicyLocal)
	}
	if s.ExternalPolicy == ir.Local && len(s.Frontends) > 1 {
		out.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	}
	if s.AffinitySeconds > 0 {
		out.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
		out.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: ptr(int32(s.AffinitySeconds))}}
	}
	if out.Spec.Type == corev1.ServiceTypeLoadBalancer {
		out.Spec.AllocateLoadBalancerNodePorts = ptr(false)
		out.Spec.HealthCheckNodePort = int32(s.HealthCheckNodePort)
		for _, r := range s.SourceRanges {
			out.Spec.LoadBalancerSourceRanges = append(out.Spec.LoadBalancerSourceRanges, r.String())
		}
	}
	return out
}

// address gives a Service one frontend, and the type that has such.
func address(s *corev1.Service, port *corev1.ServicePort, f ir.Frontend) {
	switch f.Kind {
	case ir.ClusterIP:
		s.Spec.ClusterIP, s.Spec.ClusterIPs, port.Port = f.Addr.String(), []string{f.Addr.String()}, int32(f.Port)
	case ir.ExternalIP:
		s.Spec.ExternalIPs = append(s.Spec.ExternalIPs, f.Addr.String())
	case ir.LoadBalancer:
		s.Spec.Type = corev1.ServiceTypeLoadBalancer
		s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: f.Addr.String()})
	case ir.NodePort:
		port.NodePort = int32(f.Port)
		if s.Spec.Type == corev1.ServiceTypeClusterIP {
			s.Spec.Type = corev1.ServiceTypeNodePort
		}
	}
}

func slicesOf(p *ir.Program, s *ir.ServicePort) (out []*discoveryv1.EndpointSlice) {
	ports := map[uint16]*discoveryv1.EndpointSlice{}
	for _, e := range s.Reachable() {
		slice := ports[e.Port]
		if slice == nil {
			slice = &discoveryv1.EndpointSlice{
				TypeMeta: metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"},
				ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: fmt.Sprintf("%s-%d", s.Name, e.Port),
					Labels: map[string]string{discoveryv1.LabelServiceName: s.Name}},
				AddressType: discoveryv1.AddressType(kubeFamily(p.Family)),
				Ports:       []discoveryv1.EndpointPort{{Name: ptr(s.Port), Protocol: ptr(kubeProtocol(s.Protocol)), Port: ptr(int32(e.Port))}},
			}
			ports[e.Port], out = slice, append(out, slice)
		}
		node := "another"
		if e.Local {
			node = p.Node.Name
		}
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{e.Addr.String()}, NodeName: &node})
	}
	return out
}

// flagsOf are the Program's options.
func flagsOf(p *ir.Program) []string {
	o := p.Options
	flags := []string{"--node=" + p.Node.Name, fmt.Sprintf("--masquerade-bit=%d", bits.TrailingZeros32(o.MasqueradeMark)), fmt.Sprintf("--masquerade-all=%t", o.MasqueradeAll),
		fmt.Sprintf("--tcp-be-liberal=%t", !o.DropInvalid), fmt.Sprintf("--localhost-nodeports=%t", o.LocalhostNodePorts)}
	switch o.Pods.Kind {
	case ir.DetectCIDR:
		flags = append(flags, "--cluster-cidr="+o.Pods.Prefix.String())
	case ir.DetectBridge:
		flags = append(flags, "--detect-local-mode=BridgeInterface", "--detect-local-interface="+o.Pods.Interface)
	case ir.DetectInterface:
		flags = append(flags, "--detect-local-mode=InterfaceNamePrefix", "--detect-local-interface="+o.Pods.Interface)
	}
	for _, a := range o.NodePorts.Addrs {
		flags = append(flags, fmt.Sprintf("--nodeport-addresses=%s/%d", a, a.BitLen()))
	}
	for _, r := range o.NodePorts.Prefixes {
		flags = append(flags, "--nodeport-addresses="+r.String())
	}
	return flags
}

func kubeFamily(f ir.Family) corev1.IPFamily {
	if f == ir.IPv4 {
		return corev1.IPv4Protocol
	}
	return corev1.IPv6Protocol
}

func kubeProtocol(p ir.Protocol) corev1.Protocol {
	return map[ir.Protocol]corev1.Protocol{ir.TCP: corev1.ProtocolTCP, ir.UDP: corev1.ProtocolUDP, ir.SCTP: corev1.ProtocolSCTP}[p]
}

func ptr[T any](v T) *T { return &v }
