package ir

import (
	"bufio"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Print writes the Program as stable text: one block a service port. Origins
// are left out unless asked for: they change when files are arranged anew.
// Without them ReadProgram gives back what was printed, if it passes Check, but
// for a local list that no policy leads to.
func (p *Program) Print(w io.Writer, origins bool) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "program %s\n", head(p.Family, p.Node))
	p.Options.print(b)
	fmt.Fprintf(b, "  known endpoints %d\n", p.Known)
	for _, s := range p.Services {
		if origins {
			fmt.Fprintf(b, "  %-49s %s\n", s.PortName, s.Origin)
		} else {
			fmt.Fprintf(b, "  %s\n", s.PortName)
		}
		s.print(b)
	}
	return b.Flush()
}

// head names what a text is of: family, node, and the node's facts.
func head(f Family, n Node) string {
	s := f.String()
	if n.Name != "" {
		s += " " + nodeName(n.Name)
	}
	if n.IP.IsValid() {
		s += " " + n.IP.String()
	}
	if n.Zone != "" {
		s += " zone " + word(n.Zone)
	}
	return s
}

// nodeName quotes names that could be taken for what may follow a name.
func nodeName(s string) string {
	if _, err := netip.ParseAddr(s); err == nil || s == "zone" {
		return strconv.Quote(s)
	}
	return word(s)
}

// word quotes text that has anything but plain characters.
func word(s string) string {
	if !plain(s) {
		return strconv.Quote(s)
	}
	return s
}

// plain says that a text is one word, which nothing in it can end.
func plain(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-._:@", r)
	})
}

func (o *Options) print(w io.Writer) {
	fmt.Fprintf(w, "  mark %#x", o.MasqueradeMark)
	if o.MasqueradeAll {
		fmt.Fprint(w, "  masquerade all")
	}
	if o.LocalhostNodePorts {
		fmt.Fprint(w, "  localhost node ports")
	}
	if o.DropInvalid {
		fmt.Fprint(w, "  drop invalid")
	}
	if o.Virtual != nil {
		o.Virtual.print(w)
	}
	fmt.Fprintf(w, "\n  pods %s\n  node ports at %s\n", o.Pods, o.NodePorts)
}

// String tells by what pods are recognised.
func (d Detector) String() string {
	switch d.Kind {
	case DetectCIDR:
		return "from " + d.Prefix.String()
	case DetectBridge:
		return "by interface " + word(d.Interface)
	case DetectInterface:
		return "by interfaces " + word(d.Interface) + "*"
	}
	return "not recognised"
}

// String lists the addresses.
func (n NodePortAddresses) String() string {
	if n.All {
		return "every local address"
	}
	var s []string
	for _, a := range n.Addrs {
		s = append(s, a.String())
	}
	for _, p := range n.Prefixes {
		s = append(s, "local addresses in "+p.String())
	}
	if len(s) == 0 {
		return "no address"
	}
	return strings.Join(s, ", ")
}

func (s *ServicePort) print(w io.Writer) {
	for _, f := range s.Frontends {
		line := fmt.Sprintf("%-36s policy %s", f.Destination(), s.Policy(f.Kind))
		if f.Kind == LoadBalancer && len(s.SourceRanges) > 0 {
			line += "  from " + join(s.SourceRanges)
			if s.NodeAllowed {
				line += " and the node"
			}
		}
		printRow(w, f.Kind.String(), line)
	}
	// A policy that no frontend shows decides nothing; it is not lost, though.
	if s.InternalPolicy != Cluster && !s.has(internal) {
		printRow(w, "internal", "policy "+s.InternalPolicy.String())
	}
	if s.ExternalPolicy != Cluster && !s.has(external) {
		printRow(w, "external", "policy "+s.ExternalPolicy.String())
	}
	s.printRest(w)
}

// printRow writes one line of a service port's block.
func printRow(w io.Writer, key, value string) { fmt.Fprintf(w, "    %-13s %s\n", key, value) }

func internal(f Frontend) bool { return f.Kind == ClusterIP }
func external(f Frontend) bool { return f.Kind != ClusterIP }

func (s *ServicePort) has(kind func(Frontend) bool) bool {
	return slices.ContainsFunc(s.Frontends, kind)
}

func (s *ServicePort) printRest(w io.Writer) {
	all := s.Cluster
	if s.usesLocal() {
		all = s.Reachable()
	}
	switch {
	case len(all) > 0:
		printRow(w, "endpoints", s.describe(all))
	case s.Usable:
		printRow(w, "endpoints", "none here")
	default:
		printRow(w, "endpoints", "none")
	}
	serving := map[netip.AddrPort]bool{}
	for _, a := range s.Serving {
		serving[a] = true
	}
	chosen := endpointSet(all)
	if extra := without(s.Serving, chosen); len(extra) > 0 {
		printRow(w, "also serving", join(extra))
	}
	if dead := without(addrPorts(all), serving); len(dead) > 0 {
		printRow(w, "not serving", join(dead))
	}
	if s.AffinitySeconds > 0 {
		printRow(w, "affinity", fmt.Sprintf("%d s", s.AffinitySeconds))
	}
	if s.Scheduler != "" {
		printRow(w, "scheduler", s.Scheduler)
	}
	if s.HealthCheckNodePort > 0 {
		printRow(w, "health-check", fmt.Sprint(s.HealthCheckNodePort))
	}
}

// What stands behind an endpoint: nothing if it is elsewhere, tagLocal if it is
// on this node and, where a policy is Local, in both lists; else in which.
const (
	tagLocal       = "local"
	tagClusterOnly = "local but cluster only"
	tagLocalOnly   = "local only"
)

// describe lists endpoints with their tags.
func (s *ServicePort) describe(all []Endpoint) string {
	cluster, local := endpointSet(s.Cluster), endpointSet(s.Local)
	usesLocal := s.usesLocal()
	var out []string
	for _, e := range all {
		t := e.String()
		switch {
		case !e.Local:
		case !cluster[e.AddrPort()]:
			t += " " + tagLocalOnly
		case usesLocal && !local[e.AddrPort()]:
			t += " " + tagClusterOnly
		default:
			t += " " + tagLocal
		}
		out = append(out, t)
	}
	return strings.Join(out, ", ")
}

// usesLocal says that the policy of some frontend leads to the local list.
func (s *ServicePort) usesLocal() bool {
	return slices.ContainsFunc(s.Frontends, func(f Frontend) bool { return s.Policy(f.Kind) == Local })
}

// without gives the addresses that are not in a set.
func without(list []netip.AddrPort, set map[netip.AddrPort]bool) []netip.AddrPort {
	return slices.DeleteFunc(slices.Clone(list), func(a netip.AddrPort) bool { return set[a] })
}

func addrPorts(list []Endpoint) []netip.AddrPort {
	out := make([]netip.AddrPort, len(list))
	for i, e := range list {
		out[i] = e.AddrPort()
	}
	return out
}

func endpointSet(list []Endpoint) map[netip.AddrPort]bool {
	set := make(map[netip.AddrPort]bool, len(list))
	for _, e := range list {
		set[e.AddrPort()] = true
	}
	return set
}

// Destination is the frontend's address and port, or its port for a node port.
func (f Frontend) Destination() string {
	if f.Kind == NodePort {
		return fmt.Sprint(f.Port)
	}
	return netip.AddrPortFrom(f.Addr, f.Port).String()
}

func join[T fmt.Stringer](list []T) string {
	s := make([]string, len(list))
	for i, x := range list {
		s[i] = x.String()
	}
	return strings.Join(s, " ")
}
