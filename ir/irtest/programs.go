package irtest

import (
	"fmt"
	"net/netip"
	"slices"

	"pgregory.net/rapid"

	"svcc/ir"
)

// Programs generates Programs that pass Check: of either family, with every
// kind of frontend, policy, detection and node-port address. Addresses and
// ports come from small pools, so that frontends meet each other's ports, node
// ports, the node's address and endpoints, as they may in a real cluster.
func Programs() *rapid.Generator[*ir.Program] { return rapid.Custom(draw) }

// Addr is the host-th address of a net of a family: 10.net.0.host or
// fd00:net::host.
func Addr(f ir.Family, net, host int) netip.Addr {
	if f == ir.IPv4 {
		return netip.AddrFrom4([4]byte{10, byte(net), byte(host >> 8), byte(host)})
	}
	return netip.MustParseAddr(fmt.Sprintf("fd00:%x::%x", net, host))
}

// The nets that Addr is asked for. Pods of net podsHere are on the node.
const (
	nodes     = 1
	podsHere  = 128
	podsThere = 129
	clusterIP = 96
	vips      = 50
	clients   = 60
)

// drawer makes one Program.
type drawer struct {
	*rapid.T
	p     *ir.Program
	taken map[string]ir.PortName // destinations
}

func draw(t *rapid.T) *ir.Program {
	f := rapid.SampledFrom(ir.Families).Draw(t, "family")
	d := drawer{T: t, p: &ir.Program{Family: f, Node: ir.Node{Name: "node-a"}}, taken: map[string]ir.PortName{}}
	if d.coin("node has an address") {
		d.p.Node.IP = Addr(f, nodes, 1)
	}
	d.p.Options = d.options()
	for _, n := range d.names() {
		if s := d.service(n); s != nil {
			d.p.Services = append(d.p.Services, s)
			d.p.Known += len(s.Serving)
		}
	}
	return d.p
}

func (d drawer) coin(label string) bool { return rapid.Bool().Draw(d.T, label) }

// oneIn is true once in n times.
func (d drawer) oneIn(n int, label string) bool {
	return rapid.IntRange(1, n).Draw(d.T, label) == n
}

func pick[T any](d drawer, label string, from ...T) T {
	return rapid.SampledFrom(from).Draw(d.T, label)
}

func (d drawer) options() ir.Options {
	o := ir.Options{
		MasqueradeMark: 1 << rapid.IntRange(0, 31).Draw(d.T, "mark"),
		MasqueradeAll:  d.oneIn(4, "masquerade all"),
		DropInvalid:    d.coin("drop invalid"),
		Pods:           d.detector(),
	}
	o.LocalhostNodePorts = d.p.Family == ir.IPv4 && d.coin("localhost node ports")
	o.NodePorts = d.nodePorts(o.LocalhostNodePorts)
	return o
}

func (d drawer) detector() ir.Detector {
	switch pick(d, "pods", ir.DetectNone, ir.DetectCIDR, ir.DetectBridge, ir.DetectInterface) {
	case ir.DetectCIDR:
		bits := pick(d, "pod range", 16, 24)
		if d.p.Family == ir.IPv6 {
			bits *= 2
		}
		p, _ := Addr(d.p.Family, podsHere, 0).Prefix(bits)
		return ir.Detector{Kind: ir.DetectCIDR, Prefix: p}
	case ir.DetectBridge:
		return ir.Detector{Kind: ir.DetectBridge, Interface: "cbr0"}
	case ir.DetectInterface:
		return ir.Detector{Kind: ir.DetectInterface, Interface: "veth"}
	}
	return ir.Detector{}
}

