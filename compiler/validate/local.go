package validate

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"svcc/compiler/manifest"
	"svcc/ir/diag"
)

// checkLocal notes, for a known node, the Services whose policy Local finds no
// endpoint on it. Where no endpoint at all is on it, it may be that slices know the
// node by another name.
func (c *checker) checkLocal() {
	node := strings.ToLower(strings.TrimSpace(c.o.Node))
	if node == "" {
		return
	}
	var without []*service
	for _, s := range c.services {
		if at, what := localPolicy(s); s.compiled && !c.faulty[s.key] && at != nil && usable(s) && !onNode(s, node) {
			c.onService(s, diag.NoLocalEndpoint, at, "no endpoint is on node %s, and the policy is Local: %s", node, what)
			without = append(without, s)
		}
	}
	if names := c.endpointNodes(); len(without) > 0 && !names[node] && !c.knownNodes(names, node) {
		s := without[0]
		at, _ := localPolicy(s)
		message := "no EndpointSlice says on which node its endpoints are"
		if len(names) > 0 {
			message = "no EndpointSlice knows node " + node + "; they name " + listNames(slices.Sorted(maps.Keys(names)))
		}
		c.onService(s, diag.NodeOfNoEndpoint, at, "%s", message).Hint = "give --node the name that nodeName of the endpoints has"
	}
}

// localPolicy is where a Service asks for endpoints of the node, and what becomes of
// connections without any; nil if it does not.
func localPolicy(s *service) (at path, what string) {
	sp := &s.Value.Spec
	switch p := sp.InternalTrafficPolicy; {
	case sp.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal:
		return path{"spec", "externalTrafficPolicy"}, "connections from outside are dropped here"
	case p != nil && *p == corev1.ServiceInternalTrafficPolicyLocal:
		return path{"spec", "internalTrafficPolicy"}, "connections to the cluster IP are dropped here"
	}
	return nil, ""
}

// usable says that a Service has an endpoint that may serve.
func usable(s *service) bool {
	return anyEndpoint(s, func(*discoveryv1.Endpoint) bool { return true })
}

func onNode(s *service, node string) bool {
	return anyEndpoint(s, func(e *discoveryv1.Endpoint) bool { return e.NodeName != nil && *e.NodeName == node })
}

// anyEndpoint looks among those that are ready, or serve while they terminate, in the
// Service's families.
func anyEndpoint(s *service, f func(*discoveryv1.Endpoint) bool) bool {
	for _, x := range s.slices {
		if !s.serves(x.family) {
			continue
		}
		for i := range x.Value.Endpoints {
			if e := &x.Value.Endpoints[i]; (isReady(e) || isLastResort(e)) && f(e) {
				return true
			}
		}
	}
	return false
}

// isLastResort reads missing conditions as the API says.
func isLastResort(e *discoveryv1.Endpoint) bool {
	c := e.Conditions
	return (c.Serving == nil || *c.Serving) && c.Terminating != nil && *c.Terminating
}

// endpointNodes are the nodes that EndpointSlices name.
func (c *checker) endpointNodes() map[string]bool {
	names := map[string]bool{}
	for _, x := range c.slices {
		for i := range x.Value.Endpoints {
			if n := x.Value.Endpoints[i].NodeName; n != nil {
				names[*n] = true
			}
		}
	}
	return names
}

// knownNodes says that this node has a Node object and slices no name that is nearly
// its own, with or without a domain: then the node has no pods.
func (c *checker) knownNodes(names map[string]bool, node string) bool {
	for n := range names {
		if strings.HasPrefix(n, node+".") || strings.HasPrefix(node, n+".") {
			return false
		}
	}
	own := func(n *manifest.Object[*corev1.Node]) bool { return n.Value.Name == node }
	return len(names) > 0 && slices.ContainsFunc(c.set.Nodes, own)
}

// listNames lists at most five.
func listNames(names []string) string {
	const most = 5
	if n := len(names) - most; n > 0 {
		return strings.Join(names[:most], ", ") + " and others"
	}
	return strings.Join(names, ", ")
}
