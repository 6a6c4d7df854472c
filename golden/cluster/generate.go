package cluster

import (
	"math"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
)

// Generate makes the cluster that the options describe. It panics if Check
// has something to say about them.
func Generate(o Options) *Cluster {
	if err := o.Check(); err != nil {
		panic("cluster: " + err.Error())
	}
	g := newGenerator(o.withDefaults())
	g.addNodes()
	for i, k := range g.deck(g.Options.Services, kindWeights()) {
		g.addService(i, &kinds[k])
	}
	return &g.out
}

// generator is a cluster in the making.
type generator struct {
	draw
	Options
	out       Cluster
	counts    []int   // of endpoints, by Service, if its kind has any
	nodePorts []int32 // those still free, in the order of allocation
	portShare float64 // of the Services that want node ports, those that get them
	balancers pool    // addresses of load balancers
	externals pool    // of spec.externalIPs
	clusterIP pool
	podBits   int      // host bits of a node's IPv4 pod range
	podsOn    []uint64 // by node: how many pods it runs
}

// The default range for node ports, and how many of them a Service takes on
// average if its kind has any (ports, and one for health checks at times).
const (
	firstNodePort    = 30000
	lastNodePort     = 32767
	portsPerNodeKind = 1.7
)

func newGenerator(o Options) *generator {
	g := &generator{
		draw:      newDraw(o.Seed),
		Options:   o,
		balancers: newPool(BalancerCIDR, BalancerCIDR6),
		externals: newPool(ExternalCIDR, ExternalCIDR6),
		clusterIP: newPool(ServiceCIDR, ServiceCIDR6),
	}
	g.counts = g.sizes(o.Services, o.EndpointsPerService)
	for _, p := range g.Perm(lastNodePort - firstNodePort + 1) {
		g.nodePorts = append(g.nodePorts, int32(firstNodePort+p))
	}
	wanted := float64(o.Services) * nodePortKinds() * portsPerNodeKind
	g.portShare = math.Min(1, float64(len(g.nodePorts))/math.Max(wanted, 1))
	return g
}

// takeNodePort gives a free node port, or 0 when none is left.
func (g *generator) takeNodePort() int32 {
	if len(g.nodePorts) == 0 {
		return 0
	}
	p := g.nodePorts[0]
	g.nodePorts = g.nodePorts[1:]
	return p
}

// pool hands out the addresses of a range and its IPv6 twin, each number once.
type pool struct {
	base, base6 netip.Addr
	size, next  uint64
}

// poolStride is coprime to every pool's size, so that walking a pool by it
// meets all of its addresses, far apart, as random allocation does.
const poolStride = 48271

// firstHost leaves room for the addresses that clusters reserve.
const firstHost = 16

func newPool(cidr, cidr6 string) pool {
	p, p6 := netip.MustParsePrefix(cidr), netip.MustParsePrefix(cidr6)
	return pool{base: p.Addr(), base6: p6.Addr(), size: 1<<(32-p.Bits()) - 2*firstHost}
}

// take gives the next address of either family; both have the same number.
func (p *pool) take() (v4, v6 netip.Addr) {
	host := firstHost + p.next*poolStride%p.size
	p.next++
	return plus(p.base, host), plus(p.base6, host)
}

// plus adds a number to an address.
func plus(a netip.Addr, n uint64) netip.Addr {
	b := a.AsSlice()
	for i := len(b) - 1; n > 0 && i >= 0; i-- {
		n += uint64(b[i])
		b[i] = byte(n)
		n >>= 8
	}
	out, _ := netip.AddrFromSlice(b)
	return out
}

// families gives the families of one Service, as its spec lists them.
func (g *generator) families() []corev1.IPFamily {
	if g.chance(g.DualStack) {
		return []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
	}
	return []corev1.IPFamily{corev1.IPv4Protocol}
}
