package irtest

import (
	"math/rand/v2"
	"slices"
	"testing"

	"svcc/ir"
)

// Clusters are sound, the same for the same dice, and hold what they are made
// to hold.
func TestClustersAreSound(t *testing.T) {
	var shared, crowded, own, onNode, amidst int
	for seed := range uint64(60) {
		f := ir.Families[seed%2]
		n := []int{0, 1, 50, 300}[seed%4]
		p := Cluster(rand.New(rand.NewPCG(seed, 0)), f, n)
		if err := p.Check(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if q := Cluster(rand.New(rand.NewPCG(seed, 0)), f, n); !slices.EqualFunc(p.Services, q.Services, func(a, b *ir.ServicePort) bool {
			return a.PortName == b.PortName && slices.Equal(a.Frontends, b.Frontends) && slices.Equal(a.Cluster, b.Cluster)
		}) {
			t.Fatalf("seed %d: two runs differ", seed)
		}
		lists, ports, ips := map[*ir.Endpoint]int{}, map[string]int{}, map[string]bool{}
		for _, s := range p.Services {
			for _, x := range s.Frontends {
				ports[x.Addr.String()]++
				if x.Kind == ir.ClusterIP {
					ips[x.Addr.String()] = true
				}
			}
		}
		for _, s := range p.Services {
			if len(s.Cluster) > 0 {
				if lists[&s.Cluster[0]]++; lists[&s.Cluster[0]] > 1 {
					shared++
				}
			}
			for _, e := range s.Cluster {
				if e.Addr == p.Node.IP {
					own++
				}
			}
			for _, x := range s.Frontends[1:] {
				if x.Addr == p.Node.IP {
					onNode++
				}
				if ips[x.Addr.String()] {
					amidst++
				}
			}
		}
		for a, n := range ports {
			if a != "invalid IP" && n > 100 {
				crowded++
			}
		}
	}
	for what, n := range map[string]int{"shared lists": shared, "crowded addresses": crowded, "endpoints on the node": own, "frontends on the node": onNode, "external addresses that are ClusterIPs": amidst} {
		if n == 0 {
			t.Errorf("no %s", what)
		}
	}
}
