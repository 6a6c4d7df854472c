package resolve_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"svcc/compiler/manifest"
	"svcc/compiler/resolve"
	"svcc/ir"
	"svcc/ir/diag"
)

func ptr[T any](v T) *T { return &v }

// world is an input: the Service demo/web, seen from node-a in zone east.
type world struct {
	manifest.Set
	options resolve.Options
}

// newWorld has one Service with one port http at 10.96.0.10:80, and node-a.
func newWorld() *world {
	w := &world{options: resolve.NewOptions()}
	w.options.Node = "node-a"
	w.options.ClusterCIDRs = []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}
	w.addService("web", "10.96.0.10")
	w.addNode("node-a", "east", "192.0.2.10")
	return w
}

func object[T any](v T) *manifest.Object[T] { return &manifest.Object[T]{Value: v} }

func (w *world) addService(name, ip string) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "demo", Labels: map[string]string{}},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: ip, ClusterIPs: []string{ip},
			Ports: []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}},
		},
	}
	w.Services = append(w.Services, object(s))
	return s
}

func (w *world) service() *corev1.Service { return w.Services[0].Value }

func (w *world) addNode(name, zone string, ips ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	if zone != "" {
		n.Labels[corev1.LabelTopologyZone] = zone
	}
	for _, ip := range ips {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip})
	}
	w.Nodes = append(w.Nodes, object(n))
	return n
}

// addSlice adds an IPv4 slice of demo/web with port http at 8080.
func (w *world) addSlice(name string, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: name, Namespace: "demo", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: ptr("http"), Protocol: ptr(corev1.ProtocolTCP), Port: ptr(int32(8080))}},
		Endpoints:   endpoints,
	}
	w.Slices = append(w.Slices, object(s))
	return s
}

// endpoint makes an endpoint; conditions are ready, serving and terminating,
// each T, F or - for missing.
func endpoint(ip, node, conditions string) discoveryv1.Endpoint {
	e := discoveryv1.Endpoint{Addresses: []string{ip}}
	if node != "" {
		e.NodeName = &node
	}
	for i, to := range []**bool{&e.Conditions.Ready, &e.Conditions.Serving, &e.Conditions.Terminating} {
		if conditions[i] != '-' {
			*to = ptr(conditions[i] == 'T')
		}
	}
	return e
}

// resolve gives the Programs and what was found, but for the families that the
// world's one Service has no address in: tests ask for both to see what becomes of
// the node's facts.
func (w *world) resolve(t helper) ([]*ir.Program, diag.List) {
	t.Helper()
	programs, list := resolve.Resolve(&w.Set, nil, w.options)
	list = slices.DeleteFunc(list, func(d diag.Diagnostic) bool { return d.Code == diag.FamilyEmpty })
	for _, p := range programs {
		for _, s := range p.Services {
			slices.SortFunc(s.Cluster, ir.CompareEndpoints)
			slices.SortFunc(s.Local, ir.CompareEndpoints)
			slices.SortFunc(s.Serving, func(a, b netip.AddrPort) int { return strings.Compare(a.String(), b.String()) })
		}
		slices.SortFunc(p.Services, func(a, b *ir.ServicePort) int { return a.Compare(b.PortName) })
	}
	return programs, list
}

// program resolves to one sound Program without findings.
func (w *world) program(t testing.TB) *ir.Program {
	t.Helper()
	programs, list := w.resolve(t)
	if len(list) > 0 {
		t.Fatalf("findings: %v", list)
	}
	if len(programs) != 1 {
		t.Fatalf("%d programs", len(programs))
	}
	if err := programs[0].Check(); err != nil {
		t.Fatal(err)
	}
	return programs[0]
}

// port is the one service port of the one Program.
func (w *world) port(t testing.TB) *ir.ServicePort {
	t.Helper()
	p := w.program(t)
	if len(p.Services) != 1 {
		t.Fatalf("%d service ports", len(p.Services))
	}
	return p.Services[0]
}

// text lists endpoints, local ones with a star.
func text(list []ir.Endpoint) string {
	var s []string
	for _, e := range list {
		x := e.String()
		if e.Local {
			x += "*"
		}
		s = append(s, x)
	}
	return strings.Join(s, " ")
}

// codes lists a list's codes.
func codes(list diag.List) string {
	var s []string
	for _, d := range list {
		s = append(s, string(d.Code))
	}
	return strings.Join(s, " ")
}

// helper is what a test's and a property's t have in common.
type helper interface{ Helper() }
