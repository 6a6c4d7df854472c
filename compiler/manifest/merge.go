package manifest

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"svcc/ir/diag"
)

// merger puts results together in the order of the input.
type merger struct {
	set   *Set
	diags diag.List
	seen  map[string]diag.Pos
	twice map[string]bool
}

func newMerger(diags diag.List) *merger {
	return &merger{set: &Set{Skipped: map[string]int{}}, diags: diags, seen: map[string]diag.Pos{}, twice: map[string]bool{}}
}

func (m *merger) work(w *work) {
	for _, r := range w.results {
		m.diags = append(m.diags, r.diags...)
		for _, t := range r.skipped {
			m.set.Skipped[t.String()]++
		}
		for _, f := range r.found {
			if m.first(f) {
				m.set.add(f)
			}
		}
	}
}

// first says whether an object was not there before.
func (m *merger) first(f found) bool {
	if _, named := f.value.(metav1.Object); !named {
		return true // KubeProxyConfiguration: whoever uses it decides
	}
	name := Name(f.value)
	before, twice := m.seen[name]
	if !twice {
		m.seen[name] = f.pos
		return true
	}
	d := m.diags.Add(diag.DefinedTwice, f.pos, name, "%s is defined twice, first at %s", name, before)
	d.Related = []diag.Related{{Pos: before, Message: "first defined here"}}
	d.Hint = "remove one of them"
	m.twice[name] = true
	return false
}

// breakTwice marks what is defined twice: which of the two counts is unknown.
func (m *merger) breakTwice() {
	if len(m.twice) == 0 {
		return
	}
	for _, o := range m.set.Services {
		o.Broken = o.Broken || m.twice[o.Name()]
	}
	for _, o := range m.set.Slices {
		o.Broken = o.Broken || m.twice[o.Name()]
	}
}

func (s *Set) add(f found) {
	switch v := f.value.(type) {
	case *corev1.Service:
		s.Services = append(s.Services, object(v, f))
	case *discoveryv1.EndpointSlice:
		s.Slices = append(s.Slices, object(v, f))
	case *corev1.Node:
		s.Nodes = append(s.Nodes, object(v, f))
	case *networkingv1.ServiceCIDR:
		s.ServiceCIDRs = append(s.ServiceCIDRs, object(v, f))
	case *ProxyConfig:
		s.ProxyConfigs = append(s.ProxyConfigs, object(v, f))
	case *corev1.Endpoints: //lint:ignore SA1019 read on request
		s.Endpoints = append(s.Endpoints, object(v, f))
	}
}

func object[T any](v T, f found) *Object[T] {
	return &Object[T]{Value: v, Pos: f.pos, Broken: f.broken, faults: f.faults, doc: f.doc}
}
