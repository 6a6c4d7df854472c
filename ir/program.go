package ir

import (
	"net/netip"
	"strings"
)

// Program is what the Services of a cluster promise on one node in one family.
// It is the specification that every build is proved against.
type Program struct {
	Family   Family
	Node     Node
	Options  Options
	Services []*ServicePort // sorted by PortName.Compare, unique
	// Known counts the endpoints of all service ports, whatever their state;
	// kube-proxy leaves comments out above 1000.
	Known int
}

// ServicePort is one port of one Service. Its endpoints are those that
// conditions, topology and policy have chosen already (KEP-1669, KEP-2433, KEP-3015).
type ServicePort struct {
	PortName
	Origin Origin

	// Frontends: at most one ClusterIP, then external IPs and load-balancer
	// addresses in the manifest's order, then at most one NodePort. An address may
	// stand there more than once, as in a Service whose external IP is its load
	// balancer's as well: the first that leads to an endpoint then decides, source
	// ranges of a later one included. Kube-proxy writes a rule for each, and the
	// first that delivers takes the packet.
	Frontends []Frontend

	InternalPolicy Policy // for ClusterIP
	ExternalPolicy Policy // for every other frontend

	// Cluster and Local are the endpoints for each policy, sorted by their
	// text, bytewise, as kube-proxy sorts them. Cluster is empty where no
	// frontend can lead to it.
	Cluster, Local []Endpoint

	// Usable says that some endpoint somewhere could serve: if a policy's list
	// is empty all the same, packets are dropped rather than rejected.
	Usable bool

	// Serving lists every serving endpoint whatever policy and topology say;
	// a UDP flow to any other is stale.
	Serving []netip.AddrPort

	// AffinitySeconds is how long a client is remembered; 0 without affinity.
	AffinitySeconds int

	// Scheduler shares connections out where virtual servers do; "" for the
	// node's (Virtual.Scheduler).
	Scheduler string

	// SourceRanges limits who may use the LoadBalancer frontends, in the
	// manifest's order; empty means everybody. NodeAllowed says that a range
	// holds this node's address: then each of those frontends' addresses is
	// allowed as a source as well.
	SourceRanges []netip.Prefix
	NodeAllowed  bool

	// HealthCheckNodePort is to be open for TCP in the filter; 0 for none.
	HealthCheckNodePort uint16
}

// Policy is the traffic policy for a kind of frontend.
func (s *ServicePort) Policy(k FrontendKind) Policy {
	if k == ClusterIP {
		return s.InternalPolicy
	}
	return s.ExternalPolicy
}

// Endpoints are those that a policy chose.
func (s *ServicePort) Endpoints(p Policy) []Endpoint {
	if p == Local {
		return s.Local
	}
	return s.Cluster
}

// Reachable is the union of Cluster and Local in their common order.
func (s *ServicePort) Reachable() []Endpoint {
	if len(s.Local) == 0 {
		return s.Cluster
	}
	if len(s.Cluster) == 0 {
		return s.Local
	}
	return mergeEndpoints(s.Cluster, s.Local)
}

// AllowedSources is what may reach the load-balancer frontends: the source
// ranges and, if the node is allowed, the frontends' own addresses. Nil means
// everybody.
func (s *ServicePort) AllowedSources() []netip.Prefix {
	if len(s.SourceRanges) == 0 {
		return nil
	}
	out := append([]netip.Prefix(nil), s.SourceRanges...)
	if !s.NodeAllowed {
		return out
	}
	for _, f := range s.Frontends {
		if f.Kind == LoadBalancer {
			out = append(out, netip.PrefixFrom(f.Addr, f.Addr.BitLen()))
		}
	}
	return out
}

// mergeEndpoints is the sorted union of two sorted lists, by address and port.
func mergeEndpoints(a, b []Endpoint) []Endpoint {
	out := make([]Endpoint, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		switch c := CompareEndpoints(a[0], b[0]); {
		case c < 0:
			out, a = append(out, a[0]), a[1:]
		case c > 0:
			out, b = append(out, b[0]), b[1:]
		default:
			out, a, b = append(out, a[0]), a[1:], b[1:]
		}
	}
	return append(append(out, a...), b...)
}

// CompareEndpoints orders endpoints by their text, bytewise: 10.0.0.10:80
// before 10.0.0.2:80. kube-proxy sorts them so, and rule order shows it.
func CompareEndpoints(a, b Endpoint) int { return strings.Compare(a.String(), b.String()) }