// nodePorts gives what resolving does: localhost node ports with some only if
// a loopback address is among them.
func (d drawer) nodePorts(localhost bool) ir.NodePortAddresses {
	if d.coin("node ports everywhere") {
		return ir.NodePortAddresses{All: true}
	}
	var n ir.NodePortAddresses
	if d.coin("one address") {
		n.Addrs = append(n.Addrs, Addr(d.p.Family, nodes, 1))
	}
	if localhost {
		n.Addrs = append(n.Addrs, netip.MustParseAddr("127.0.0.1"))
	}
	if d.coin("one range") {
		p, _ := Addr(d.p.Family, vips, 0).Prefix(24)
		n.Prefixes = append(n.Prefixes, p)
	}
	return n
}

// names are in order and unique. Some differ in the protocol only, and some
// sort otherwise by parts than by their text ("a/x-y" before "a/x:p").
func (d drawer) names() []ir.PortName {
	one := rapid.Custom(func(t *rapid.T) ir.PortName {
		return ir.PortName{
			Namespace: rapid.SampledFrom([]string{"a", "a-b", "demo"}).Draw(t, "namespace"),
			Name:      rapid.SampledFrom([]string{"web", "web-1", "x"}).Draw(t, "name"),
			Port:      rapid.SampledFrom([]string{"", "http", "p1"}).Draw(t, "port"),
			Protocol:  rapid.SampledFrom([]ir.Protocol{ir.TCP, ir.UDP, ir.SCTP}).Draw(t, "protocol"),
		}
	})
	names := rapid.SliceOfNDistinct(one, 0, 6, rapid.ID[ir.PortName]).Draw(d.T, "names")
	slices.SortFunc(names, ir.PortName.Compare)
	return names
}

// claim says whether a destination is still free, and takes it. An address is also
// free to the service port that has it already, as another kind of frontend say.
func (d drawer) claim(f ir.Frontend, n ir.PortName, proto ir.Protocol) bool {
	k := fmt.Sprint(f.Addr, f.Port, proto)
	owner, taken := d.taken[k]
	if !taken {
		d.taken[k] = n
	}
	return !taken || owner == n && f.Kind != ir.NodePort
}

// service gives nil where there is no cluster IP left for it.
func (d drawer) service(n ir.PortName) *ir.ServicePort {
	s := &ir.ServicePort{PortName: n, Origin: ir.Origin{File: "in.yaml", Line: 1 + len(d.p.Services)}}
	s.InternalPolicy = pick(d, "internal policy", ir.Cluster, ir.Local)
	s.ExternalPolicy = pick(d, "external policy", ir.Cluster, ir.Local)
	d.frontends(s)
	if len(s.Frontends) == 0 || s.Frontends[0].Kind != ir.ClusterIP {
		return nil
	}
	if d.oneIn(3, "affinity") {
		s.AffinitySeconds = rapid.IntRange(1, 86400).Draw(d.T, "seconds")
	}
	s.Usable = !d.oneIn(4, "nothing usable")
	d.endpoints(s)
	if slices.ContainsFunc(s.Frontends, isLoadBalancer) {
		d.loadBalancer(s)
	}
	return s
}

func isLoadBalancer(f ir.Frontend) bool { return f.Kind == ir.LoadBalancer }

func (d drawer) frontends(s *ir.ServicePort) {
	port := pick[uint16](d, "port", 1, 80, 443, 30080, 31000, 65535)
	add := func(f ir.Frontend) {
		if d.claim(f, s.PortName, s.Protocol) {
			s.Frontends = append(s.Frontends, f)
		}
	}
	host := func(label string) int { return rapid.IntRange(1, 4).Draw(d.T, label) }
	add(ir.Frontend{Kind: ir.ClusterIP, Addr: Addr(d.p.Family, clusterIP, host("cluster IP")), Port: port})
	for range rapid.IntRange(0, 2).Draw(d.T, "external IPs") {
		net := pick(d, "external net", vips, nodes, clusterIP)
		add(ir.Frontend{Kind: ir.ExternalIP, Addr: Addr(d.p.Family, net, host("external IP")), Port: port})
	}
	for range rapid.IntRange(0, 2).Draw(d.T, "load balancer IPs") {
		net := pick(d, "load balancer net", vips, nodes, clusterIP)
		add(ir.Frontend{Kind: ir.LoadBalancer, Addr: Addr(d.p.Family, net, host("load balancer IP")), Port: port})
	}
	if d.coin("node port") {
		add(ir.Frontend{Kind: ir.NodePort, Port: pick[uint16](d, "number", 80, 30080, 30081, 30082, 32767)})
	}
}

