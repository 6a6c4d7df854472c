package conformance

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"svcc/emit/mode"
	"svcc/ir"
)

// TestDuplicateEndpoints holds the deviation of that name: of two endpoints with
// one address, kube-proxy takes now this, now that one. svcc's choice is one of
// kube-proxy's.
func TestDuplicateEndpoints(t *testing.T) {
	w := twice()
	got := joined(readRules(w.compile(t, mode.IPTables).Units[0].Sections[0].Text))
	seen := map[string]bool{}
	for range 200 {
		seen[joined(w.reference(t, ir.IPv4))] = true
		if len(seen) > 1 && seen[got] {
			return
		}
	}
	t.Errorf("in 200 runs kube-proxy has written %d texts; svcc's among them: %t", len(seen), seen[got])
}

// TestManyEndpoints holds the number of endpoints above which their rules carry no
// comments to kube-proxy's.
func TestManyEndpoints(t *testing.T) {
	for _, n := range []int{1000, 1001} {
		var list []discoveryv1.Endpoint
		for i := range n {
			list = append(list, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf(pods[0], i/200, 1+i%200)}})
		}
		w := single(list[:n/2], list[n/2:])
		w.services[0].Spec.InternalTrafficPolicy = nil
		if got := strings.Count(string(w.compile(t, mode.IPTables).Units[0].Sections[0].Text), "-j DNAT"); got != n {
			t.Fatalf("%d rules for %d endpoints", got, n)
		}
		if d := compare(w.reference(t, ir.IPv4), readRules(w.compile(t, mode.IPTables).Units[0].Sections[0].Text)); len(d) > 0 {
			t.Errorf("%d endpoints: %d lines differ, the first is %s", n, len(d), d[0])
		}
	}
}

// twice is a world with one endpoint in two slices, here and elsewhere.
func twice() *world {
	on := func(node string) []discoveryv1.Endpoint {
		return []discoveryv1.Endpoint{{Addresses: []string{"10.128.0.9"}, NodeName: &node}}
	}
	return single(on("node-0"), on("node-1"))
}

// single is a world with one Service, which has a slice with each list.
func single(lists ...[]discoveryv1.Endpoint) *world {
	w := newWorld(fixedSeed, 0)
	w.services, w.slices, w.nodePortAddresses = nil, nil, nil
	w.services = append(w.services, &corev1.Service{})
	s := w.services[0]
	s.APIVersion, s.Kind, s.Namespace, s.Name = "v1", "Service", "a", "s"
	s.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIP: "10.96.0.1", InternalTrafficPolicy: ptr(corev1.ServiceInternalTrafficPolicyLocal),
		Ports: []corev1.ServicePort{{Port: 80}}}
	for i, list := range lists {
		x := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Port: ptr(int32(80))}}, Endpoints: list}
		x.APIVersion, x.Kind, x.Namespace, x.Name = "discovery.k8s.io/v1", "EndpointSlice", "a", fmt.Sprintf("s-%d", i)
		x.Labels = map[string]string{discoveryv1.LabelServiceName: "s"}
		w.slices = append(w.slices, x)
	}
	return w
}

// joined are all lines of restore text, sorted.
func joined(r rules) string {
	var out []string
	for _, d := range compare(rules{of: map[string][]string{}}, r) {
		out = append(out, string(d))
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}
