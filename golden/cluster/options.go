package cluster

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// Where the addresses of a generated cluster come from. The first node,
// node-0, is 192.168.0.1.
const (
	NodeCIDR      = "192.168.0.0/16"
	PodCIDR       = "10.128.0.0/9" // what --cluster-cidr wants
	ServiceCIDR   = "10.96.0.0/12"
	BalancerCIDR  = "198.18.0.0/16" // load balancer addresses
	ExternalCIDR  = "198.19.0.0/16" // spec.externalIPs
	NodeCIDR6     = "fd00:192:168::/112"
	PodCIDR6      = "fd00:10:128::/48"
	ServiceCIDR6  = "fd00:10:96::/108"
	BalancerCIDR6 = "fd00:198:18::/112"
	ExternalCIDR6 = "fd00:198:19::/112"
)

// The largest cluster that the ranges above have room for, far beyond those
// that Kubernetes is tested with.
const (
	MaxServices  = 200_000
	MaxNodes     = 10_000
	MaxEndpoints = 1_000_000
)

// Options choose a cluster.
type Options struct {
	// Services is how many Services there are, of every kind together.
	Services int
	// Nodes is how many Nodes there are; 0 means one for every 50 endpoints,
	// and at least three.
	Nodes int
	// EndpointsPerService is the average over the Services that have
	// endpoints, at least 1; 0 means 5. The distribution is skewed as in real
	// clusters: with 5, two Services in three have one to three endpoints and
	// one in a hundred has fifty or more, a thousand at most.
	EndpointsPerService float64
	// DualStack is the share of Services with both families, from 0 to 1; the
	// others are IPv4. Nodes are dual stack as soon as it is above 0.
	DualStack float64
	// Seed chooses one of the clusters with these figures.
	Seed uint64
}

// Cluster is what Generate made, in the order in which it is written.
type Cluster struct {
	Services []*corev1.Service
	Slices   []*discoveryv1.EndpointSlice
	Nodes    []*corev1.Node
}

// Check tells what is wrong with the options, or nil.
func (o Options) Check() error {
	o = o.withDefaults()
	switch {
	case o.Services < 0 || o.Services > MaxServices:
		return fmt.Errorf("services: %d is not between 0 and %d", o.Services, MaxServices)
	case o.Nodes < 1 || o.Nodes > MaxNodes:
		return fmt.Errorf("nodes: %d is not between 1 and %d", o.Nodes, MaxNodes)
	case !(o.EndpointsPerService >= 1):
		return fmt.Errorf("endpoints per service: %v is below 1", o.EndpointsPerService)
	case o.EndpointsPerService*float64(o.Services) > MaxEndpoints:
		return fmt.Errorf("endpoints: more than %d", MaxEndpoints)
	case !(o.DualStack >= 0 && o.DualStack <= 1):
		return fmt.Errorf("dual stack: %v is not between 0 and 1", o.DualStack)
	}
	return nil
}

// withDefaults fills in what 0 stands for.
func (o Options) withDefaults() Options {
	if o.EndpointsPerService == 0 {
		o.EndpointsPerService = 5
	}
	if o.Nodes == 0 {
		perNode := 50.0
		o.Nodes = min(max(3, int(float64(o.Services)*o.EndpointsPerService/perNode)), MaxNodes)
	}
	return o
}