// endpoints draws the lists that the policies lead to.
func (d drawer) endpoints(s *ir.ServicePort) {
	external := len(s.Frontends) > 1
	all := d.universe()
	if s.Usable && (s.InternalPolicy == ir.Cluster || external) {
		s.Cluster = d.subset("cluster", all, 1)
	}
	if s.Usable && (s.InternalPolicy == ir.Local || s.ExternalPolicy == ir.Local && external) {
		here := slices.DeleteFunc(slices.Clone(all), func(e ir.Endpoint) bool { return !e.Local })
		s.Local = d.subset("local", here, 0)
	}
	serving := append(s.Reachable()[:len(s.Reachable()):len(s.Reachable())], d.subset("also serving", all, 0)...)
	slices.SortFunc(serving, ir.CompareEndpoints)
	for _, e := range slices.Compact(serving) {
		s.Serving = append(s.Serving, e.AddrPort())
	}
}

// universe are the endpoints that a service port might have: pods here and
// elsewhere, some twice with two ports, some on the node's own address.
func (d drawer) universe() []ir.Endpoint {
	var all []ir.Endpoint
	for _, port := range []uint16{80, 8080} {
		for _, host := range []int{2, 10, 11} {
			all = append(all,
				ir.Endpoint{Addr: Addr(d.p.Family, podsHere, host), Port: port, Local: true},
				ir.Endpoint{Addr: Addr(d.p.Family, podsThere, host), Port: port})
		}
		all = append(all, ir.Endpoint{Addr: Addr(d.p.Family, nodes, 1), Port: port, Local: true},
			ir.Endpoint{Addr: Addr(d.p.Family, nodes, 2), Port: port})
	}
	slices.SortFunc(all, ir.CompareEndpoints)
	return all
}

// subset keeps the order.
func (d drawer) subset(label string, all []ir.Endpoint, least int) []ir.Endpoint {
	n := rapid.IntRange(least, min(5, len(all))).Draw(d.T, label)
	var out []ir.Endpoint
	for _, i := range rapid.SliceOfNDistinct(rapid.IntRange(0, len(all)-1), n, n, rapid.ID[int]).Draw(d.T, label+" which") {
		out = append(out, all[i])
	}
	slices.SortFunc(out, ir.CompareEndpoints)
	return out
}

// loadBalancer draws source ranges and a health-check node port.
func (d drawer) loadBalancer(s *ir.ServicePort) {
	if hc := pick[uint16](d, "health check", 0, 31000, 31001, 31002); s.ExternalPolicy == ir.Local && hc != 0 {
		if d.claim(ir.Frontend{Kind: ir.NodePort, Port: hc}, s.PortName, ir.TCP) {
			s.HealthCheckNodePort = hc
		}
	}
	if d.coin("everybody") {
		return
	}
	for range rapid.IntRange(1, 3).Draw(d.T, "ranges") {
		net := pick(d, "range net", clients, nodes, podsHere, vips)
		bits := pick(d, "range bits", 8, 24, 31, 32)
		if d.p.Family == ir.IPv6 {
			bits *= 4
		}
		p, _ := Addr(d.p.Family, net, 1).Prefix(bits)
		s.SourceRanges = append(s.SourceRanges, p)
		s.NodeAllowed = s.NodeAllowed || d.p.Node.IP.IsValid() && p.Contains(d.p.Node.IP)
	}
}
