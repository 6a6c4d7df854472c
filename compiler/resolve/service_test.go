package resolve_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"svcc/compiler/resolve"
	"svcc/ir"
)

// frontends writes a service port's frontends, kinds by their first letter.
func frontends(s *ir.ServicePort) string {
	var out []string
	for _, f := range s.Frontends {
		out = append(out, f.Kind.String()[:1]+" "+f.Destination())
	}
	return strings.Join(out, ", ")
}

func TestFrontends(t *testing.T) {
	vip, proxy := corev1.LoadBalancerIPModeVIP, corev1.LoadBalancerIPModeProxy
	w := newWorld()
	s := w.service()
	s.Spec.Type = corev1.ServiceTypeLoadBalancer
	s.Spec.ExternalIPs = []string{"203.0.113.9", "2001:db8::9", "::ffff:203.0.113.8"}
	s.Spec.Ports[0].NodePort = 30080
	s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{
		{IP: "203.0.113.20"}, {IP: "203.0.113.21", IPMode: &vip}, {IP: "203.0.113.22", IPMode: &proxy},
		{Hostname: "lb.example"}, {IP: "2001:db8::20"}, {IP: "203.0.113.23 "},
	}
	want := "c 10.96.0.10:80, e 203.0.113.9:80, e 203.0.113.8:80, l 203.0.113.20:80, l 203.0.113.21:80, n 30080"
	if got := frontends(w.port(t)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	// Gate AllowServiceExternalIPs off: external IPs program nothing.
	w.options.ExternalIPs = false
	want = "c 10.96.0.10:80, l 203.0.113.20:80, l 203.0.113.21:80, n 30080"
	if got := frontends(w.port(t)); got != want {
		t.Errorf("gate off: %s, want %s", got, want)
	}
}

// Which Services are ours.
func TestSelection(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(s *corev1.Service)
		ours   bool
	}{
		{"usual", func(*corev1.Service) {}, true},
		{"another proxy's, though the label is empty", func(s *corev1.Service) { s.Labels["service.kubernetes.io/service-proxy-name"] = "" }, false},
		{"headless", func(s *corev1.Service) { s.Spec.ClusterIP = "None" }, false},
		{"no cluster IP", func(s *corev1.Service) { s.Spec.ClusterIP = "" }, false},
		{"ExternalName", func(s *corev1.Service) { s.Spec.Type = "ExternalName" }, false},
		{"no address in the family of its list", func(s *corev1.Service) { s.Spec.IPFamilies = []corev1.IPFamily{"IPv6"} }, false},
		{"fewer addresses than families", func(s *corev1.Service) { s.Spec.IPFamilies, s.Spec.ClusterIPs = []corev1.IPFamily{"IPv4"}, nil }, false},
	} {
		w := newWorld()
		w.options.Families = []ir.Family{ir.IPv4}
		c.change(w.service())
		if got := len(w.program(t).Services) == 1; got != c.ours {
			t.Errorf("%s: ours %v", c.name, got)
		}
	}
	w := newWorld()
	if programs, _ := resolve.Resolve(&w.Set, map[string]bool{"demo/web": true}, w.options); len(programs[0].Services) != 0 {
		t.Error("a skipped Service is there")
	}
}

// A cluster IP is found by the family's place in ipFamilies, else by its form.
func TestFamilies(t *testing.T) {
	four, six := corev1.IPv4Protocol, corev1.IPv6Protocol
	for _, c := range []struct {
		name     string
		ips      []string
		families []corev1.IPFamily
		asked    []ir.Family
		want     string
	}{
		{"IPv4 by form", []string{"10.96.0.10"}, nil, nil, "ipv4 10.96.0.10:80"},
		{"IPv6 by form", []string{"fd00::10"}, nil, nil, "ipv6 [fd00::10]:80"},
		{"mapped is IPv4", []string{"::ffff:10.96.0.10"}, nil, nil, "ipv4 10.96.0.10:80"},
		{"dual", []string{"10.96.0.10", "fd00::10"}, []corev1.IPFamily{four, six}, nil, "ipv4 10.96.0.10:80; ipv6 [fd00::10]:80"},
		{"dual, IPv6 first", []string{"fd00::10", "10.96.0.10"}, []corev1.IPFamily{six, four}, nil, "ipv4 10.96.0.10:80; ipv6 [fd00::10]:80"},
		{"without families clusterIP alone counts", []string{"10.96.0.10", "fd00::10"}, nil, nil, "ipv4 10.96.0.10:80"},
		{"one asked for", []string{"10.96.0.10", "fd00::10"}, []corev1.IPFamily{four, six}, []ir.Family{ir.IPv6}, "ipv6 [fd00::10]:80"},
		{"one asked for that is not there", []string{"10.96.0.10"}, nil, []ir.Family{ir.IPv6}, "ipv6"},
		{"both asked for", []string{"10.96.0.10"}, nil, []ir.Family{ir.IPv6, ir.IPv4}, "ipv4 10.96.0.10:80; ipv6"},
	} {
		w := newWorld()
		w.options.Detect, w.options.Interface = resolve.DetectBridge, "cbr0"
		s := w.service()
		s.Spec.ClusterIP, s.Spec.ClusterIPs, s.Spec.IPFamilies = c.ips[0], c.ips, c.families
		w.options.Families = c.asked
		programs, _ := w.resolve(t)
		var got []string
		for _, p := range programs {
			x := p.Family.String()
			for _, s := range p.Services {
				x += strings.TrimPrefix(frontends(s), "c")
			}
			got = append(got, x)
		}
		if strings.Join(got, "; ") != c.want {
			t.Errorf("%s: %q, want %s", c.name, got, c.want)
		}
	}
}

