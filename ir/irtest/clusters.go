package irtest

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"

	"svcc/ir"
)

// Cluster makes a Program that passes Check, of n service ports or a few less,
// by the dice of r alone. Where Programs lets everything meet in a small
// space, Cluster is as large as asked for and as awkward as clusters can be:
// addresses one bit apart or anywhere, a hundred ports on one, load-balancer
// addresses among ClusterIPs and on the node, endpoints that service ports of
// several protocols share, the node's own address as an endpoint.
func Cluster(r *rand.Rand, f ir.Family, n int) *ir.Program {
	c := newClusterMaker(r, f)
	c.style, c.external = addressStyles[r.IntN(len(addressStyles))], (*clusterMaker).awkward
	return c.make(n)
}

// Plain is Cluster with the addresses that clusters are usually given: random
// ClusterIPs of one range, external addresses of another and of nodes.
func Plain(r *rand.Rand, f ir.Family, n int) *ir.Program {
	c := newClusterMaker(r, f)
	c.style = addressStyles[r.IntN(2)]
	c.external = func(c *clusterMaker) netip.Addr {
		if c.oneIn(10) {
			return Addr(f, nodes, 1+c.r.IntN(3))
		}
		return Addr(f, vips, 1+c.r.IntN(200))
	}
	return c.make(n)
}

func newClusterMaker(r *rand.Rand, f ir.Family) *clusterMaker {
	c := &clusterMaker{r: r, p: &ir.Program{Family: f, Node: ir.Node{Name: "node-a", IP: Addr(f, nodes, 1)}}, taken: map[destination]bool{}}
	c.options()
	return c
}

func (c *clusterMaker) make(n int) *ir.Program {
	for range 1 + n/3 {
		c.pool = append(c.pool, c.endpoints(1+c.few(12)))
	}
	for i := range n {
		c.service(i)
	}
	slices.SortFunc(c.p.Services, func(a, b *ir.ServicePort) int { return a.Compare(b.PortName) })
	return c.p
}

type destination struct {
	addr  netip.Addr
	port  uint16
	proto ir.Protocol
}

type clusterMaker struct {
	r        *rand.Rand
	p        *ir.Program
	taken    map[destination]bool
	style    addressStyle
	external func(*clusterMaker) netip.Addr
	pool     [][]ir.Endpoint // that service ports share
}

// addressStyle chooses ClusterIPs.
type addressStyle func(c *clusterMaker, i int) netip.Addr

var addressStyles = []addressStyle{
	func(c *clusterMaker, i int) netip.Addr { return Addr(c.p.Family, clusterIP, 1+i) },
	func(c *clusterMaker, i int) netip.Addr { return Addr(c.p.Family, clusterIP, 1+c.r.IntN(1<<16-1)) },
	func(c *clusterMaker, i int) netip.Addr { return c.flip(Addr(c.p.Family, clusterIP, 85), 1+c.r.IntN(3)) },
	func(c *clusterMaker, i int) netip.Addr { return c.anywhere() },
	func(c *clusterMaker, i int) netip.Addr { return Addr(c.p.Family, clusterIP, 1+c.r.IntN(3)) },
}

// flip changes n bits of an address.
func (c *clusterMaker) flip(a netip.Addr, n int) netip.Addr {
	for {
		b := a.AsSlice()
		for range n {
			i := c.r.IntN(8 * len(b))
			b[i/8] ^= 0x80 >> (i % 8)
		}
		if out, _ := netip.AddrFromSlice(b); usable(out) {
			return out
		}
	}
}

func (c *clusterMaker) anywhere() netip.Addr {
	for {
		b := make([]byte, Addr(c.p.Family, 0, 0).BitLen()/8)
		for i := range b {
			b[i] = byte(c.r.Uint32())
		}
		if a, _ := netip.AddrFromSlice(b); usable(a) {
			return a
		}
	}
}

func usable(a netip.Addr) bool {
	return !a.IsLoopback() && !a.IsUnspecified() && !a.IsMulticast() && !a.IsLinkLocalUnicast() && !a.Is4In6() && !(a.Is4() && a.As4()[0] >= 224)
}

func (c *clusterMaker) oneIn(n int) bool { return c.r.IntN(n) == 0 }

// few is below n and mostly small.
func (c *clusterMaker) few(n int) int { return c.r.IntN(1 + c.r.IntN(n)) }

func (c *clusterMaker) options() {
	f := c.p.Family
	o := ir.Options{MasqueradeMark: 1 << c.r.IntN(32), MasqueradeAll: c.oneIn(4), DropInvalid: c.oneIn(2)}
	o.LocalhostNodePorts = f == ir.IPv4 && c.oneIn(2)
	pods, _ := Addr(f, podsHere, 0).Prefix(Addr(f, 0, 0).BitLen() / 2)
	o.Pods = []ir.Detector{
		{Kind: ir.DetectCIDR, Prefix: pods}, {Kind: ir.DetectCIDR, Prefix: pods}, {},
		{Kind: ir.DetectBridge, Interface: "cbr0"}, {Kind: ir.DetectInterface, Interface: "veth"},
	}[c.r.IntN(5)]
	switch vipNet, _ := Addr(f, vips, 0).Prefix(Addr(f, 0, 0).BitLen() / 2); c.r.IntN(4) {
	case 0:
		o.NodePorts.Addrs = []netip.Addr{Addr(f, nodes, 1), Addr(f, nodes, 2)}
	case 1:
		o.NodePorts.Prefixes = []netip.Prefix{vipNet}
		if o.LocalhostNodePorts {
			o.NodePorts.Addrs = []netip.Addr{netip.MustParseAddr("127.0.0.1")}
		}
	default:
		o.NodePorts.All = true
	}
	c.p.Options = o
}

