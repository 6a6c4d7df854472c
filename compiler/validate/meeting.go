package validate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"svcc/ir"
	"svcc/ir/diag"
)

// meetKey is what a service port and a slice port have in common if they meet.
type meetKey struct {
	name     string
	protocol corev1.Protocol
}

func (k meetKey) String() string { return fmt.Sprintf("%q/%s", k.name, k.protocol) }

// checkMeeting holds a Service against its slices. Of a faulty Service nothing
// is said: most of it would follow from the fault.
func (c *checker) checkMeeting(s *service) {
	switch {
	case c.faulty[s.key]:
		return
	case len(s.left) > 0:
		c.leftOut(s)
	}
	switch {
	case len(s.slices) == 0 && len(s.left) > 0:
		return
	case len(s.slices) == 0:
		c.withoutSlice(s)
		return
	}
	c.checkFamiliesMeet(s)
	c.checkPortsMeet(s)
	c.checkHints(s)
	c.checkPublished(s)
	c.checkReuse(s)
	c.checkEndpointCount(s)
	c.checkManagers(s)
}

// leftOut reports the slices that a label leaves out of a Service that is not
// headless.
func (c *checker) leftOut(s *service) {
	for _, x := range s.left {
		d := c.onSlice(x, diag.SliceHeadless, path{"metadata", "labels", corev1.IsHeadlessService}, "the EndpointSlice is left out because of its label %s, but Service %s has a cluster IP", corev1.IsHeadlessService, s.key)
		d.Hint = "remove the label"
		if len(s.slices) == 0 {
			d.Message += " and no other slice: connections are refused"
		}
	}
}

// checkManagers reports slices of two controllers: each of them takes itself for the
// only one, so the older set is a left-over.
func (c *checker) checkManagers(s *service) {
	var first *slice
	for _, x := range s.slices {
		manager := x.Value.Labels[discoveryv1.LabelManagedBy]
		switch {
		case manager == "" || len(x.addrs) == 0:
		case first == nil:
			first = x
		case manager != first.Value.Labels[discoveryv1.LabelManagedBy]:
			at := path{"metadata", "labels", discoveryv1.LabelManagedBy}
			pos := first.At(at...)
			d := c.onSlice(x, diag.SlicesOfTwoManagers, at, "Service %s has EndpointSlices of two managers, %s and %s: the endpoints of both are used", s.key, first.Value.Labels[discoveryv1.LabelManagedBy], manager)
			d.Hint = "delete the slices of the one that no longer manages the Service"
			d.Related = related(pos, "a slice of the other manager")
			return
		}
	}
}

func (c *checker) withoutSlice(s *service) {
	hint := "add its EndpointSlices: kubectl get endpointslices -o yaml"
	switch {
	case c.set.Skipped["v1/Endpoints"] > 0:
		hint = "the input holds core/v1 Endpoints, which are read only with --endpoints"
	case len(s.Value.Spec.Selector) == 0:
		hint = "it has no selector, so no controller makes its EndpointSlices: write them"
	}
	c.onService(s, diag.ServiceWithoutSlice, path{"metadata", "name"}, "the Service has no EndpointSlice: connections are refused").Hint = hint
}

// checkFamiliesMeet compares the families of cluster IPs with those of slices.
func (c *checker) checkFamiliesMeet(s *service) {
	for _, f := range ir.Families {
		i := slices.IndexFunc(s.slices, func(x *slice) bool { return x.family == f })
		switch {
		case !c.asked(f):
		case i < 0 && s.serves(f):
			c.onService(s, diag.FamilyWithoutSlice, path{"metadata", "name"}, "the Service has an %s cluster IP, but no %s EndpointSlice", familyName(f), familyName(f))
		case i >= 0 && !s.serves(f):
			c.onSlice(s.slices[i], diag.SliceFamilyUnused, path{"addressType"}, "Service %s has no %s cluster IP, so this EndpointSlice is not used", s.key, familyName(f))
		}
	}
}

// checkPortsMeet compares ports by name and protocol. A slice without
// endpoints does not count: a controller leaves the ports out of it.
func (c *checker) checkPortsMeet(s *service) {
	offered := map[meetKey]place{}
	for _, x := range s.slices {
		if len(x.addrs) == 0 || !s.serves(x.family) {
			continue
		}
		for j := range x.Value.Ports {
			name, protocol, _ := slicePort(&x.Value.Ports[j])
			k := meetKey{name, protocol}
			if _, known := offered[k]; !known {
				offered[k] = place{x, j}
			}
		}
	}
	if len(offered) > 0 && c.servicePortsMeet(s, offered) {
		c.slicePortsMeet(s, offered)
	}
}

