package validate

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"svcc/compiler/addr"
	"svcc/compiler/manifest"
	"svcc/ir"
)

// What keeps a cluster from mirroring an Endpoints object.
const (
	leaderAnnotation = "control-plane.alpha.kubernetes.io/leader"
	skipMirror       = "true"
)

// mirrorEndpoints writes the EndpointSlices that a cluster's mirroring
// controller makes of core/v1 Endpoints, for Services without any slice in the
// input: a dump of a cluster holds both. The slices know only the place of the
// whole Endpoints object.
func mirrorEndpoints(set *manifest.Set) {
	have := map[string]bool{}
	for _, o := range set.Slices {
		have[o.Value.Namespace+"/"+o.Value.Labels[discoveryv1.LabelServiceName]] = true
	}
	for _, o := range set.Endpoints {
		m := &o.Value.ObjectMeta
		_, leader := m.Annotations[leaderAnnotation]
		if have[m.Namespace+"/"+m.Name] || leader || m.Labels[discoveryv1.LabelSkipMirror] == skipMirror {
			continue
		}
		for i := range o.Value.Subsets {
			for _, f := range ir.Families {
				if x := mirrorSubset(*m, i, &o.Value.Subsets[i], f); len(x.Endpoints) > 0 {
					set.Slices = append(set.Slices, &manifest.Object[*discoveryv1.EndpointSlice]{Value: x, Pos: o.Pos})
				}
			}
		}
	}
}

//lint:ignore SA1019 what --endpoints asks for
func mirrorSubset(m metav1.ObjectMeta, i int, sub *corev1.EndpointSubset, f ir.Family) *discoveryv1.EndpointSlice {
	x := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: m.Namespace,
			Name:      fmt.Sprintf("%s-%d-%s", m.Name, i, f),
			Labels:    map[string]string{discoveryv1.LabelServiceName: m.Name},
		},
		AddressType: discoveryv1.AddressType(familyName(f)),
	}
	mirror := func(a *corev1.EndpointAddress, ready bool) {
		if mirrorFamily(a.IP) == f {
			x.Endpoints = append(x.Endpoints, discoveryv1.Endpoint{
				Addresses:  []string{a.IP},
				Conditions: discoveryv1.EndpointConditions{Ready: &ready},
				NodeName:   a.NodeName,
				TargetRef:  a.TargetRef,
			})
		}
	}
	for k := range sub.Addresses {
		mirror(&sub.Addresses[k], true)
	}
	for k := range sub.NotReadyAddresses {
		mirror(&sub.NotReadyAddresses[k], false)
	}
	for _, p := range sub.Ports {
		setIfZero(&p.Protocol, corev1.ProtocolTCP)
		x.Ports = append(x.Ports, discoveryv1.EndpointPort{Name: &p.Name, Protocol: &p.Protocol, Port: &p.Port})
	}
	return x
}

// mirrorFamily files text that is no address under IPv4, so that Check speaks
// of it once.
func mirrorFamily(ip string) ir.Family {
	a, _, err := addr.Parse(ip)
	if err != nil {
		return ir.IPv4
	}
	return ir.FamilyOf(a)
}
