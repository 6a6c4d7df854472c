package resolve

import (
	"cmp"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"

	"svcc/compiler/addr"
	"svcc/compiler/manifest"
	"svcc/ir"
)

// slice is an EndpointSlice with its endpoints' addresses read.
type slice struct {
	*discoveryv1.EndpointSlice
	endpoints []sliceEndpoint
}

type sliceEndpoint struct {
	ir.Endpoint // without port and locality
	node        string
	ready       bool
	serving     bool
	terminating bool
	hints       *discoveryv1.EndpointHints
}

type serviceKey struct {
	namespace, name string
	family          ir.Family
}

const labelHeadless = "service.kubernetes.io/headless"

// indexSlices groups slices by the Service and family that they serve, each
// group sorted by name. Only the label tells the Service; owners do not count.
func indexSlices(set *manifest.Set) map[serviceKey][]*slice {
	out := map[serviceKey][]*slice{}
	for _, o := range set.Slices {
		s := o.Value
		_, headless := s.Labels[labelHeadless]
		name := s.Labels[discoveryv1.LabelServiceName]
		if headless || name == "" {
			continue
		}
		k := serviceKey{namespace: s.Namespace, name: name}
		switch s.AddressType {
		case discoveryv1.AddressTypeIPv4:
			k.family = ir.IPv4
		case discoveryv1.AddressTypeIPv6:
			k.family = ir.IPv6
		default:
			continue
		}
		out[k] = append(out[k], readSlice(s, k.family))
	}
	for _, list := range out {
		slices.SortFunc(list, func(a, b *slice) int { return cmp.Compare(a.Name, b.Name) })
	}
	return out
}

// readSlice reads conditions with their defaults: missing ready and serving are
// true, missing terminating is false. Only the first address counts.
func readSlice(s *discoveryv1.EndpointSlice, f ir.Family) *slice {
	out := &slice{EndpointSlice: s, endpoints: make([]sliceEndpoint, 0, len(s.Endpoints))}
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		if len(e.Addresses) == 0 {
			continue
		}
		a, _, err := addr.Parse(e.Addresses[0])
		if err != nil || !f.Of(a) {
			continue
		}
		c := e.Conditions
		x := sliceEndpoint{
			Endpoint:    ir.Endpoint{Addr: a},
			ready:       c.Ready == nil || *c.Ready,
			serving:     c.Serving == nil || *c.Serving,
			terminating: c.Terminating != nil && *c.Terminating,
			hints:       e.Hints,
		}
		if e.NodeName != nil {
			x.node = *e.NodeName
		}
		out.endpoints = append(out.endpoints, x)
	}
	return out
}

// port is the number that a slice gives to a service port; 0 for none. Names
// and protocols must be equal; a missing name is "", a missing protocol TCP.
func (s *slice) port(n ir.PortName) uint16 {
	for _, p := range s.Ports {
		name, proto := "", "TCP"
		if p.Name != nil {
			name = *p.Name
		}
		if p.Protocol != nil {
			proto = string(*p.Protocol)
		}
		if parsed, err := ir.ParseProtocol(proto); err == nil && name == n.Port && parsed == n.Protocol && p.Port != nil {
			return uint16(*p.Port)
		}
	}
	return 0
}
