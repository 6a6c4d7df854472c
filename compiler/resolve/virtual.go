package resolve

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"svcc/compiler/addr"
	"svcc/ir"
	"svcc/ir/diag"
)

// Virtual are the choices for a node that bears the service addresses itself
// (IPVS mode).
type Virtual struct {
	ir.Virtual // Exclude of both families, in any order; Own is found out
	// LocalAddrs are addresses of the node's interfaces, where they can be
	// looked at, beside those that its Node object has.
	LocalAddrs []netip.Addr
}

// virtual is the family's part; nil in other modes.
func (r *resolver) virtual() *ir.Virtual {
	v := r.options.Virtual
	if v == nil {
		return nil
	}
	out := v.Virtual
	out.Own, out.Exclude = r.own(), nil
	for _, p := range v.Exclude {
		if r.family.Of(p.Addr()) {
			out.Exclude = append(out.Exclude, p)
		}
	}
	slices.SortFunc(out.Exclude, ir.ComparePrefixes)
	return &out
}

// own lists the node's addresses of the family, sorted: what its interfaces
// carry, without loopback and IPv6 link-local ones, and each that is named alone
// as one of node ports.
func (r *resolver) own() []netip.Addr {
	var out []netip.Addr
	add := func(a netip.Addr) {
		if a = a.Unmap(); r.family.Of(a) && !a.IsLoopback() && !(a.Is6() && a.IsLinkLocalUnicast()) {
			out = append(out, a)
		}
	}
	for _, a := range append(slices.Clone(r.options.NodeIPs), r.options.Virtual.LocalAddrs...) {
		add(a)
	}
	for _, p := range r.nodePortRanges(nil) {
		if p.IsSingleIP() {
			add(p.Addr())
		}
	}
	if r.facts.object != nil {
		for _, x := range r.facts.object.Value.Status.Addresses {
			if a, _, err := addr.Parse(x.Address); err == nil && (x.Type == corev1.NodeInternalIP || x.Type == corev1.NodeExternalIP) {
				add(a)
			}
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}

// virtualNodePorts are the node's own addresses within the ranges: each needs a
// virtual server of its own.
func (r *resolver) virtualNodePorts(ranges []netip.Prefix, services []*service) ir.NodePortAddresses {
	own := r.own()
	var n ir.NodePortAddresses
	for _, p := range ranges {
		for _, a := range own {
			if p.Contains(a) {
				n.Addrs = append(n.Addrs, a)
			}
		}
	}
	if len(own) == 0 {
		r.primary(services) // says what is missing, and who needs it
	}
	slices.SortFunc(n.Addrs, netip.Addr.Compare)
	n.Addrs = slices.Compact(n.Addrs)
	return n
}

// leaveOutClashes reports the Services that virtual servers cannot tell from
// others, and leaves them out.
func (r *resolver) leaveOutClashes(p *ir.Program) {
	for _, c := range p.Clashes() {
		name := "Service " + c.Service.Service()
		if c.Endpoint.IsValid() {
			r.diagnostics.Add(diag.EndpointIsDestination, c.Service.Origin, name,
				"endpoint %s is a destination of %s: in IPVS mode its connections would go on to that one's endpoints", c.Endpoint, c.With)
		} else {
			r.diagnostics.Add(diag.DestinationShared, c.Service.Origin, name,
				"%s is a node port of this node and an address of %s: in IPVS mode one virtual server cannot be both", c.Destination, c.With)
		}
		p.Services = slices.DeleteFunc(p.Services, func(s *ir.ServicePort) bool { return s.Service() == c.Service.Service() })
	}
}