// place is the j-th port or endpoint of a slice.
type place struct {
	x *slice
	j int
}

func (c *checker) servicePortsMeet(s *service, offered map[meetKey]place) bool {
	all := true
	for i, p := range s.Value.Spec.Ports {
		k := meetKey{p.Name, p.Protocol}
		if _, met := offered[k]; met {
			continue
		}
		all = false
		names, first := listOffered(offered)
		d := c.onService(s, diag.ServicePortUnmatched, path{"spec", "ports", i, "name"}, "no slice port matches service port %s; the slices have %s", k, names)
		d.Hint = "give both the same name and protocol"
		d.Related = related(first.x.At("ports", first.j), "a slice port")
	}
	return all
}

// listOffered names up to five of the slices' ports, and the place of the
// first.
func listOffered(offered map[meetKey]place) (string, place) {
	const most = 5
	keys := slices.SortedFunc(maps.Keys(offered), func(a, b meetKey) int {
		return strings.Compare(a.String(), b.String())
	})
	var names []string
	for _, k := range keys[:min(len(keys), most)] {
		names = append(names, k.String())
	}
	if n := len(keys) - most; n > 0 {
		names = append(names, fmt.Sprintf("%d more", n))
	}
	return strings.Join(names, ", "), offered[keys[0]]
}

func (c *checker) slicePortsMeet(s *service, offered map[meetKey]place) {
	if len(offered) == len(s.Value.Spec.Ports) {
		return // each of them met one
	}
	for _, p := range s.Value.Spec.Ports {
		delete(offered, meetKey{p.Name, p.Protocol})
	}
	for k, at := range offered { // Check sorts what is found
		c.onSlice(at.x, diag.SlicePortUnmatched, path{"ports", at.j}, "Service %s has no port %s, so this slice port is not used", s.key, k)
	}
}

// checkPublished reports that publishNotReadyAddresses does not do what its
// name says to whoever writes slices by hand.
func (c *checker) checkPublished(s *service) {
	if !s.Value.Spec.PublishNotReadyAddresses {
		return
	}
	for _, x := range s.slices {
		for i := range x.addrs {
			if !isReady(&x.Value.Endpoints[i]) {
				c.onSlice(x, diag.NotReadyThoughPublish, path{"endpoints", i, "conditions", "ready"}, "Service %s publishes unready addresses, but this endpoint says ready: false and is not used", s.key).
					Hint = "write ready: true, as the controller does"
				return
			}
		}
	}
}

// checkReuse notes a pod address that two pods are said to have.
func (c *checker) checkReuse(s *service) {
	if endpointCount(s) < 2 {
		return
	}
	seen := map[[16]byte]place{}
	for _, x := range s.slices {
		for i, a := range x.addrs {
			if !a.IsValid() {
				continue
			}
			first, twice := seen[a.As16()]
			if !twice {
				seen[a.As16()] = place{x, i}
			} else if otherPod(first, place{x, i}) && shareAPort(first.x, x) {
				pos := first.x.At("endpoints", first.j)
				c.onSlice(x, diag.EndpointOfSeveralNames, path{"endpoints", i}, "endpoint %s is listed for two pods", a).
					Related = related(pos, "the other pod's endpoint")
			}
		}
	}
}

func otherPod(a, b place) bool {
	p, q := a.x.Value.Endpoints[a.j].TargetRef, b.x.Value.Endpoints[b.j].TargetRef
	return p != nil && q != nil && (p.UID != q.UID || p.Name != q.Name || p.Namespace != q.Namespace)
}

// shareAPort says whether two slices have a port of the same name and number,
// without which an address of two pods is that of their node.
func shareAPort(a, b *slice) bool {
	if a == b {
		return len(a.Value.Ports) > 0
	}
	type named struct {
		meetKey
		number int32
	}
	ports := map[named]bool{}
	for i := range a.Value.Ports {
		name, protocol, number := slicePort(&a.Value.Ports[i])
		ports[named{meetKey{name, protocol}, number}] = true
	}
	for i := range b.Value.Ports {
		name, protocol, number := slicePort(&b.Value.Ports[i])
		if ports[named{meetKey{name, protocol}, number}] {
			return true
		}
	}
	return false
}

func (c *checker) checkEndpointCount(s *service) {
	const many = 1000
	if n := endpointCount(s); n > many {
		c.onService(s, diag.ManyEndpoints, path{"metadata", "name"}, "the Service has %d endpoints", n)
	}
}

func endpointCount(s *service) int {
	n := 0
	for _, x := range s.slices {
		n += len(x.addrs)
	}
	return n
}
