package conformance

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// slicesOf makes a Service's slices of a family: none, one or more, of which some
// are not for it.
func (w *world) slicesOf(s *corev1.Service, f int) {
	hints := w.r.IntN(4)
	for i := range w.r.IntN(4) {
		x := &discoveryv1.EndpointSlice{
			TypeMeta: metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"},
			ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: fmt.Sprintf("%s-%d-%d", s.Name, f, i),
				Labels: map[string]string{discoveryv1.LabelServiceName: s.Name}},
			AddressType: []discoveryv1.AddressType{discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6}[f],
		}
		switch w.r.IntN(20) {
		case 0:
			x.Labels[corev1.IsHeadlessService] = ""
		case 1:
			delete(x.Labels, discoveryv1.LabelServiceName)
		}
		w.slicePorts(x, s)
		for range w.r.IntN(6) {
			e := w.endpoint(f, hints)
			if w.oneIn(15) && w.claim("%s/%s at node %d", s.Namespace, s.Name, f) {
				e.Addresses[0] = nodeIPs[f] // once: duplicates have a test of their own
			}
			x.Endpoints = append(x.Endpoints, e)
		}
		w.slices = append(w.slices, x)
	}
	w.shared(s, f)
}

func (w *world) slicePorts(x *discoveryv1.EndpointSlice, s *corev1.Service) {
	for _, p := range s.Spec.Ports {
		q := discoveryv1.EndpointPort{Name: ptr(p.Name), Protocol: ptr(p.Protocol), Port: ptr(pick(w.r, []int32{8080, 53, p.Port}))}
		switch {
		case w.oneIn(12):
			q.Port = nil
		case w.oneIn(12):
			q.Name = ptr("other" + p.Name)
		case w.oneIn(12):
			continue
		}
		x.Ports = append(x.Ports, q)
	}
}

func (w *world) endpoint(f, hints int) discoveryv1.Endpoint {
	e := discoveryv1.Endpoint{Addresses: []string{w.address(pods, f)}}
	if w.oneIn(20) {
		e.Addresses = append(e.Addresses, w.address(pods, f))
	}
	node := w.r.IntN(4)
	if node < 3 {
		e.NodeName = ptr(fmt.Sprintf("node-%d", node))
	}
	c := &e.Conditions
	for _, x := range []**bool{&c.Ready, &c.Serving, &c.Terminating} {
		*x = pick(w.r, []*bool{nil, nil, ptr(true), ptr(false)})
	}
	if c.Ready == nil && w.oneIn(2) { // as a controller writes it
		c.Ready, c.Serving, c.Terminating = ptr(true), ptr(true), ptr(false)
	}
	w.hint(&e, node%3, hints)
	return e
}

// hint writes hints as a controller of topology does: for all or, in a world in
// between, for most.
func (w *world) hint(e *discoveryv1.Endpoint, node, hints int) {
	if hints == 0 || hints == 3 && w.oneIn(3) {
		return
	}
	e.Hints = &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: zone(node)}}}
	if w.oneIn(3) {
		e.Hints.ForZones = append(e.Hints.ForZones, discoveryv1.ForZone{Name: "c"})
	}
	if hints == 2 {
		e.Hints.ForNodes = []discoveryv1.ForNode{{Name: fmt.Sprintf("node-%d", node)}}
	}
}

// shared lists an endpoint of the Service once more in another slice, as a pod
// that terminates while another has its address already.
func (w *world) shared(s *corev1.Service, f int) {
	if !w.oneIn(3) {
		return
	}
	for _, x := range w.slices[max(0, len(w.slices)-3):] {
		if x.Labels[discoveryv1.LabelServiceName] != s.Name || x.Namespace != s.Namespace || len(x.Endpoints) == 0 || (x.AddressType == discoveryv1.AddressTypeIPv6) != (f == 1) {
			continue
		}
		old := x.DeepCopy()
		old.Name += "-old"
		old.Endpoints = old.Endpoints[:1]
		old.Endpoints[0].NodeName = ptr("node-1")
		old.Endpoints[0].Conditions = discoveryv1.EndpointConditions{Ready: ptr(false), Serving: ptr(w.oneIn(2)), Terminating: ptr(true)}
		x.Endpoints[0].Conditions.Terminating = ptr(false)
		w.slices = append(w.slices, old)
		return
	}
}
