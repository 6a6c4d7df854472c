package validate

import (
	discoveryv1 "k8s.io/api/discovery/v1"

	"svcc/ir"
	"svcc/ir/diag"
)

// hintTally counts the ready endpoints of slices and their topology hints:
// only ready ones matter to the proxy's choice.
type hintTally struct {
	ready, zones, nodes int
	noZone, noNode      int // 1 + index of the first ready endpoint without; 0: none
}

func (t *hintTally) add(e *discoveryv1.Endpoint, i int) {
	if !isReady(e) {
		return
	}
	t.ready++
	if e.Hints != nil && len(e.Hints.ForZones) > 0 {
		t.zones++
	} else if t.noZone == 0 {
		t.noZone = i + 1
	}
	if e.Hints != nil && len(e.Hints.ForNodes) > 0 {
		t.nodes++
	} else if t.noNode == 0 {
		t.noNode = i + 1
	}
}

// isReady reads a missing condition as ready, as the API says.
func isReady(e *discoveryv1.Endpoint) bool {
	return e.Conditions.Ready == nil || *e.Conditions.Ready
}

// checkHints reports hints that have no effect, and a traffic distribution
// that has none.
func (c *checker) checkHints(s *service) {
	var sum hintTally
	for _, x := range s.slices {
		sum.ready += x.hints.ready
		sum.zones += x.hints.zones
		sum.nodes += x.hints.nodes
	}
	d := s.Value.Spec.TrafficDistribution
	switch {
	case sum.zones+sum.nodes > 0:
		for _, f := range ir.Families {
			c.checkHintsOfFamily(s, f)
		}
	case d != nil && sum.ready > 0:
		c.onService(s, diag.DistributionNoHints, path{"spec", "trafficDistribution"}, "trafficDistribution %s has no effect: the EndpointSlices carry no hints", *d).
			Hint = "take the EndpointSlices from the cluster, where a controller writes the hints"
	}
}

// checkHintsOfFamily looks at each port for itself, as the proxy does, and
// reports the first whose hints do not count.
func (c *checker) checkHintsOfFamily(s *service, f ir.Family) {
	for i := range s.Value.Spec.Ports {
		p := &s.Value.Spec.Ports[i]
		if c.hintsIncomplete(s, f, meetKey{p.Name, p.Protocol}) {
			return
		}
	}
}

func (c *checker) hintsIncomplete(s *service, f ir.Family, port meetKey) bool {
	var sum hintTally
	var noZone, noNode place
	for _, x := range s.slices {
		if x.family != f || !x.offers(port) {
			continue
		}
		h := &x.hints
		sum.ready += h.ready
		sum.zones += h.zones
		sum.nodes += h.nodes
		if noZone.x == nil && h.noZone > 0 {
			noZone = place{x, h.noZone - 1}
		}
		if noNode.x == nil && h.noNode > 0 {
			noNode = place{x, h.noNode - 1}
		}
	}
	report := func(kind string, n int, at place) bool {
		if n == 0 || n == sum.ready {
			return false
		}
		c.onSlice(at.x, diag.HintsIncomplete, path{"endpoints", at.j}, "only %d of %d ready endpoints of Service %s have %s hints, so none counts; this one has none", n, sum.ready, s.key, kind)
		return true
	}
	return report("zone", sum.zones, noZone) || report("node", sum.nodes, noNode)
}

// offers says whether the slice has a port of the name and protocol.
func (x *slice) offers(port meetKey) bool {
	for i := range x.Value.Ports {
		if name, protocol, _ := slicePort(&x.Value.Ports[i]); name == port.name && protocol == port.protocol {
			return true
		}
	}
	return false
}
