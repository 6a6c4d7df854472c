package conntrack_test

import (
	"context"
	"net/netip"
	"testing"

	"svcc/apply/conntrack"
	"svcc/ir"
)

// large is 10,000 UDP service ports with five endpoints each, and 100,000
// flows to them, every tenth of them stale.
func large() (*ir.Program, *fake) {
	p, f := program(), &fake{local: nodeAddrs}
	for i := range 10_000 {
		vip := netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)})
		s := &ir.ServicePort{PortName: ir.PortName{Protocol: ir.UDP}, Frontends: []ir.Frontend{
			{Kind: ir.ClusterIP, Addr: vip, Port: 53}, {Kind: ir.NodePort, Port: uint16(30000 + i)},
		}}
		for k := range 5 {
			s.Serving = append(s.Serving, netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(128 + k), byte(i >> 8), byte(i)}), 53))
		}
		for k := range 10 {
			e := conntrack.Entry{Protocol: ir.UDP, Dst: netip.AddrPortFrom(vip, 53), ReplySrc: s.Serving[k%5], ID: uint32(10*i + k)}
			if k == 0 {
				e.ReplySrc = netip.AddrPortFrom(vip, 1)
			}
			f.entries = append(f.entries, e)
		}
		p.Services = append(p.Services, s)
	}
	return p, f
}

// One listing however many services and flows there are
// (kubernetes#129982); BenchmarkClean says how long it takes.
func TestCleanScales(t *testing.T) {
	p, f := large()
	r, err := conntrack.Clean(context.Background(), f, of(p), of(p), true)
	if err != nil || len(r.Stale) != 10_000 {
		t.Fatalf("%d stale flows, %v; want 10000", len(r.Stale), err)
	}
	if f.listings != 1 || r.Listed != 100_000 {
		t.Errorf("%d listings, of %d entries", f.listings, r.Listed)
	}
}

func BenchmarkClean(b *testing.B) {
	p, f := large()
	for b.Loop() {
		if _, err := conntrack.Clean(context.Background(), f, of(p), of(p), true); err != nil {
			b.Fatal(err)
		}
	}
}
