package resolve

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"svcc/compiler/addr"
	"svcc/compiler/manifest"
	"svcc/ir"
	"svcc/ir/diag"
)

// Resolve gives a Program for each family, in the order IPv4, IPv6, leaving out
// the Services named in skip ("ns/name"). Service ports and endpoints come in
// no particular order. The diagnostics name what the rules would need to know
// of the node; with an error among them the Programs are not to be used.
func Resolve(set *manifest.Set, skip map[string]bool, o Options) ([]*ir.Program, diag.List) {
	var list diag.List
	facts := newFacts(set, o, &list)
	index := indexSlices(set)
	services := ours(set, skip)
	var programs []*ir.Program
	for _, f := range families(services, o.Families) {
		r := &resolver{family: f, options: o, facts: facts, diagnostics: &list}
		p := &ir.Program{Family: f, Options: r.irOptions(services)}
		for _, s := range services {
			r.service(p, s, index[serviceKey{s.Value.Namespace, s.Value.Name, f}])
		}
		p.Node = facts.node(f)
		r.leaveOutClashes(p)
		programs = append(programs, p)
	}
	warnEmptyFamilies(services, o.Families, &list)
	facts.report(&list)
	return programs, list
}

type resolver struct {
	family      ir.Family
	options     Options
	facts       *facts
	diagnostics *diag.List
}

type service = manifest.Object[*corev1.Service]

// labelProxyName marks a Service that another proxy serves.
const labelProxyName = "service.kubernetes.io/service-proxy-name"

// ours are the Services that kube-proxy would program.
func ours(set *manifest.Set, skip map[string]bool) []*service {
	var out []*service
	for _, s := range set.Services {
		v := s.Value
		_, other := v.Labels[labelProxyName]
		none := v.Spec.ClusterIP == "" || v.Spec.ClusterIP == corev1.ClusterIPNone
		if other || none || v.Spec.Type == corev1.ServiceTypeExternalName || skip[v.Namespace+"/"+v.Name] {
			continue
		}
		out = append(out, s)
	}
	return out
}

// families are those asked for, or those in which some Service has an address;
// IPv4 if there is none at all.
func families(services []*service, asked []ir.Family) []ir.Family {
	out := slices.DeleteFunc(slices.Clone(ir.Families), func(f ir.Family) bool {
		if len(asked) > 0 {
			return !slices.Contains(asked, f)
		}
		return !haveAddress(services, f)
	})
	if len(out) == 0 {
		return []ir.Family{ir.IPv4}
	}
	return out
}

// haveAddress says whether some Service has an address in a family.
func haveAddress(services []*service, f ir.Family) bool {
	return slices.ContainsFunc(services, func(s *service) bool { return clusterIP(s.Value, f) != "" })
}

// warnEmptyFamilies reports families that were asked for and in which no Service has
// an address: a warning if that makes rules for nothing at all.
func warnEmptyFamilies(services []*service, asked []ir.Family, list *diag.List) {
	var empty []ir.Family
	for _, f := range asked {
		if !haveAddress(services, f) {
			empty = append(empty, f)
		}
	}
	if len(services) == 0 {
		return
	}
	for _, f := range empty {
		d := list.Add(diag.FamilyEmpty, diag.Pos{}, "", "--families %s: no Service has an %s cluster IP, so these rules serve none", f, familyName(f))
		d.Hint = "leave --families out to have rules of the families that occur"
		if len(empty) < len(asked) {
			d.Severity = diag.Note
		}
	}
}

// clusterIP is a Service's address in a family, or "".
func clusterIP(s *corev1.Service, f ir.Family) string {
	if len(s.Spec.IPFamilies) == 0 {
		if a, _, err := addr.Parse(s.Spec.ClusterIP); err == nil && f.Of(a) {
			return s.Spec.ClusterIP
		}
		return ""
	}
	for i, x := range s.Spec.IPFamilies {
		if string(x) == familyName(f) && i < len(s.Spec.ClusterIPs) {
			return s.Spec.ClusterIPs[i]
		}
	}
	return ""
}

// familyName is the API's name of a family.
func familyName(f ir.Family) string {
	if f == ir.IPv4 {
		return string(corev1.IPv4Protocol)
	}
	return string(corev1.IPv6Protocol)
}