// Source ranges: trimmed, masked, of the family; a /0 lets everybody in.
func TestSourceRanges(t *testing.T) {
	for _, c := range []struct {
		ranges string // comma-separated
		want   string
		node   bool
	}{
		{"", "[]", false},
		{"192.0.2.0/24", "[192.0.2.0/24]", true},
		{"198.51.100.0/24", "[198.51.100.0/24]", false},
		{" 198.51.100.0/24,192.0.2.10/32 ", "[198.51.100.0/24 192.0.2.10/32]", true},
		{"198.51.100.7/24", "[198.51.100.0/24]", false},
		{"198.51.100.0/24,0.0.0.0/0", "[]", false},
		{"0.0.0.0/0", "[]", false},
		{"198.51.100.0/24,::/0", "[198.51.100.0/24]", false},
		{"2001:db8::/32", "[]", false},
		{"10.0.0.0/8,10.0.0.0/16,10.0.0.0/8", "[10.0.0.0/8 10.0.0.0/16 10.0.0.0/8]", false},
	} {
		w := newWorld()
		w.service().Spec.Type = corev1.ServiceTypeLoadBalancer
		w.service().Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "203.0.113.20"}}
		if c.ranges != "" {
			w.service().Spec.LoadBalancerSourceRanges = strings.Split(c.ranges, ",")
		}
		s := w.port(t)
		if got := fmt.Sprint(s.SourceRanges); got != c.want || s.NodeAllowed != c.node {
			t.Errorf("%q: %s, node allowed %v; want %s and %v", c.ranges, got, s.NodeAllowed, c.want, c.node)
		}
	}
	// A node without an address of the family is in no range.
	w := newWorld()
	w.Nodes[0].Value.Status.Addresses = nil
	balanced(w, "192.0.2.0/24")
	if s := w.port(t); s.NodeAllowed || len(s.SourceRanges) != 1 {
		t.Errorf("%v %v", s.NodeAllowed, s.SourceRanges)
	}
	// Ranges guard nothing where there is no load balancer's address.
	w.service().Status.LoadBalancer.Ingress = nil
	if s := w.port(t); len(s.SourceRanges) != 0 {
		t.Errorf("%v", s.SourceRanges)
	}
}

func TestAffinity(t *testing.T) {
	for _, c := range []struct {
		affinity corev1.ServiceAffinity
		config   *corev1.SessionAffinityConfig
		want     int
	}{
		{"", nil, 0},
		{"None", &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: ptr(int32(60))}}, 0},
		{"ClientIP", nil, 10800},
		{"ClientIP", &corev1.SessionAffinityConfig{}, 10800},
		{"ClientIP", &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{}}, 10800},
		{"ClientIP", &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: ptr(int32(60))}}, 60},
	} {
		w := newWorld()
		w.service().Spec.SessionAffinity, w.service().Spec.SessionAffinityConfig = c.affinity, c.config
		if got := w.port(t).AffinitySeconds; got != c.want {
			t.Errorf("%q %v: %d s, want %d", c.affinity, c.config, got, c.want)
		}
	}
}

// The health-check node port is open for LoadBalancer with policy Local alone.
func TestHealthCheckNodePort(t *testing.T) {
	for _, c := range []struct {
		kind   corev1.ServiceType
		policy corev1.ServiceExternalTrafficPolicy
		want   uint16
	}{
		{"LoadBalancer", "Local", 31555}, {"LoadBalancer", "Cluster", 0}, {"NodePort", "Local", 0}, {"ClusterIP", "", 0},
	} {
		w := newWorld()
		s := w.service()
		s.Spec.Type, s.Spec.ExternalTrafficPolicy, s.Spec.HealthCheckNodePort = c.kind, c.policy, 31555
		if got := w.port(t).HealthCheckNodePort; got != c.want {
			t.Errorf("%s %s: %d, want %d", c.kind, c.policy, got, c.want)
		}
	}
}

// Every port of a Service is a service port, those of one name in two
// protocols as well.
func TestPorts(t *testing.T) {
	w := newWorld()
	w.service().Spec.Ports = []corev1.ServicePort{
		{Name: "dns", Protocol: "UDP", Port: 53}, {Name: "dns-tcp", Protocol: "TCP", Port: 53}, {Name: "m", Protocol: "SCTP", Port: 9},
		{Name: "bad", Protocol: "ICMP", Port: 1}, // validation has said so
	}
	var got []string
	for _, s := range w.program(t).Services {
		got = append(got, s.PortName.String())
	}
	if strings.Join(got, " ") != "demo/web:dns/udp demo/web:dns-tcp/tcp demo/web:m/sctp" {
		t.Error(got)
	}
}
