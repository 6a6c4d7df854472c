package ir

import (
	"bufio"
	"fmt"
	"io"
	"net/netip"
	"strings"
)

// Print writes the Program as stable text: one block a service port. Origins
// are left out unless asked for: they change when files are arranged anew.
func (p *Program) Print(w io.Writer, origins bool) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "program %s\n", head(p.Family, p.Node))
	p.Options.print(b)
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
		s += " " + n.Name
	}
	if n.IP.IsValid() {
		s += " " + n.IP.String()
	}
	if n.Zone != "" {
		s += " zone " + n.Zone
	}
	return s
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
	fmt.Fprintf(w, "\n  pods %s\n  node ports at %s\n", o.Pods, o.NodePorts)
}

// String tells by what pods are recognised.
func (d Detector) String() string {
	switch d.Kind {
	case DetectCIDR:
		return "from " + d.Prefix.String()
	case DetectBridge:
		return "by interface " + d.Interface
	case DetectInterface:
		return "by interfaces " + d.Interface + "*"
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
		line := fmt.Sprintf("    %-13s %-36s policy %s", f.Kind, f.Destination(), s.Policy(f.Kind))
		if f.Kind == LoadBalancer && len(s.SourceRanges) > 0 {
			line += "  from " + join(s.SourceRanges)
			if s.NodeAllowed {
				line += " and the node"
			}
		}
		fmt.Fprintln(w, line)
	}
	s.printRest(w)
}

func (s *ServicePort) printRest(w io.Writer) {
	all := s.Reachable()
	switch {
	case len(all) > 0:
		fmt.Fprintf(w, "    endpoints     %s\n", s.describe(all))
	case s.Usable:
		fmt.Fprintln(w, "    endpoints     none here")
	default:
		fmt.Fprintln(w, "    endpoints     none")
	}
	if extra := s.servingOnly(all); len(extra) > 0 {
		fmt.Fprintf(w, "    also serving  %s\n", join(extra))
	}
	if s.AffinitySeconds > 0 {
		fmt.Fprintf(w, "    affinity      %d s\n", s.AffinitySeconds)
	}
	if s.HealthCheckNodePort > 0 {
		fmt.Fprintf(w, "    health-check  %d\n", s.HealthCheckNodePort)
	}
}

// describe lists endpoints; "local" is on this node, "local only" is left out
// of the cluster's list, "remote only" of the local one although it is here.
func (s *ServicePort) describe(all []Endpoint) string {
	cluster := endpointSet(s.Cluster)
	local := endpointSet(s.Local)
	var out []string
	for _, e := range all {
		t := e.String()
		switch {
		case e.Local && !cluster[e.AddrPort()]:
			t += " local only"
		case e.Local && len(s.Local) > 0 && !local[e.AddrPort()]:
			t += " local, cluster only"
		case e.Local:
			t += " local"
		}
		out = append(out, t)
	}
	return strings.Join(out, ", ")
}

// servingOnly are the serving endpoints that no policy chose.
func (s *ServicePort) servingOnly(all []Endpoint) []netip.AddrPort {
	chosen := endpointSet(all)
	var out []netip.AddrPort
	for _, a := range s.Serving {
		if !chosen[a] {
			out = append(out, a)
		}
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
