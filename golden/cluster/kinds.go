package cluster

import (
	corev1 "k8s.io/api/core/v1"
)

// kind is a way in which Services are used.
type kind struct {
	name     string
	perMille int
	nodePort bool // wants node ports
	ports    [][]corev1.ServicePort
	dress    func(*generator, *corev1.Service) // makes a plain ClusterIP Service one of the kind
}

// kinds is the mix of Services.
var kinds = []kind{
	{name: "ClusterIP", perMille: 740, ports: webPorts, dress: (*generator).dressPlain},
	{name: "LoadBalancer", perMille: 80, nodePort: true, ports: edgePorts, dress: (*generator).dressLoadBalancer},
	{name: "NodePort", perMille: 60, nodePort: true, ports: webPorts, dress: (*generator).dressNodePort},
	{name: "headless", perMille: 40, ports: webPorts, dress: (*generator).dressHeadless},
	{name: "ExternalName", perMille: 30, dress: (*generator).dressExternalName},
	{name: "external IP", perMille: 20, ports: edgePorts, dress: (*generator).dressExternalIP},
	{name: "UDP", perMille: 20, ports: udpPorts, dress: (*generator).dressPlain},
	{name: "SCTP", perMille: 10, ports: sctpPorts, dress: (*generator).dressPlain},
}

func kindWeights() []int {
	var out []int
	for _, k := range kinds {
		out = append(out, k.perMille)
	}
	return out
}

// nodePortKinds is the share of Services whose kind wants node ports.
func nodePortKinds() float64 {
	sum := 0
	for _, k := range kinds {
		if k.nodePort {
			sum += k.perMille
		}
	}
	return float64(sum) / 1000
}

// Sets of ports, of which a Service has one.
var (
	webPorts = [][]corev1.ServicePort{
		{tcp("http", 80, "8080")},
		{tcp("http", 80, "http")},
		{tcp("http", 80, "8080"), tcp("metrics", 9090, "metrics")},
		{tcp("grpc", 9000, "9000"), tcp("metrics", 9090, "metrics")},
		{tcp("postgresql", 5432, "5432")},
		{tcp("redis", 6379, "6379")},
		{tcp("amqp", 5672, "amqp"), tcp("management", 15672, "15672")},
	}
	edgePorts = [][]corev1.ServicePort{
		{tcp("http", 80, "8080"), tcp("https", 443, "8443")},
		{tcp("https", 443, "8443")},
		{tcp("https", 443, "https")},
		{tcp("mqtt", 1883, "1883"), tcp("mqtts", 8883, "8883")},
	}
	udpPorts = [][]corev1.ServicePort{
		{udp("dns", 53, "53"), tcp("dns-tcp", 53, "53")},
		{udp("syslog", 514, "5514")},
		{udp("statsd", 8125, "8125")},
	}
	sctpPorts = [][]corev1.ServicePort{
		{sctp("s1ap", 36412, "36412")},
		{sctp("ngap", 38412, "38412"), tcp("metrics", 9090, "metrics")},
	}
)

// dressPlain draws what a Service inside the cluster may ask for.
func (g *generator) dressPlain(s *corev1.Service) {
	if g.chance(0.03) {
		g.stick(s)
	}
	switch x := g.Float64(); {
	case x < 0.02:
		*s.Spec.InternalTrafficPolicy = corev1.ServiceInternalTrafficPolicyLocal
	case x < 0.06:
		s.Spec.TrafficDistribution = ptr(corev1.ServiceTrafficDistributionPreferSameZone)
	case x < 0.07:
		s.Spec.TrafficDistribution = ptr(corev1.ServiceTrafficDistributionPreferSameNode)
	}
}

// stick asks for session affinity.
func (g *generator) stick(s *corev1.Service) {
	timeout := pick(g.draw, []int32{10800, 10800, 3600, 600})
	s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
	s.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &timeout}}
}

// open lets traffic in from outside, by one policy or the other.
func (g *generator) open(s *corev1.Service, local bool) {
	s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster
	if local {
		s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	}
}

// nodePortsFor gives each port of the Service a node port, and says whether it
// could: there are 2768 in a cluster, which are shared out over all Services
// whose kind wants some.
func (g *generator) nodePortsFor(s *corev1.Service) bool {
	if !g.chance(g.portShare) || len(g.nodePorts) < len(s.Spec.Ports)+1 {
		return false
	}
	for i := range s.Spec.Ports {
		s.Spec.Ports[i].NodePort = g.takeNodePort()
	}
	return true
}

// dressNodePort leaves a ClusterIP Service where node ports are short.
func (g *generator) dressNodePort(s *corev1.Service) {
	if !g.nodePortsFor(s) {
		return
	}
	s.Spec.Type = corev1.ServiceTypeNodePort
	g.open(s, g.chance(0.15))
	if g.chance(0.05) {
		g.stick(s)
	}
}

func (g *generator) dressHeadless(s *corev1.Service) {
	s.Spec.ClusterIP = corev1.ClusterIPNone
	s.Spec.ClusterIPs = []string{corev1.ClusterIPNone}
	s.Spec.PublishNotReadyAddresses = g.chance(0.4)
}

func (g *generator) dressExternalName(s *corev1.Service) {
	s.Spec = corev1.ServiceSpec{
		Type:            corev1.ServiceTypeExternalName,
		ExternalName:    s.Name + ".db.example.com",
		SessionAffinity: corev1.ServiceAffinityNone,
	}
}

func (g *generator) dressExternalIP(s *corev1.Service) {
	g.open(s, g.chance(0.3))
	s.Spec.ExternalIPs = g.addresses(&g.externals, s)
	if g.chance(0.3) {
		s.Spec.ExternalIPs = append(s.Spec.ExternalIPs, g.addresses(&g.externals, s)...)
	}
}

func ptr[T any](v T) *T { return &v }
