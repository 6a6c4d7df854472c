package conformance

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// clustersPerSeed is how many random clusters each seed tries.
const clustersPerSeed = 300

// thisNode is the node for which rules are made.
const thisNode = "node-0"

// Where addresses come from, one row a family, IPv4 first.
var (
	nodeIPs    = [2]string{"192.168.0.1", "fd00:192:168::1"}
	secondIPs  = [2]string{"192.168.7.1", "fd00:192:168:7::1"} // of this node as well
	serviceIPs = [2]string{"10.96.%d.%d", "fd00:10:96::%x:%x"}
	externals  = [2]string{"198.19.%d.%d", "fd00:198:19::%x:%x"}
	balancers  = [2]string{"198.18.%d.%d", "fd00:198:18::%x:%x"}
	pods       = [2]string{"10.128.%d.%d", "fd00:10:128::%x:%x"}
	podRanges  = [2]string{"10.128.0.0/9", "fd00:10:128::/48"}
	nodeRanges = [2]string{"10.128.0.0/24", "fd00:10:128::/64"}
)

// choices are the options that both programs are started with.
type choices struct {
	masqueradeAll      bool
	masqueradeBit      int
	localhostNodePorts bool
	nodePortAddresses  []string
	detect             string // a detectLocalMode
	clusterCIDRs       []string
	liberal            bool   // net.netfilter.nf_conntrack_tcp_be_liberal
	scheduler          string // of virtual servers; "" for the default
}

// world is one cluster with the node's view of it.
type world struct {
	choices
	nodes    []*corev1.Node
	services []*corev1.Service
	slices   []*discoveryv1.EndpointSlice

	r     *rand.Rand
	taken map[string]bool // destinations, node ports
	next  int             // for addresses that nobody else has
}

// newWorld draws the n-th cluster of a seed.
func newWorld(seed uint64, n int) *world {
	w := &world{r: dice(seed, n), taken: map[string]bool{}}
	w.choose()
	for i := range 3 {
		w.nodes = append(w.nodes, w.node(i))
	}
	for i := range 1 + w.r.IntN(10) {
		w.service(i)
	}
	return w
}

func (w *world) oneIn(n int) bool { return oneIn(w.r, n) }

func (w *world) choose() {
	w.choices = choices{
		masqueradeAll: w.oneIn(5), masqueradeBit: 14, localhostNodePorts: !w.oneIn(4), liberal: w.oneIn(5),
		detect:            pick(w.r, []string{"ClusterCIDR", "ClusterCIDR", "NodeCIDR", "BridgeInterface", "InterfaceNamePrefix"}),
		clusterCIDRs:      pick(w.r, [][]string{podRanges[:], podRanges[:], podRanges[:1], podRanges[1:], nil}),
		nodePortAddresses: pick(w.r, nodePortChoices),
		scheduler:         pick(w.r, []string{"", "", "", "", "lc", "mh", "ovf", "sh"}),
	}
	if w.oneIn(4) {
		w.masqueradeBit = w.r.IntN(32)
	}
}

var nodePortChoices = [][]string{nil, nil, nil, {"all"}, {"primary"}, {"localhost"}, {"primary", "localhost"}, {"192.168.0.0/16"},
	{"192.168.0.1/32", "fd00:192:168::1/128"}, {"192.168.0.0/16", "127.0.0.0/8", "fd00:192:168::/48"}, {"127.0.0.1/32"}, {"203.0.113.0/24"}}

// node makes a Node as a kubelet leaves it.
func (w *world) node(i int) *corev1.Node {
	n := &corev1.Node{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", i), Labels: map[string]string{corev1.LabelTopologyZone: zone(i)}},
	}
	for f := range nodeIPs {
		n.Spec.PodCIDRs = append(n.Spec.PodCIDRs, strings.Replace(nodeRanges[f], "128", fmt.Sprint(128+i), 1))
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: nodeIPs[f][:len(nodeIPs[f])-1] + fmt.Sprint(1+i)})
	}
	n.Spec.PodCIDR = n.Spec.PodCIDRs[0]
	if i == 0 && w.oneIn(6) {
		n.Labels = nil
	}
	return n
}

func zone(i int) string { return []string{"a", "b", "b"}[i] }

// address is one that nobody else has.
func (w *world) address(form [2]string, f int) string {
	w.next++
	return fmt.Sprintf(form[f], w.next/200, 1+w.next%200)
}

// claim says whether nobody had it before.
func (w *world) claim(format string, args ...any) bool {
	s := fmt.Sprintf(format, args...)
	was := w.taken[s]
	w.taken[s] = true
	return !was
}

// service makes a Service with its slices.
func (w *world) service(i int) {
	s := &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Namespace: pick(w.r, []string{"a", "shop"}), Name: fmt.Sprintf("s%d", i)},
	}
	s.Spec.Type = pick(w.r, []corev1.ServiceType{corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeLoadBalancer})
	families := pick(w.r, [][]int{{0}, {0}, {1}, {0, 1}, {1, 0}})
	w.ports(s)
	for _, f := range families {
		s.Spec.IPFamilies = append(s.Spec.IPFamilies, []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}[f])
		s.Spec.ClusterIPs = append(s.Spec.ClusterIPs, w.address(serviceIPs, f))
	}
	s.Spec.ClusterIP = s.Spec.ClusterIPs[0]
	w.external(s, families)
	w.policies(s)
	w.balancer(s, families)
	w.nodePorts(s)
	w.oddKinds(s)
	w.services = append(w.services, s)
	for _, f := range families {
		w.slicesOf(s, f)
	}
}

