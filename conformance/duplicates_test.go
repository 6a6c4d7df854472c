package conformance

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"svcc/compiler"
	"svcc/ir"
)

// TestDuplicateEndpoints holds the deviation of that name: of two endpoints with
// one address, kube-proxy takes now this, now that one. svcc's choice is one of
// kube-proxy's.
func TestDuplicateEndpoints(t *testing.T) {
	w := twice()
	got := joined(readRules(w.compile(t, compiler.ModeIPTables).Units[0].Sections[0].Text))
	seen := map[string]bool{}
	for range 200 {
		seen[joined(w.reference(t, ir.IPv4))] = true
		if len(seen) > 1 && seen[got] {
			return
		}
	}
	t.Errorf("in 200 runs kube-proxy has written %d texts; svcc's among them: %t", len(seen), seen[got])
}

// twice is a world with one endpoint in two slices, here and elsewhere.
func twice() *world {
	w := newWorld(fixedSeed, 0)
	w.services, w.slices, w.nodePortAddresses = nil, nil, nil
	w.services = append(w.services, &corev1.Service{})
	s := w.services[0]
	s.APIVersion, s.Kind, s.Namespace, s.Name = "v1", "Service", "a", "s"
	s.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIP: "10.96.0.1", InternalTrafficPolicy: ptr(corev1.ServiceInternalTrafficPolicyLocal),
		Ports: []corev1.ServicePort{{Port: 80}}}
	for i := range 2 {
		x := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Port: ptr(int32(80))}},
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.128.0.9"}, NodeName: ptr(fmt.Sprintf("node-%d", i))}}}
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
