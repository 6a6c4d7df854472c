package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"svcc/compiler"
	"svcc/golden/cluster"
	"svcc/ir"
)

const (
	leastServices = 10 // fewer may leave a mix without one to measure
	maxServices   = 100_000
	// withLarge is the number of Services from which a cluster has a large one
	// as well: below, it would be most of the cluster.
	withLarge = 1000
	largeName = "a-large" // comes before all others, so that "last" is not it
)

// Where packets come from and go to. Sources are pods, but no endpoints.
var (
	podRange  = netip.MustParsePrefix(cluster.PodCIDR)
	firstPod  = netip.MustParseAddr("10.128.0.1")
	firstUser = netip.MustParseAddr("10.192.0.1")
	firstVIP  = netip.MustParsePrefix(cluster.ServiceCIDR).Addr()
	vipBits   = 32 - netip.MustParsePrefix(cluster.ServiceCIDR).Bits()
	elsewhere = netip.MustParseAddrPort("203.0.113.9:8443") // in no range of a cluster
)

// plus is the address n behind a, in IPv4.
func plus(a netip.Addr, n uint32) netip.Addr {
	b := a.As4()
	be.PutUint32(b[:], be.Uint32(b[:])+n)
	return netip.AddrFrom4(b)
}

// uniform gives n equal ClusterIP Services, with addresses anywhere in the
// range as an API server allots them; and a large one if large is not 0.
func uniform(n, endpoints, large int, seed uint64) *ir.Program {
	p := &ir.Program{Family: ir.IPv4, Options: ir.Options{
		MasqueradeMark: 1 << 14, LocalhostNodePorts: true, DropInvalid: true,
		NodePorts: ir.NodePortAddresses{All: true},
		Pods:      ir.Detector{Kind: ir.DetectCIDR, Prefix: podRange},
	}}
	random := rand.New(rand.NewPCG(seed, uint64(n)))
	used := map[uint32]bool{0: true}
	add := func(name string, size int) {
		at := uint32(0)
		for used[at] {
			at = random.Uint32N(1 << vipBits)
		}
		used[at] = true
		p.Services = append(p.Services, clusterIP(name, plus(firstVIP, at), plus(firstPod, uint32(p.Known)), size))
		p.Known += size
	}
	if large > 0 {
		add(largeName, large)
	}
	for i := range n {
		add(fmt.Sprintf("svc-%06d", i), endpoints)
	}
	return p
}

// clusterIP is a Service whose endpoints have consecutive addresses.
func clusterIP(name string, vip, pod netip.Addr, size int) *ir.ServicePort {
	s := &ir.ServicePort{
		PortName:  ir.PortName{Namespace: "bench", Name: name, Port: "http", Protocol: ir.TCP},
		Frontends: []ir.Frontend{{Kind: ir.ClusterIP, Addr: vip, Port: 80}},
		Usable:    true,
	}
	for i := range size {
		s.Cluster = append(s.Cluster, ir.Endpoint{Addr: plus(pod, uint32(i)), Port: 8080})
	}
	slices.SortFunc(s.Cluster, ir.CompareEndpoints)
	for _, e := range s.Cluster {
		s.Serving = append(s.Serving, e.AddrPort())
	}
	return s
}

// mixed gives a generated cluster as package cluster makes it.
func mixed(dir string, n, endpoints int, seed uint64) (*ir.Program, error) {
	dir = filepath.Join(dir, fmt.Sprint("cluster-", n))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	g := cluster.Options{Services: n, EndpointsPerService: float64(endpoints), Seed: seed}
	if err := g.Check(); err != nil {
		return nil, err
	}
	if err := cluster.Generate(g).WriteYAML(dir); err != nil {
		return nil, err
	}
	o := compiler.NewOptions()
	o.Paths, o.Level, o.NoProof, o.Families = []string{dir}, 0, true, []ir.Family{ir.IPv4}
	node, pods := "node-0", cluster.PodCIDR
	o.Flags.Node, o.Flags.ClusterCIDR = &node, &pods
	r, err := compiler.Compile(o, nil)
	if err != nil {
		return nil, err
	}
	if len(r.Units) != 1 {
		return nil, errors.New("the generated cluster does not compile")
	}
	return r.Units[0].Program, nil
}

// plain lists the destinations that layouts can be compared by: ClusterIPs over
// TCP, with endpoints, without affinity, in the order of the Program.
func plain(p *ir.Program) []netip.AddrPort {
	var out []netip.AddrPort
	for _, s := range p.Services {
		f := s.Frontends[0]
		if f.Kind == ir.ClusterIP && s.Protocol == ir.TCP && s.Name != largeName &&
			s.InternalPolicy == ir.Cluster && len(s.Cluster) > 0 && s.AffinitySeconds == 0 {
			out = append(out, netip.AddrPortFrom(f.Addr, f.Port))
		}
	}
	return out
}

// unused is an address that no Service has, next to one that some Service has.
func unused(p *ir.Program, next netip.Addr) netip.AddrPort {
	taken := map[netip.Addr]bool{}
	for _, s := range p.Services {
		for _, f := range s.Frontends {
			taken[f.Addr] = true
		}
	}
	for taken[next] {
		next = next.Next()
	}
	return netip.AddrPortFrom(next, 80)
}
