package ir_test

import (
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"svcc/compiler/lower"
	"svcc/ir"
	"svcc/ir/irtest"
)

// The golden text is written by hand after the form that documents promise.
func TestPrint(t *testing.T) {
	want, err := os.ReadFile("testdata/shop.txt")
	if err != nil {
		t.Fatal(err)
	}
	p := irtest.Shop()
	var got strings.Builder
	if err := p.Print(&got, true); err != nil {
		t.Fatal(err)
	}
	if err := lower.Lower(p).Print(&got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got.String()); d != "" {
		t.Errorf("want -, got +:\n%s", d)
	}
}

func TestPrintLeavesOriginsOut(t *testing.T) {
	var b strings.Builder
	if err := irtest.Shop().Print(&b, false); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "services.yaml") || !strings.Contains(b.String(), "\n  demo/shop:https/tcp\n") {
		t.Errorf("text with an origin:\n%s", b.String())
	}
}

// What the shop does not have, line by line.
func TestPrintLines(t *testing.T) {
	a := func(s string) netip.Addr { return netip.MustParseAddr(s) }
	one := ir.Endpoint{Addr: a("fd00::1"), Port: 80, Local: true}
	two := ir.Endpoint{Addr: a("fd00::2"), Port: 80, Local: true}
	far := ir.Endpoint{Addr: a("fd00::3"), Port: 80}
	s := &ir.ServicePort{
		PortName:        ir.PortName{Namespace: "n", Name: "s", Protocol: ir.SCTP},
		Frontends:       []ir.Frontend{{Kind: ir.ClusterIP, Addr: a("fd00::a"), Port: 5}},
		InternalPolicy:  ir.Local,
		Usable:          true,
		AffinitySeconds: 60,
	}
	p := &ir.Program{
		Family:   ir.IPv6,
		Node:     ir.Node{Name: "n1", Zone: "east"},
		Services: []*ir.ServicePort{s},
		Options:  ir.Options{MasqueradeMark: 1, MasqueradeAll: true},
	}
	for _, c := range []struct {
		name   string
		change func()
		want   []string
	}{
		{"nothing here", func() {}, []string{
			"program ipv6 n1 zone east", "  mark 0x1  masquerade all", "  pods not recognised", "  node ports at no address", "  known endpoints 0", "  n/s/sctp",
			"    cluster-ip    [fd00::a]:5                          policy local", "    endpoints     none here", "    affinity      60 s"}},
		{"nothing at all", func() { s.Usable = false }, []string{"    endpoints     none"}},
		{"each list", func() { s.Usable, s.Cluster, s.Local = true, []ir.Endpoint{one, far}, []ir.Endpoint{two} },
			[]string{"    endpoints     [fd00::1]:80 local but cluster only, [fd00::2]:80 local only, [fd00::3]:80",
				"    not serving   [fd00::1]:80 [fd00::2]:80 [fd00::3]:80"}},
		{"serving", func() { s.Serving = []netip.AddrPort{one.AddrPort(), netip.AddrPortFrom(a("fd00::9"), 80)} },
			[]string{"    also serving  [fd00::9]:80"}},
		{"bridge", func() { p.Options.Pods = ir.Detector{Kind: ir.DetectBridge, Interface: "br0"} }, []string{"  pods by interface br0"}},
		{"prefix", func() { p.Options.Pods = ir.Detector{Kind: ir.DetectInterface, Interface: "veth"} }, []string{"  pods by interfaces veth*"}},
		{"addresses", func() {
			p.Options.NodePorts = ir.NodePortAddresses{Addrs: []netip.Addr{a("fd00::7")}, Prefixes: []netip.Prefix{netip.MustParsePrefix("fd01::/64")}}
		}, []string{"  node ports at fd00::7, local addresses in fd01::/64"}},
	} {
		c.change()
		var b strings.Builder
		if err := p.Print(&b, false); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(b.String(), "\n")
		for _, w := range c.want {
			if !contains(lines, w) {
				t.Errorf("%s: no line %q in\n%s", c.name, w, b.String())
			}
		}
	}
}

func contains(lines []string, line string) bool {
	for _, l := range lines {
		if l == line {
			return true
		}
	}
	return false
}

// Refusals are written where they are met, and each balance once.
func TestPrintGraphRefusals(t *testing.T) {
	p := irtest.Shop()
	s := p.Services[0]
	s.Local, s.HealthCheckNodePort, s.AffinitySeconds = nil, 0, 5
	empty := *s
	empty.Name, empty.Usable, empty.Cluster, empty.Serving = "zero", false, nil, nil
	empty.Frontends = []ir.Frontend{{Kind: ir.ClusterIP, Addr: netip.MustParseAddr("10.96.0.99"), Port: 1}}
	p.Services = append(p.Services, &empty)
	var b strings.Builder
	if err := lower.Lower(p).Print(&b); err != nil {
		t.Fatal(err)
	}
	for _, w := range []string{"else drop (no local endpoints)", "reject (no endpoints)", "sticky 5 s"} {
		if strings.Count(b.String(), w) != 1 {
			t.Errorf("not exactly one %q in\n%s", w, b.String())
		}
	}
}
