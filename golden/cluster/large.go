package cluster

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Large is what one Service, or a cluster of Services alike, has many of. All of
// it is one Service of type LoadBalancer with two endpoints but for the zero
// values here.
type Large struct {
	Services  int // of one endpoint each, at a cluster IP; 0: the one Service
	Endpoints int
	Ranges    int // source ranges of its load balancer
	Addresses int // external IPs
	Ports     int
	Sticky    bool // with client affinity
}

// Cluster makes it, with the one node that its first endpoint is on.
func (l Large) Cluster() *Cluster {
	c := &Cluster{Nodes: []*corev1.Node{{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: "node-0"},
		Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.168.0.1"}}},
	}}}
	for i := range max(l.Services, 1) {
		c.Services = append(c.Services, l.service(i))
		c.Slices = append(c.Slices, l.slices(i)...)
	}
	return c
}

// address is the n-th from a base on.
func address(base string, n int) string {
	b := netip.MustParseAddr(base).As4()
	var out [4]byte
	binary.BigEndian.PutUint32(out[:], binary.BigEndian.Uint32(b[:])+uint32(n))
	return netip.AddrFrom4(out).String()
}

func (l Large) service(i int) *corev1.Service {
	s := &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: fmt.Sprintf("large-%d", i)},
		Spec:       corev1.ServiceSpec{ClusterIP: address("10.96.0.10", i), ClusterIPs: []string{address("10.96.0.10", i)}},
	}
	for p := range max(l.Ports, 1) {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: fmt.Sprintf("p%d", p), Protocol: corev1.ProtocolTCP, Port: int32(1000 + p)})
	}
	if l.Sticky {
		s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
	}
	if l.Services > 0 {
		return s
	}
	for a := range l.Addresses {
		s.Spec.ExternalIPs = append(s.Spec.ExternalIPs, address("203.0.0.1", a))
	}
	s.Spec.Type = corev1.ServiceTypeLoadBalancer
	none := false
	s.Spec.AllocateLoadBalancerNodePorts = &none
	s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "198.51.100.1"}}
	for r := range l.Ranges {
		s.Spec.LoadBalancerSourceRanges = append(s.Spec.LoadBalancerSourceRanges, address("20.0.0.0", 512*r)+"/24")
	}
	return s
}

// slices hold the endpoints of a Service, 100 each, the first on the node.
func (l Large) slices(i int) (out []*discoveryv1.EndpointSlice) {
	n := l.Endpoints
	switch {
	case n > 0:
	case l.Services > 0:
		n = 1
	default:
		n = 2
	}
	ready := true
	for e := range n {
		if e%100 == 0 {
			out = append(out, l.slice(i, e/100))
		}
		s := out[len(out)-1]
		node := fmt.Sprintf("node-%d", e%50)
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{address("10.128.0.10", i*n+e)}, NodeName: &node, Conditions: discoveryv1.EndpointConditions{Ready: &ready},
		})
	}
	return out
}

func (l Large) slice(i, part int) *discoveryv1.EndpointSlice {
	name := fmt.Sprintf("large-%d", i)
	s := &discoveryv1.EndpointSlice{
		TypeMeta:    metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"},
		ObjectMeta:  metav1.ObjectMeta{Namespace: "demo", Name: fmt.Sprintf("%s-%d", name, part), Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4,
	}
	for p := range max(l.Ports, 1) {
		port, number, proto := fmt.Sprintf("p%d", p), int32(8000+p), corev1.ProtocolTCP
		s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: &port, Port: &number, Protocol: &proto})
	}
	return s
}
