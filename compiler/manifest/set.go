package manifest

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"svcc/ir/diag"
)

// Set is everything of interest that the input holds, in the order of reading.
type Set struct {
	Services     []*Object[*corev1.Service]
	Slices       []*Object[*discoveryv1.EndpointSlice]
	Nodes        []*Object[*corev1.Node]
	ServiceCIDRs []*Object[*networkingv1.ServiceCIDR]
	ProxyConfigs []*Object[*ProxyConfig]
	//lint:ignore SA1019 read only on request
	Endpoints []*Object[*corev1.Endpoints]
	Skipped   map[string]int // objects of other kinds, by "apiVersion/Kind"
}

// Object is one object of the input with its place.
type Object[T any] struct {
	Value T
	Pos   diag.Pos // of the object's first token
	// Broken says that the object was read in part, and Load has said what is
	// wrong: no rule may be made of it.
	Broken bool
	faults [][]any
	doc    *document
}

// Doubtful says that a field, or a part of it, could not be read: what else seems
// wrong with it only follows from that.
func (o *Object[T]) Doubtful(path ...any) bool {
	return slices.ContainsFunc(o.faults, func(f []any) bool {
		n := min(len(f), len(path))
		return slices.Equal(f[:n], path[:n])
	})
}

// At finds the place of a field: map keys as strings, list indices as ints, as
// in At("spec", "ports", 0, "port"). A field that is not there gives its
// nearest parent's place.
func (o *Object[T]) At(path ...any) diag.Pos { return o.doc.at(o.Pos, path) }