// oddKinds makes of a few Services what a proxy leaves out.
func (w *world) oddKinds(s *corev1.Service) {
	switch {
	case w.oneIn(20):
		s.Labels = map[string]string{"service.kubernetes.io/service-proxy-name": pick(w.r, []string{"", "other"})}
	case w.oneIn(20) && s.Spec.Type == corev1.ServiceTypeClusterIP:
		s.Spec.ClusterIP, s.Spec.ClusterIPs = corev1.ClusterIPNone, []string{corev1.ClusterIPNone}
	}
}

func (w *world) ports(s *corev1.Service) {
	for i, n := 0, 1+w.r.IntN(3); i < n; i++ {
		p := corev1.ServicePort{
			Port:     pick(w.r, []int32{53, 80, 443, 8080, int32(1 + w.r.IntN(65535))}),
			Protocol: pick(w.r, []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP}),
		}
		if n > 1 || w.oneIn(2) {
			p.Name = fmt.Sprintf("p%d", i)
		}
		p.TargetPort = intstr.FromInt32(p.Port)
		if !slices.ContainsFunc(s.Spec.Ports, func(q corev1.ServicePort) bool { return q.Port == p.Port && q.Protocol == p.Protocol }) {
			s.Spec.Ports = append(s.Spec.Ports, p)
		}
	}
}

// external gives external IPs; some Services share one, by other ports.
func (w *world) external(s *corev1.Service, families []int) {
	for range w.r.IntN(3) {
		f := pick(w.r, []int{0, 1, families[0]})
		a := w.address(externals, f)
		switch {
		case w.oneIn(5):
			a = nodeIPs[f]
		case w.oneIn(4):
			a = fmt.Sprintf(externals[f], 255, 7)
		case w.oneIn(8):
			s.Spec.ExternalIPs = append(s.Spec.ExternalIPs, pick(w.r, s.Spec.ClusterIPs)) // the Service's already
			continue
		}
		if w.free(s, a) {
			s.Spec.ExternalIPs = append(s.Spec.ExternalIPs, a)
		}
	}
}

// free claims a Service's ports at an address.
func (w *world) free(s *corev1.Service, a string) bool {
	for _, p := range s.Spec.Ports {
		if w.taken[fmt.Sprint(a, p.Port, p.Protocol)] {
			return false
		}
	}
	for _, p := range s.Spec.Ports {
		w.taken[fmt.Sprint(a, p.Port, p.Protocol)] = true
	}
	return true
}

func (w *world) policies(s *corev1.Service) {
	if w.oneIn(3) {
		s.Spec.InternalTrafficPolicy = ptr(corev1.ServiceInternalTrafficPolicyLocal)
	}
	if outside := s.Spec.Type != corev1.ServiceTypeClusterIP || len(s.Spec.ExternalIPs) > 0; outside && w.oneIn(2) {
		s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	}
	if w.oneIn(4) {
		s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
		if w.oneIn(2) {
			s.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: ptr(int32(1 + w.r.IntN(86400)))}}
		}
	}
}

// balancer gives a load balancer's addresses, source ranges and health checks.
func (w *world) balancer(s *corev1.Service, families []int) {
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return
	}
	for range w.r.IntN(4) {
		in := corev1.LoadBalancerIngress{IP: w.address(balancers, pick(w.r, []int{0, 1, families[0], families[0]}))}
		switch w.r.IntN(8) {
		case 0:
			in = corev1.LoadBalancerIngress{Hostname: "lb.example.com"}
		case 1:
			in.IPMode = ptr(corev1.LoadBalancerIPModeProxy)
		case 2, 3:
			in.IPMode = ptr(corev1.LoadBalancerIPModeVIP)
		case 4:
			in.IP = pick(w.r, append(slices.Clone(s.Spec.ExternalIPs), s.Spec.ClusterIPs...)) // the Service's already
		}
		s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, in)
	}
	if w.oneIn(2) {
		for range 1 + w.r.IntN(3) {
			s.Spec.LoadBalancerSourceRanges = append(s.Spec.LoadBalancerSourceRanges, pick(w.r, sourceRanges))
		}
	}
	if s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal {
		s.Spec.HealthCheckNodePort = w.nodePort(corev1.ProtocolTCP)
	}
}

var sourceRanges = []string{"203.0.113.0/24", "198.51.100.7/32", "192.168.0.0/16", " 10.128.0.0/9 ", "203.0.113.0/25", "0.0.0.0/0", "192.168.0.1/32",
	"2001:db8::/32", "fd00:192:168::/48", "2001:db8::7/128", "fd00:192:168::1/128", "::/0"}

func (w *world) nodePort(p corev1.Protocol) int32 {
	for {
		n := int32(30000 + w.r.IntN(2768))
		if w.claim("node port %d/%s", n, p) {
			return n
		}
	}
}

func (w *world) nodePorts(s *corev1.Service) {
	if s.Spec.Type == corev1.ServiceTypeClusterIP {
		return
	}
	if s.Spec.Type == corev1.ServiceTypeLoadBalancer && w.oneIn(4) {
		s.Spec.AllocateLoadBalancerNodePorts = ptr(false)
		return
	}
	for i := range s.Spec.Ports {
		s.Spec.Ports[i].NodePort = w.nodePort(s.Spec.Ports[i].Protocol)
	}
}

func ptr[T any](v T) *T { return &v }
