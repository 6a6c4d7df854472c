package resolve

import (
	"cmp"
	"net/netip"
	"slices"

	"svcc/ir"
)

// candidate is an endpoint of one service port before any choice.
type candidate struct {
	sliceEndpoint
	key   netip.AddrPort
	slice int // the place of its slice by name
}

// endpoints chooses a service port's endpoints for both policies (kube-proxy
// semantics, endpoint selection; KEP-1669, KEP-2433, KEP-3015). It gives the
// number of endpoints known, whatever their state.
func (r *resolver) endpoints(sp *ir.ServicePort, from []*slice) int {
	all := merge(sp.PortName, from)
	for i := range all {
		all[i].Local = r.facts.name != "" && all[i].node == r.facts.name
		if all[i].serving {
			sp.Serving = append(sp.Serving, all[i].key)
		}
	}
	ready, fallback := isReady, isLastResort
	usesCluster := sp.InternalPolicy == ir.Cluster || external(sp)
	usesLocal := sp.InternalPolicy == ir.Local || sp.ExternalPolicy == ir.Local && external(sp)
	if usesCluster {
		sp.Cluster = pick(all, and(ready, r.topology(sp, all)))
		if len(sp.Cluster) == 0 {
			sp.Cluster = pick(all, fallback) // wherever they are
		}
	}
	sp.Usable = slices.ContainsFunc(all, ready) || slices.ContainsFunc(all, fallback)
	if usesLocal && sp.Usable {
		r.facts.needName(sp)
		sp.Local = pick(all, and(isLocal, ready))
		if len(sp.Local) == 0 {
			sp.Local = pick(all, and(isLocal, fallback))
		}
	}
	return len(all)
}

func isReady(c candidate) bool      { return c.ready }
func isLocal(c candidate) bool      { return c.Local }
func isLastResort(c candidate) bool { return c.serving && c.terminating }

func and(f, g func(candidate) bool) func(candidate) bool {
	return func(c candidate) bool { return f(c) && g(c) }
}

func pick(all []candidate, f func(candidate) bool) []ir.Endpoint {
	var out []ir.Endpoint
	for _, c := range all {
		if f(c) {
			out = append(out, c.Endpoint)
		}
	}
	return out
}

// merge unites the slices' endpoints by address and port. Of two with the same,
// the livelier counts; then the slice whose name, then the node whose name, comes
// first, never the place in a slice: endpoints may be listed in any order.
// (kube-proxy goes by map order where liveness is equal.)
func merge(n ir.PortName, from []*slice) []candidate {
	var all []candidate
	for i, s := range from {
		port := s.port(n)
		if port == 0 {
			continue
		}
		for _, e := range s.endpoints {
			c := candidate{sliceEndpoint: e, key: netip.AddrPortFrom(e.Addr, port), slice: i}
			c.Port = port
			all = append(all, c)
		}
	}
	slices.SortStableFunc(all, func(a, b candidate) int {
		if d := a.key.Compare(b.key); d != 0 {
			return d
		}
		return cmp.Or(cmp.Compare(a.deadness(), b.deadness()), cmp.Compare(a.slice, b.slice),
			cmp.Compare(a.node, b.node), cmp.Compare(a.hints.String(), b.hints.String()))
	})
	return slices.CompactFunc(all, func(a, b candidate) bool { return a.key == b.key })
}

// deadness orders by not terminating, as kube-proxy does, then ready, then
// serving, where kube-proxy leaves it to chance.
func (c candidate) deadness() int {
	n := 0
	if c.terminating {
		n += 4
	}
	if !c.ready {
		n += 2
	}
	if !c.serving {
		n++
	}
	return n
}

// topology gives the condition that hints add. They count only if every ready
// endpoint has one of the kind and at least one names this node or zone; node
// hints come before zone hints.
func (r *resolver) topology(sp *ir.ServicePort, all []candidate) func(candidate) bool {
	everywhere := func(candidate) bool { return true }
	nodes, zones, any := true, true, false
	for _, c := range all {
		if c.ready {
			any = true
			nodes = nodes && c.hints != nil && len(c.hints.ForNodes) > 0
			zones = zones && c.hints != nil && len(c.hints.ForZones) > 0
		}
	}
	if any && nodes {
		r.facts.needName(sp)
		if f := func(c candidate) bool { return c.forNode(r.facts.name) }; slices.ContainsFunc(all, and(isReady, f)) {
			return f
		}
	}
	if any && zones {
		zone := r.facts.zone(sp)
		if f := func(c candidate) bool { return zone != "" && c.forZone(zone) }; slices.ContainsFunc(all, and(isReady, f)) {
			return f
		}
	}
	return everywhere
}

func (c candidate) forNode(name string) bool {
	for _, h := range c.hints.ForNodes {
		if h.Name == name {
			return true
		}
	}
	return false
}

func (c candidate) forZone(zone string) bool {
	for _, h := range c.hints.ForZones {
		if h.Name == zone {
			return true
		}
	}
	return false
}
