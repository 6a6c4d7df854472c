package compiler

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"svcc/compiler/manifest"
	"svcc/ir"
	"svcc/ir/diag"
)

// Summary is what became of the input's Services.
type Summary struct {
	Services int       `json:"services"` // in the input
	Compiled int       `json:"compiled"`
	Ports    int       `json:"ports"` // service ports, each once whatever its families
	Families []string  `json:"families"`
	LeftOut  []LeftOut `json:"leftOut,omitempty"` // by reason
}

// LeftOut are the Services, as "ns/name", that were not compiled for one reason.
type LeftOut struct {
	Reason   string   `json:"reason"`
	Services []string `json:"services"`
	// ByDesign says that no proxy has rules for them, whatever is filled in.
	ByDesign bool `json:"byDesign,omitempty"`
}

// String is one line: "3 of 5 Services compiled (7 ports, ipv4); 2 left out: no cluster IP".
func (s Summary) String() string {
	out := fmt.Sprintf("%d of %s compiled", s.Compiled, diag.Count(s.Services, "Service"))
	if s.Compiled > 0 {
		out += fmt.Sprintf(" (%s, %s)", diag.Count(s.Ports, "port"), strings.Join(s.Families, " and "))
	}
	n := 0
	var why []string
	for _, l := range s.LeftOut {
		n += len(l.Services)
		why = append(why, l.Reason)
		if len(s.LeftOut) > 1 {
			why[len(why)-1] += fmt.Sprintf(" (%d)", len(l.Services))
		}
	}
	if n > 0 {
		out += fmt.Sprintf("; %d left out: %s", n, strings.Join(why, ", "))
	}
	return out
}

// summarize sorts the Services of a set by whether Programs have them, and why not.
func summarize(set *manifest.Set, faulty map[string]bool, programs []*ir.Program) Summary {
	s := Summary{Services: len(set.Services)}
	compiled, ports := map[string]bool{}, map[ir.PortName]bool{}
	for _, p := range programs {
		s.Families = append(s.Families, p.Family.String())
		for _, x := range p.Services {
			compiled[x.Service()], ports[x.PortName] = true, true
		}
	}
	s.Compiled, s.Ports = len(compiled), len(ports)
	for _, o := range set.Services {
		name := o.Value.Namespace + "/" + o.Value.Name
		if !compiled[name] {
			reason, design := whyNot(o.Value, faulty[name])
			s.leave(name, reason, design)
		}
	}
	s.sort()
	return s
}

func (s *Summary) sort() {
	slices.SortFunc(s.LeftOut, func(a, b LeftOut) int { return strings.Compare(a.Reason, b.Reason) })
	for _, l := range s.LeftOut {
		slices.Sort(l.Services)
	}
}

// compileNone takes back what Programs have: errors that are of no Service leave
// nothing to compile.
func (s *Summary) compileNone(programs []*ir.Program) {
	s.Compiled, s.Ports = 0, 0
	left := map[string]bool{}
	for _, p := range programs {
		for _, x := range p.Services {
			if name := x.Service(); !left[name] {
				left[name] = true
				s.leave(name, "errors that no Service has", false)
			}
		}
	}
	s.sort()
}

func (s *Summary) leave(name, reason string, design bool) {
	i := slices.IndexFunc(s.LeftOut, func(l LeftOut) bool { return l.Reason == reason })
	if i < 0 {
		i = len(s.LeftOut)
		s.LeftOut = append(s.LeftOut, LeftOut{Reason: reason, ByDesign: design})
	}
	s.LeftOut[i].Services = append(s.LeftOut[i].Services, name)
}

// whyNot is why a Service has no rules.
func whyNot(v *corev1.Service, faulty bool) (reason string, byDesign bool) {
	_, other := v.Labels["service.kubernetes.io/service-proxy-name"]
	switch {
	case other:
		return "of another proxy", true
	case faulty:
		return "with errors", false
	case v.Spec.Type == corev1.ServiceTypeExternalName:
		return "ExternalName", true
	case v.Spec.ClusterIP == corev1.ClusterIPNone:
		return "headless", true
	case v.Spec.ClusterIP == "":
		return "no cluster IP", false
	}
	return "no rules in these families", false
}
