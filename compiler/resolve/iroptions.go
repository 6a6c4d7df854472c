package resolve

import (
	"net/netip"
	"slices"

	"svcc/compiler/addr"
	"svcc/ir"
	"svcc/ir/diag"
)

// irOptions gives the choices that hold for one family.
func (r *resolver) irOptions(services []*service) ir.Options {
	o := ir.Options{
		MasqueradeMark: 1 << r.options.MasqueradeBit,
		MasqueradeAll:  r.options.MasqueradeAll,
		DropInvalid:    !r.options.TCPBeLiberal,
		Pods:           r.detector(services),
	}
	ranges := r.nodePortRanges(services)
	if o.Virtual = r.virtual(); o.Virtual != nil {
		o.NodePorts = r.virtualNodePorts(ranges, services)
		return o
	}
	o.LocalhostNodePorts = r.family == ir.IPv4 && r.options.LocalhostNodePorts && holdsLoopback(ranges)
	o.NodePorts = r.nodePorts(ranges, o.LocalhostNodePorts)
	return o
}

// detector is how pods are recognised. Kube-proxy goes without where a mode
// has no range for a family; so does svcc, with a warning.
func (r *resolver) detector(services []*service) ir.Detector {
	switch r.options.Detect {
	case DetectBridge:
		return ir.Detector{Kind: ir.DetectBridge, Interface: r.options.Interface}
	case DetectInterfacePrefix:
		return ir.Detector{Kind: ir.DetectInterface, Interface: r.options.Interface}
	case DetectNodeCIDR:
		p, known := r.facts.podRange(r.family)
		if !known {
			for _, s := range services {
				r.facts.need(factPods, s.Value.Namespace+"/"+s.Value.Name)
			}
		} else if !p.IsValid() {
			r.warnNoDetection("the Node object has no " + r.family.String() + " pod range")
		}
		return r.byRange(p)
	}
	for _, p := range r.options.ClusterCIDRs {
		if r.family.Of(p.Addr()) {
			return r.byRange(p)
		}
	}
	if len(services) > 0 {
		r.warnNoDetection("no " + r.family.String() + " cluster CIDR is given (--cluster-cidr)")
	}
	return ir.Detector{}
}

// byRange refuses a range of everybody: no rule can ask who is outside it, and
// iptables-nft does not load one that does.
func (r *resolver) byRange(p netip.Prefix) ir.Detector {
	switch {
	case !p.IsValid():
		return ir.Detector{}
	case p.Bits() == 0:
		r.diagnostics.Add(diag.BadOption, diag.Pos{}, "", "%s as the pods' range holds every address", p).
			Hint = "give the range that pods really have, or none"
	}
	return ir.Detector{Kind: ir.DetectCIDR, Prefix: p}
}

func (r *resolver) warnNoDetection(why string) {
	d := r.diagnostics.Add(diag.PodsUnknown, diag.Pos{}, "", "%s: pods cannot be told from other clients", why)
	d.Hint = "ClusterIP connections from outside are then not masqueraded, and policy Local has no short cut for pods"
}

// nodePortRanges reads nodePortAddresses for the family; no entry of the
// family means every address (kube-proxy semantics, options).
func (r *resolver) nodePortRanges(services []*service) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range r.options.NodePortAddresses {
		switch s {
		case "all":
			out = append(out, netip.PrefixFrom(unspecified(r.family), 0))
		case "localhost":
			out = append(out, r.family.Loopback())
		case "primary":
			if a := r.primary(services); a.IsValid() && !a.IsLoopback() {
				out = append(out, netip.PrefixFrom(a, a.BitLen()))
			}
		default:
			if p, _, err := addr.ParsePrefix(s); err == nil && r.family.Of(p.Addr()) {
				out = append(out, p)
			}
		}
	}
	if len(out) == 0 {
		return []netip.Prefix{netip.PrefixFrom(unspecified(r.family), 0)}
	}
	return out
}

// primary is the node's address, asked for only if there are node ports.
func (r *resolver) primary(services []*service) netip.Addr {
	a, known := r.facts.address(r.family)
	if known {
		return a
	}
	for _, s := range services {
		for _, p := range s.Value.Spec.Ports {
			if p.NodePort != 0 {
				r.facts.need(factIP, s.Value.Namespace+"/"+s.Value.Name)
			}
		}
	}
	return a
}

func unspecified(f ir.Family) netip.Addr {
	if f == ir.IPv4 {
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
}

// localhost is the one address that the loopback interface usually has.
var localhost = netip.AddrFrom4([4]byte{127, 0, 0, 1})

func holdsLoopback(ranges []netip.Prefix) bool {
	return slices.ContainsFunc(ranges, func(p netip.Prefix) bool {
		return p.Bits() == 0 || p.Addr().IsLoopback() || p.Contains(localhost)
	})
}

// nodePorts turns ranges into addresses. kube-proxy looks them up among the
// node's interfaces; without a node to look at, a single address stands for
// itself, the loopback range for its one usual address, and any other range for
// whatever local addresses it holds when a packet comes.
func (r *resolver) nodePorts(ranges []netip.Prefix, answers bool) ir.NodePortAddresses {
	var n ir.NodePortAddresses
	for _, p := range ranges {
		switch {
		case p.Bits() == 0:
			return ir.NodePortAddresses{All: true}
		case r.family.Loopback().Overlaps(p):
			if answers && p.Contains(localhost) {
				n.Addrs = append(n.Addrs, localhost)
			}
		case p.IsSingleIP():
			n.Addrs = append(n.Addrs, p.Addr())
		default:
			n.Prefixes = append(n.Prefixes, p)
		}
	}
	slices.SortFunc(n.Addrs, netip.Addr.Compare)
	n.Addrs = slices.Compact(n.Addrs)
	slices.SortFunc(n.Prefixes, ir.ComparePrefixes)
	n.Prefixes = uncovered(slices.Compact(n.Prefixes))
	n.Addrs = slices.DeleteFunc(n.Addrs, func(a netip.Addr) bool { return covered(n.Prefixes, a) })
	return n
}

// uncovered leaves out the prefixes that lie within another.
func uncovered(list []netip.Prefix) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range list {
		if !slices.ContainsFunc(list, func(q netip.Prefix) bool { return q.Bits() < p.Bits() && q.Contains(p.Addr()) }) {
			out = append(out, p)
		}
	}
	return out
}

func covered(list []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(a) })
}
