package irtest

import (
	"net/netip"

	"svcc/ir"
)

// Shop is the Program of a node with one service port that has nearly
// everything: a load balancer with source ranges, a node port, policy Local
// outside and Cluster inside, one endpoint here and one elsewhere.
func Shop() *ir.Program {
	here := ir.Endpoint{Addr: netip.MustParseAddr("10.244.1.6"), Port: 8443, Local: true}
	there := ir.Endpoint{Addr: netip.MustParseAddr("10.244.2.8"), Port: 8443}
	return &ir.Program{
		Family: ir.IPv4,
		Node:   ir.Node{Name: "node-a", IP: netip.MustParseAddr("192.0.2.10")},
		Options: ir.Options{
			MasqueradeMark:     0x4000,
			LocalhostNodePorts: true,
			NodePorts:          ir.NodePortAddresses{All: true},
			Pods:               ir.Detector{Kind: ir.DetectCIDR, Prefix: netip.MustParsePrefix("10.244.0.0/16")},
			DropInvalid:        true,
		},
		Known: 2,
		Services: []*ir.ServicePort{{
			PortName: ir.PortName{Namespace: "demo", Name: "shop", Port: "https", Protocol: ir.TCP},
			Origin:   ir.Origin{File: "services.yaml", Line: 41},
			Frontends: []ir.Frontend{
				{Kind: ir.ClusterIP, Addr: netip.MustParseAddr("10.96.0.20"), Port: 443},
				{Kind: ir.LoadBalancer, Addr: netip.MustParseAddr("203.0.113.20"), Port: 443},
				{Kind: ir.NodePort, Port: 30443},
			},
			ExternalPolicy:      ir.Local,
			Cluster:             []ir.Endpoint{here, there},
			Local:               []ir.Endpoint{here},
			Usable:              true,
			Serving:             []netip.AddrPort{here.AddrPort(), there.AddrPort()},
			SourceRanges:        []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("198.51.100.0/24")},
			NodeAllowed:         true,
			HealthCheckNodePort: 31555,
		}},
	}
}
