package cluster

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// sliceSize is the most endpoints that the controller puts into one slice.
const sliceSize = 100

// addSlices makes the slices of one Service with n pods: one family after the
// other. Of a hundred Services, two have a slice without endpoints (their
// Deployment is scaled to nought), and one has no slice at all.
func (g *generator) addSlices(s *corev1.Service, n int) {
	v4, v6 := g.endpoints(s, n)
	switch x := g.Float64(); {
	case x < 0.01:
		return
	case x < 0.03:
		v4, v6 = nil, nil
	}
	g.addFamily(s, discoveryv1.AddressTypeIPv4, v4)
	if len(s.Spec.IPFamilies) > 1 {
		g.addFamily(s, discoveryv1.AddressTypeIPv6, v6)
	}
}

func (g *generator) addFamily(s *corev1.Service, family discoveryv1.AddressType, all []discoveryv1.Endpoint) {
	if len(all) == 0 {
		g.out.Slices = append(g.out.Slices, g.slice(s, family, nil))
	}
	for part := range slices.Chunk(all, sliceSize) {
		g.out.Slices = append(g.out.Slices, g.slice(s, family, part))
	}
}

// slice wraps endpoints as the EndpointSlice controller does.
func (g *generator) slice(s *corev1.Service, family discoveryv1.AddressType, part []discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	prefix := s.Name + "-"
	out := &discoveryv1.EndpointSlice{
		TypeMeta:    metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"},
		ObjectMeta:  g.meta(s.Namespace, prefix+g.suffix(5)),
		AddressType: family,
		Endpoints:   part,
	}
	out.GenerateName = prefix
	out.Generation = int64(g.between(1, 400))
	out.Annotations = map[string]string{corev1.EndpointsLastChangeTriggerTime: out.CreationTimestamp.UTC().Format(time.RFC3339)}
	out.Labels = sliceLabels(s)
	out.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "v1", Kind: "Service", Name: s.Name, UID: s.UID, Controller: ptr(true), BlockOwnerDeletion: ptr(true),
	}}
	if len(part) > 0 {
		out.Ports = slicePorts(s)
	}
	return out
}

func sliceLabels(s *corev1.Service) map[string]string {
	out := map[string]string{}
	for k, v := range s.Labels { // order cannot show: it goes into a map
		out[k] = v
	}
	out[discoveryv1.LabelManagedBy] = "endpointslice-controller.k8s.io"
	out[discoveryv1.LabelServiceName] = s.Name
	if s.Spec.ClusterIP == corev1.ClusterIPNone {
		out[corev1.IsHeadlessService] = ""
	}
	return out
}

func slicePorts(s *corev1.Service) []discoveryv1.EndpointPort {
	var out []discoveryv1.EndpointPort
	for _, p := range s.Spec.Ports {
		out = append(out, discoveryv1.EndpointPort{Name: ptr(p.Name), Protocol: ptr(p.Protocol), Port: ptr(targetOf(p))})
	}
	return out
}

// endpoints makes n pods and gives them once for each family. One Service in
// twelve is in the middle of a roll-out.
func (g *generator) endpoints(s *corev1.Service, n int) (v4, v6 []discoveryv1.Endpoint) {
	rolling := g.chance(1.0 / 12)
	template := g.suffix(10) // of the ReplicaSet
	for range n {
		node := g.IntN(g.Options.Nodes)
		a4, a6 := g.podAddress(node)
		e := discoveryv1.Endpoint{
			Addresses:  []string{a4.String()},
			Conditions: g.conditions(s, rolling),
			NodeName:   ptr(nodeName(node)),
			Zone:       ptr(nodeZone(node)),
			TargetRef: &corev1.ObjectReference{
				Kind: "Pod", Namespace: s.Namespace, Name: fmt.Sprintf("%s-%s-%s", s.Name, template, g.suffix(5)), UID: uidOf(g.uid()),
			},
		}
		e.Hints = hints(s, &e)
		v4 = append(v4, e)
		e.Addresses = []string{a6.String()}
		v6 = append(v6, e)
	}
	return v4, v6
}

// conditions draws a pod's state: in a roll-out one pod in seven is starting,
// one is going and serves, one is going and does not.
func (g *generator) conditions(s *corev1.Service, rolling bool) discoveryv1.EndpointConditions {
	ready, serving, terminating := true, true, false
	if rolling {
		switch g.IntN(7) {
		case 0:
			ready, serving = false, false
		case 1:
			ready, terminating = false, true
		case 2:
			ready, serving, terminating = false, false, true
		}
	}
	ready = ready || s.Spec.PublishNotReadyAddresses // the controller's rule
	return discoveryv1.EndpointConditions{Ready: &ready, Serving: &serving, Terminating: &terminating}
}

// hints writes what the controller makes of trafficDistribution.
func hints(s *corev1.Service, e *discoveryv1.Endpoint) *discoveryv1.EndpointHints {
	d := s.Spec.TrafficDistribution
	if d == nil || !*e.Conditions.Ready {
		return nil
	}
	h := &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: *e.Zone}}}
	if strings.HasSuffix(*d, "Node") {
		h.ForNodes = []discoveryv1.ForNode{{Name: *e.NodeName}}
	}
	return h
}
