package ir_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"svcc/compiler/lower"
	"svcc/ir"
	"svcc/ir/irtest"
)

// Each invariant of a Program, broken once.
func TestCheckProgram(t *testing.T) {
	six := netip.MustParseAddr("2001:db8::1")
	for _, c := range []struct {
		want   string // in the error
		damage func(p *ir.Program, s *ir.ServicePort)
	}{
		{"mark 0x0 is not one bit", func(p *ir.Program, _ *ir.ServicePort) { p.Options.MasqueradeMark = 0 }},
		{"mark 0x6000 is not one bit", func(p *ir.Program, _ *ir.ServicePort) { p.Options.MasqueradeMark = 0x6000 }},
		{"localhost node ports", func(p *ir.Program, _ *ir.ServicePort) { p.Family = ir.IPv6 }},
		{"pod range 2001:db8::/64 is not ipv4", func(p *ir.Program, _ *ir.ServicePort) {
			p.Options.Pods.Prefix = netip.MustParsePrefix("2001:db8::/64")
		}},
		{"at all addresses and at some", func(p *ir.Program, _ *ir.ServicePort) { p.Options.NodePorts.Addrs = []netip.Addr{p.Node.IP} }},
		{"at all addresses and at some", func(p *ir.Program, _ *ir.ServicePort) {
			p.Options.NodePorts.Prefixes = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
		}},
		{"does not come after", func(p *ir.Program, s *ir.ServicePort) { p.Services = append(p.Services, s) }},
		{"does not come after", func(p *ir.Program, s *ir.ServicePort) {
			before := *s
			before.Name = "a"
			p.Services = append(p.Services, &before)
		}},
		{"frontend cluster-ip after node-port", func(_ *ir.Program, s *ir.ServicePort) { s.Frontends = append(s.Frontends, s.Frontends[0]) }},
		{"port 0 is not sound", func(_ *ir.Program, s *ir.ServicePort) { s.Frontends[0].Port = 0 }},
		{"is not sound", func(_ *ir.Program, s *ir.ServicePort) { s.Frontends[0].Addr = six }},
		{"is not sound", func(_ *ir.Program, s *ir.ServicePort) { s.Frontends[0].Addr = netip.Addr{} }},
		{"is not sound", func(_ *ir.Program, s *ir.ServicePort) { s.Frontends[2].Addr = s.Frontends[0].Addr }},
		{"out of order", func(_ *ir.Program, s *ir.ServicePort) { s.Cluster[0], s.Cluster[1] = s.Cluster[1], s.Cluster[0] }},
		{"endpoint 10.244.1.6:8443 is not sound", func(_ *ir.Program, s *ir.ServicePort) { s.Cluster[1] = s.Cluster[0] }},
		{"10.244.1.6:0 is not sound", func(_ *ir.Program, s *ir.ServicePort) { s.Local[0].Port = 0 }},
		{"is not sound", func(_ *ir.Program, s *ir.ServicePort) { s.Local[0].Addr = six }},
		{"no frontend", func(_ *ir.Program, s *ir.ServicePort) { s.Frontends = nil }},
		{"none to use", func(_ *ir.Program, s *ir.ServicePort) { s.Usable = false }},
		{"nothing for pods to reach", func(_ *ir.Program, s *ir.ServicePort) { s.Cluster = nil }},
		{"affinity of -1", func(_ *ir.Program, s *ir.ServicePort) { s.AffinitySeconds = -1 }},
		{"elsewhere in the local list", func(_ *ir.Program, s *ir.ServicePort) { s.Local = s.Cluster[1:] }},
	} {
		p := irtest.Shop()
		if err := p.Check(); err != nil {
			t.Fatal(err)
		}
		c.damage(p, p.Services[0])
		if err := p.Check(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want one with %q", err, c.want)
		}
	}
}

