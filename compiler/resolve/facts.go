package resolve

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"svcc/compiler/addr"
	"svcc/compiler/manifest"
	"svcc/ir"
	"svcc/ir/diag"
)

// facts is what is known of the node, and who asked for what is not.
type facts struct {
	options Options
	name    string
	object  *manifest.Object[*corev1.Node] // nil if no Node object is the node's
	missing map[string]map[string]bool     // fact -> the services that need it
}

// newFacts finds the node's object. A name that no Node object has, where there
// are such objects, is an error: a misspelt name would make every endpoint
// remote (kubernetes#57518).
func newFacts(set *manifest.Set, o Options, list *diag.List) *facts {
	f := &facts{options: o, name: strings.ToLower(strings.TrimSpace(o.Node)), missing: map[string]map[string]bool{}}
	if f.name == "" {
		return f
	}
	var known []string
	for _, n := range set.Nodes {
		if n.Value.Name == f.name {
			f.object = n
		}
		known = append(known, n.Value.Name)
	}
	if f.object == nil && len(known) > 0 {
		slices.Sort(known)
		d := list.Add(diag.NodeUnknown, diag.Pos{}, "", "no Node object is named %q", f.name)
		d.Hint = "the manifests hold " + diag.PlainLine(abbreviate(known))
	}
	return f
}

// abbreviate lists at most five names.
func abbreviate(names []string) string {
	if len(names) > 5 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:5], ", "), len(names)-5)
	}
	return strings.Join(names, ", ")
}

func (f *facts) need(fact, who string) {
	if f.missing[fact] == nil {
		f.missing[fact] = map[string]bool{}
	}
	f.missing[fact][who] = true
}

const (
	factName = "the node's name (--node)"
	factIP   = "the node's address (a Node object and --node, or --node-ip)"
	factZone = "the node's zone (a Node object and --node, or --zone)"
	factPods = "the node's pod range (a Node object with podCIDRs and --node)"
)

// needName notes that a service port's meaning depends on which node this is.
func (f *facts) needName(sp *ir.ServicePort) {
	if f.name == "" {
		f.need(factName, sp.Service())
	}
}

// zone is the node's zone; "" if it has none, and noted if it is unknown.
func (f *facts) zone(sp *ir.ServicePort) string {
	switch {
	case f.options.Zone != nil:
		return *f.options.Zone
	case f.object != nil:
		return f.object.Value.Labels[corev1.LabelTopologyZone]
	}
	f.need(factZone, sp.Service())
	return ""
}

// ip is the node's address in a family; invalid if it has none, and noted if
// nothing at all is known of its addresses.
func (f *facts) ip(family ir.Family, sp *ir.ServicePort) netip.Addr {
	a, known := f.address(family)
	if !known {
		f.need(factIP, sp.Service())
	}
	return a
}

// address is the first InternalIP, else the first ExternalIP, of a family.
func (f *facts) address(family ir.Family) (a netip.Addr, known bool) {
	for _, a := range f.options.NodeIPs {
		if family.Of(a) {
			return a, true
		}
	}
	if f.object == nil {
		return netip.Addr{}, len(f.options.NodeIPs) > 0
	}
	for _, kind := range []corev1.NodeAddressType{corev1.NodeInternalIP, corev1.NodeExternalIP} {
		for _, x := range f.object.Value.Status.Addresses {
			if a, _, err := addr.Parse(x.Address); err == nil && x.Type == kind && family.Of(a) {
				return a, true
			}
		}
	}
	return netip.Addr{}, true
}

// podRange is the node's first pod range of a family.
func (f *facts) podRange(family ir.Family) (p netip.Prefix, known bool) {
	if f.object == nil {
		return p, false
	}
	spec := f.object.Value.Spec
	for _, s := range append(slices.Clone(spec.PodCIDRs), spec.PodCIDR) {
		if p, _, err := addr.ParsePrefix(s); err == nil && family.Of(p.Addr()) {
			return p, true
		}
	}
	return p, true
}

// node is what a Program says of the node.
func (f *facts) node(family ir.Family) ir.Node {
	n := ir.Node{Name: f.name}
	n.IP, _ = f.address(family)
	if f.options.Zone != nil {
		n.Zone = *f.options.Zone
	} else if f.object != nil {
		n.Zone = f.object.Value.Labels[corev1.LabelTopologyZone]
	}
	return n
}

// report turns what was missing into errors that name the services.
func (f *facts) report(list *diag.List) {
	for _, fact := range []string{factName, factIP, factZone, factPods} {
		if who := f.missing[fact]; len(who) > 0 {
			names := make([]string, 0, len(who))
			for n := range who {
				names = append(names, n)
			}
			slices.Sort(names)
			d := list.Add(diag.NodeNeeded, diag.Pos{}, "", "%s is not known, and rules depend on it for %s", fact[:strings.Index(fact, " (")], abbreviate(names))
			d.Hint = "give " + strings.Trim(fact[strings.Index(fact, "("):], "()")
		}
	}
}
