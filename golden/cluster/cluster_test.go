package cluster

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/yaml"
)

func hashOf(t *testing.T, c *Cluster) string {
	t.Helper()
	h := sha256.New()
	if err := json.NewEncoder(h).Encode(c); err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// The pinned hash keeps benchmark figures comparable: who changes the mix
// knows it, and says so beside the next figures.
func TestSameOptionsSameCluster(t *testing.T) {
	o := Options{Services: 300, Nodes: 7, DualStack: 0.3, Seed: 1}
	const pinned = "72d5563dcb97ddce"
	if got := hashOf(t, Generate(o)); got != pinned {
		t.Errorf("cluster %+v has hash %s, not %s", o, got, pinned)
	}
	if a, b := hashOf(t, Generate(o)), hashOf(t, Generate(o)); a != b {
		t.Errorf("two runs differ: %s, %s", a, b)
	}
	other := o
	other.Seed = 2
	if hashOf(t, Generate(o)) == hashOf(t, Generate(other)) {
		t.Error("another seed gives the same cluster")
	}
}

func TestCounts(t *testing.T) {
	for _, services := range []int{1, 100, 1000, 10000, 30000} {
		c := Generate(Options{Services: services, Nodes: 50})
		if len(c.Services) != services || len(c.Nodes) != 50 {
			t.Errorf("%d services, %d nodes; want %d, 50", len(c.Services), len(c.Nodes), services)
		}
	}
}

func TestEndpointsPerService(t *testing.T) {
	for _, services := range []int{100, 1000, 10000} {
		sizes := newDraw(1).sizes(services, 5)
		total, few, many := 0, 0, 0
		for _, n := range sizes {
			total += n
			if n <= 3 {
				few++
			}
			if n >= 50 {
				many++
			}
		}
		if got := float64(total) / float64(services); got < 4.95 || got > 5.05 {
			t.Errorf("%d services: %.3f endpoints on average, want 5", services, got)
		}
		if share := float64(few) / float64(services); share < 0.6 || share > 0.8 {
			t.Errorf("%d services: %.2f of them have 1 to 3 endpoints", services, share)
		}
		if share := float64(many) / float64(services); many == 0 || share > 0.02 {
			t.Errorf("%d services: %d have 50 or more endpoints", services, many)
		}
	}
}

func TestSliceLimits(t *testing.T) {
	full := false
	for _, s := range Generate(Options{Services: 2000, DualStack: 0.5}).Slices {
		if len(s.Endpoints) > 100 {
			t.Errorf("%s has %d endpoints", s.Name, len(s.Endpoints))
		}
		full = full || len(s.Endpoints) == 100
		for _, e := range s.Endpoints {
			a := netip.MustParseAddr(e.Addresses[0])
			if a.Is4() != (s.AddressType == discoveryv1.AddressTypeIPv4) {
				t.Errorf("%s is %s but holds %s", s.Name, s.AddressType, a)
			}
		}
	}
	if !full {
		t.Error("no Service needed a second slice")
	}
}

func TestMix(t *testing.T) {
	const n = 10000
	seen := map[string]int{}
	for _, s := range Generate(Options{Services: n, DualStack: 0.25}).Services {
		for _, f := range featuresOf(s) {
			seen[f]++
		}
	}
	for _, want := range []struct {
		feature  string
		from, to float64 // per cent
	}{
		{"type ClusterIP", 78, 86}, {"type NodePort", 4, 6}, {"type LoadBalancer", 8, 8}, {"type ExternalName", 3, 3},
		{"headless", 4, 4}, {"external IP", 2, 2}, {"UDP", 2, 3}, {"SCTP", 1, 1},
		{"affinity", 1, 5}, {"iTP Local", 1, 3}, {"eTP Local", 2, 6}, {"health check", 2, 4}, {"source ranges", 1.5, 3.5},
		{"distribution", 2, 6}, {"dual stack", 23, 27}, {"two ports", 30, 60}, {"last applied", 25, 40}, {"no name", 5, 20},
	} {
		if got := 100 * float64(seen[want.feature]) / n; got < want.from || got > want.to {
			t.Errorf("%s: %.2f %% of the Services, want %v to %v", want.feature, got, want.from, want.to)
		}
	}
}

func featuresOf(s *corev1.Service) []string {
	var out []string
	add := func(name string, yes bool) {
		if yes {
			out = append(out, name)
		}
	}
	add("type "+string(s.Spec.Type), true)
	add("headless", s.Spec.ClusterIP == "None")
	add("external IP", len(s.Spec.ExternalIPs) > 0)
	add("affinity", s.Spec.SessionAffinity == corev1.ServiceAffinityClientIP)
	add("iTP Local", s.Spec.InternalTrafficPolicy != nil && *s.Spec.InternalTrafficPolicy == corev1.ServiceInternalTrafficPolicyLocal)
	add("eTP Local", s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal)
	add("health check", s.Spec.HealthCheckNodePort != 0)
	add("source ranges", len(s.Spec.LoadBalancerSourceRanges) > 0)
	add("distribution", s.Spec.TrafficDistribution != nil)
	add("dual stack", len(s.Spec.IPFamilies) == 2)
	add("two ports", len(s.Spec.Ports) == 2)
	add("last applied", s.Annotations[lastApplied] != "")
	add("no name", len(s.Spec.Ports) == 1 && s.Spec.Ports[0].Name == "")
	if len(s.Spec.Ports) > 0 {
		add(string(s.Spec.Ports[0].Protocol), true)
	}
	return out
}

func TestEndpointStates(t *testing.T) {
	seen := map[string]int{}
	for _, s := range Generate(Options{Services: 3000}).Slices {
		if len(s.Endpoints) == 0 {
			seen["empty slice"]++
		}
		for _, e := range s.Endpoints {
			c := e.Conditions
			seen[fmt.Sprintf("ready %v serving %v terminating %v", *c.Ready, *c.Serving, *c.Terminating)]++
			if e.Hints != nil {
				seen["hint"]++
			}
		}
	}
	for _, want := range []string{
		"empty slice", "hint", "ready true serving true terminating false", "ready false serving false terminating false",
		"ready false serving true terminating true", "ready false serving false terminating true",
	} {
		if seen[want] == 0 {
			t.Errorf("there is no endpoint: %s", want)
		}
	}
}

// claims lists what a Service claims for itself alone in the cluster.
func claims(s *corev1.Service) []string {
	var out []string
	addresses := append([]string{}, s.Spec.ExternalIPs...)
	for _, a := range s.Spec.ClusterIPs {
		if a != "None" {
			addresses = append(addresses, a)
		}
	}
	for _, in := range s.Status.LoadBalancer.Ingress {
		if in.IP != "" {
			addresses = append(addresses, in.IP)
		}
	}
	for _, a := range addresses {
		out = append(out, "address "+a)
	}
	for _, p := range s.Spec.Ports {
		out = append(out, fmt.Sprint("node port ", p.NodePort))
	}
	return append(out, fmt.Sprint("node port ", s.Spec.HealthCheckNodePort))
}

func TestClaimsAreUnique(t *testing.T) {
	for _, services := range []int{1000, 10000, 30000} {
		c := Generate(Options{Services: services, DualStack: 0.5})
		u := unique{t: t, by: map[string]string{"node port 0": ""}}
		for _, s := range c.Services {
			u.claim(s.Name, claims(s)...)
			u.claim(s.Name, "object "+s.Namespace+"/"+s.Name, string(s.UID))
		}
		for _, s := range c.Slices {
			u.claim(s.Name, "slice "+s.Namespace+"/"+s.Name, string(s.UID))
			for _, e := range s.Endpoints {
				u.claim(s.Name, "address "+e.Addresses[0])
			}
		}
		for _, n := range c.Nodes {
			u.claim(n.Name, "address "+n.Status.Addresses[0].Address, string(n.UID))
		}
		ports := 0
		for k := range u.by {
			if strings.HasPrefix(k, "node port 3") {
				ports++
			}
		}
		if low := min(services/20, 2300); ports < low || ports > 2768 {
			t.Errorf("%d services have %d node ports, want %d to 2768", services, ports, low)
		}
	}
}

// unique fails the test where something is claimed twice.
type unique struct {
	t  *testing.T
	by map[string]string
}

func (u unique) claim(who string, what ...string) {
	u.t.Helper()
	for _, w := range what {
		if w == "node port 0" {
			continue
		}
		if other, taken := u.by[w]; taken {
			u.t.Errorf("%s: of %s and of %s", w, other, who)
		}
		u.by[w] = who
	}
}

func TestAddressesAreInTheDocumentedRanges(t *testing.T) {
	c := Generate(Options{Services: 5000, Nodes: 3, DualStack: 0.5})
	in := func(a string, cidrs ...string) {
		t.Helper()
		for _, cidr := range cidrs {
			if netip.MustParsePrefix(cidr).Contains(netip.MustParseAddr(a)) {
				return
			}
		}
		t.Errorf("%s is in none of %v", a, cidrs)
	}
	for _, s := range c.Services {
		for _, a := range s.Spec.ClusterIPs {
			if a != "None" {
				in(a, ServiceCIDR, ServiceCIDR6)
			}
		}
		for _, a := range s.Spec.ExternalIPs {
			in(a, ExternalCIDR, ExternalCIDR6)
		}
	}
	nodes := map[string][]string{}
	for _, n := range c.Nodes {
		nodes[n.Name] = n.Spec.PodCIDRs
		in(n.Spec.PodCIDRs[0][:strings.Index(n.Spec.PodCIDRs[0], "/")], PodCIDR)
	}
	for _, s := range c.Slices {
		for _, e := range s.Endpoints {
			in(e.Addresses[0], nodes[*e.NodeName]...)
		}
	}
	if a := c.Nodes[0].Status.Addresses[0].Address; a != "192.168.0.1" {
		t.Errorf("node-0 is %s", a)
	}
}

func TestWrittenFilesReadBack(t *testing.T) {
	c := Generate(Options{Services: 60, DualStack: 0.5})
	dir := t.TempDir()
	if err := c.WriteYAML(dir); err != nil {
		t.Fatal(err)
	}
	var back Cluster
	for _, doc := range documents(t, filepath.Join(dir, "services.yaml")) {
		s := &corev1.Service{}
		if err := yaml.UnmarshalStrict([]byte(doc), s); err != nil {
			t.Fatal(err)
		}
		back.Services = append(back.Services, s)
	}
	for _, doc := range documents(t, filepath.Join(dir, "endpointslices.yaml")) {
		s := &discoveryv1.EndpointSlice{}
		if err := yaml.UnmarshalStrict([]byte(doc), s); err != nil {
			t.Fatal(err)
		}
		back.Slices = append(back.Slices, s)
	}
	back.Nodes = c.Nodes
	if hashOf(t, c) != hashOf(t, &back) {
		t.Error("the written objects are not those generated")
	}
}

func documents(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimPrefix(string(text), "---\n"), "\n---\n")
}

func TestWrittenListsReadBack(t *testing.T) {
	c := Generate(Options{Services: 60})
	dir := t.TempDir()
	if err := c.WriteJSON(dir); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "services.json"))
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		Kind  string
		Items []*corev1.Service
	}
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	if list.Kind != "List" || len(list.Items) != 60 {
		t.Errorf("kind %s with %d items", list.Kind, len(list.Items))
	}
}

func TestCheckRefuses(t *testing.T) {
	for _, o := range []Options{
		{Services: -1}, {Services: MaxServices + 1}, {Nodes: MaxNodes + 1}, {Nodes: -1},
		{EndpointsPerService: 0.5}, {Services: MaxServices, EndpointsPerService: 6}, {DualStack: 1.1}, {DualStack: -1},
	} {
		if o.Check() == nil {
			t.Errorf("%+v passed", o)
		}
	}
	if err := (Options{}).Check(); err != nil {
		t.Errorf("the zero options: %v", err)
	}
}