// Each invariant of a node with virtual servers, broken once.
func TestCheckVirtual(t *testing.T) {
	ten, two := netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2.0.0.0/8")
	for _, c := range []struct {
		want   string
		damage func(o *ir.Options, v *ir.Virtual)
	}{
		{"scheduler \"xx\" does not exist", func(_ *ir.Options, v *ir.Virtual) { v.Scheduler = "xx" }},
		{"that are not ipv4", func(_ *ir.Options, v *ir.Virtual) { v.Own[1] = netip.MustParseAddr("2001:db8::1") }},
		{"that are not ipv4", func(_ *ir.Options, v *ir.Virtual) { v.Exclude[1] = netip.MustParsePrefix("2001:db8::/64") }},
		{"own addresses are out of order", func(_ *ir.Options, v *ir.Virtual) { slices.Reverse(v.Own) }},
		{"to leave are out of order", func(_ *ir.Options, v *ir.Virtual) { slices.Reverse(v.Exclude) }},
		{"not at single addresses", func(o *ir.Options, _ *ir.Virtual) { o.NodePorts.All = true }},
		{"not at single addresses", func(o *ir.Options, _ *ir.Virtual) { o.NodePorts.Prefixes = []netip.Prefix{ten} }},
		{"not at single addresses", func(o *ir.Options, _ *ir.Virtual) { o.LocalhostNodePorts = true }},
		{"timeout of virtual servers is negative", func(_ *ir.Options, v *ir.Virtual) { v.UDPTimeout = -1 }},
	} {
		p := irtest.Shop()
		o := &p.Options
		o.NodePorts, o.LocalhostNodePorts = ir.NodePortAddresses{}, false
		o.Virtual = &ir.Virtual{
			Scheduler: "rr", Exclude: []netip.Prefix{ten, two},
			Own: []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.10")},
		}
		if err := p.Check(); err != nil {
			t.Fatal(err)
		}
		c.damage(o, o.Virtual)
		if err := p.Check(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want one with %q", err, c.want)
		}
	}
}

// Each invariant of a Graph, broken once.
func TestCheckGraph(t *testing.T) {
	entry := func(g *ir.Graph, i int) *ir.Guard { return g.Entries[i].Next.(*ir.Guard) }
	for _, c := range []struct {
		want   string
		damage func(g *ir.Graph)
	}{
		{"claim one destination", func(g *ir.Graph) {
			other := *g.Entries[0]
			other.Service.Name = "other"
			g.Entries = append(g.Entries, &other)
		}},
		{"leads nowhere", func(g *ir.Graph) { g.Entries[2].Next = nil }},
		{"leads nowhere", func(g *ir.Graph) { entry(g, 0).Then = nil }},
		{"leads nowhere", func(g *ir.Graph) { entry(g, 1).Else = nil }},
		{"leads nowhere", func(g *ir.Graph) { entry(g, 0).Else.(*ir.Masquerade).Next = nil }},
		{"back to itself", func(g *ir.Graph) { m := entry(g, 0).Else.(*ir.Masquerade); m.Next = m }},
		{"back to itself", func(g *ir.Graph) { e := entry(g, 0); e.Then = e }},
		{"back to itself", func(g *ir.Graph) { e := entry(g, 0); e.Then, e.Else = e, e }},
		{"without endpoints", func(g *ir.Graph) { entry(g, 0).Then.(*ir.Balance).Endpoints = nil }},
		{"without a reason", func(g *ir.Graph) { entry(g, 1).Else = &ir.Refuse{} }},
	} {
		g := lower.Lower(irtest.Shop())
		if err := g.Check(); err != nil {
			t.Fatal(err)
		}
		c.damage(g)
		if err := g.Check(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want one with %q", err, c.want)
		}
	}
}

// Of two entries of one service port at one destination the first that leads to an
// endpoint decides.
func TestDeciding(t *testing.T) {
	g := lower.Lower(irtest.Shop())
	again, refused := *g.Entries[0], *g.Entries[0]
	again.Kind, refused.Next = ir.ExternalIP, &ir.Refuse{Reason: ir.NoLocalEndpoints}
	for _, c := range []struct{ first, second, want *ir.Entry }{
		{g.Entries[0], &again, g.Entries[0]},
		{&refused, &again, &again},
		{&refused, &refused, &refused},
	} {
		g.Entries = []*ir.Entry{c.first, c.second}
		if err := g.Check(); err != nil {
			t.Fatal(err)
		}
		if got := g.Deciding(); len(got) != 1 || got[0] != c.want {
			t.Errorf("%d entries decide, not the one that delivers first", len(got))
		}
	}
}

// One address may be claimed by two protocols.
func TestCheckGraphProtocols(t *testing.T) {
	p := irtest.Shop()
	udp := *p.Services[0]
	udp.Protocol = ir.UDP
	p.Services = append(p.Services, &udp)
	if err := lower.Lower(p).Check(); err != nil {
		t.Error(err)
	}
}