// endpoints are n, sorted; pods here and elsewhere, and the node itself.
func (c *clusterMaker) endpoints(n int) []ir.Endpoint {
	seen := map[netip.AddrPort]bool{}
	var out []ir.Endpoint
	for len(out) < n {
		e := ir.Endpoint{Port: []uint16{53, 80, 8080}[c.r.IntN(3)]}
		switch c.r.IntN(8) {
		case 0:
			e.Addr, e.Local = Addr(c.p.Family, nodes, 1), true
		case 1, 2, 3:
			e.Addr, e.Local = Addr(c.p.Family, podsHere, 2+c.r.IntN(2000)), true
		default:
			e.Addr = Addr(c.p.Family, podsThere, 2+c.r.IntN(60000))
		}
		if !seen[e.AddrPort()] {
			seen[e.AddrPort()] = true
			out = append(out, e)
		}
	}
	slices.SortFunc(out, ir.CompareEndpoints)
	return out
}

func (c *clusterMaker) service(i int) {
	protocols := []ir.Protocol{ir.TCP, ir.TCP, ir.UDP, ir.SCTP}
	s := &ir.ServicePort{
		PortName:       ir.PortName{Namespace: fmt.Sprintf("ns-%d", i%7), Name: fmt.Sprintf("s%d", c.r.IntN(1<<30)), Protocol: protocols[c.r.IntN(len(protocols))]},
		Origin:         ir.Origin{File: "in.yaml", Line: 1 + i},
		InternalPolicy: ir.Policy(c.few(2)),
		ExternalPolicy: ir.Policy(c.r.IntN(2)),
		Usable:         !c.oneIn(6),
	}
	c.frontends(s, i)
	if len(s.Frontends) == 0 || s.Frontends[0].Kind != ir.ClusterIP {
		return
	}
	if c.oneIn(5) {
		s.AffinitySeconds = 1 + c.r.IntN(86400)
	}
	c.choose(s)
	if slices.ContainsFunc(s.Frontends, isLoadBalancer) {
		c.loadBalancer(s)
	}
	c.p.Services = append(c.p.Services, s)
	c.p.Known += len(s.Serving)
}

func (c *clusterMaker) frontends(s *ir.ServicePort, i int) {
	ip := c.style(c, i)
	number := []uint16{1, 53, 80, 443, 8080, 30080, 65535, 31234}[c.r.IntN(8)]
	if c.taken[destination{ip, number, s.Protocol}] || c.oneIn(8) {
		number = uint16(1 + c.r.IntN(65535))
	}
	add := func(f ir.Frontend) {
		d := destination{f.Addr, f.Port, s.Protocol}
		if !c.taken[d] {
			c.taken[d] = true
			s.Frontends = append(s.Frontends, f)
		}
	}
	add(ir.Frontend{Kind: ir.ClusterIP, Addr: ip, Port: number})
	for _, kind := range []ir.FrontendKind{ir.ExternalIP, ir.LoadBalancer} {
		for range c.few(3) {
			add(ir.Frontend{Kind: kind, Addr: c.external(c), Port: number})
		}
	}
	if c.oneIn(3) {
		add(ir.Frontend{Kind: ir.NodePort, Port: []uint16{80, 30080, uint16(30000 + c.r.IntN(2768))}[min(2, c.r.IntN(40))]})
	}
}

// awkward is an external address of any kind.
func (c *clusterMaker) awkward() netip.Addr {
	switch c.r.IntN(6) {
	case 0:
		return c.anywhere()
	case 1:
		return c.style(c, c.r.IntN(1000))
	case 2:
		return Addr(c.p.Family, nodes, 1+c.r.IntN(3))
	case 3:
		return c.flip(Addr(c.p.Family, clusterIP, 85), 1)
	}
	return Addr(c.p.Family, vips, 1+c.r.IntN(200))
}

// choose gives a service port its lists of endpoints.
func (c *clusterMaker) choose(s *ir.ServicePort) {
	all := c.pool[c.r.IntN(len(c.pool))]
	if c.oneIn(2) {
		all = c.endpoints(1 + c.few(20))
	}
	outside := len(s.Frontends) > 1
	if s.Usable && (s.InternalPolicy == ir.Cluster || outside) {
		s.Cluster = all
	}
	if s.Usable && (s.InternalPolicy == ir.Local || s.ExternalPolicy == ir.Local && outside) {
		s.Local = slices.DeleteFunc(slices.Clone(all), func(e ir.Endpoint) bool { return !e.Local })
	}
	for _, e := range s.Reachable() {
		s.Serving = append(s.Serving, e.AddrPort())
	}
}

func (c *clusterMaker) loadBalancer(s *ir.ServicePort) {
	if p := uint16(31000 + c.r.IntN(1000)); s.ExternalPolicy == ir.Local && !c.taken[destination{port: p, proto: ir.TCP}] {
		c.taken[destination{port: p, proto: ir.TCP}] = true
		s.HealthCheckNodePort = p
	}
	if c.oneIn(2) {
		return
	}
	for range 1 + c.r.IntN(4) {
		p, _ := Addr(c.p.Family, []int{clients, nodes, podsHere, vips}[c.r.IntN(4)], c.r.IntN(256)).Prefix(
			Addr(c.p.Family, 0, 0).BitLen() * []int{2, 6, 7, 8}[c.r.IntN(4)] / 8)
		s.SourceRanges = append(s.SourceRanges, p)
		s.NodeAllowed = s.NodeAllowed || p.Contains(c.p.Node.IP)
	}
}
