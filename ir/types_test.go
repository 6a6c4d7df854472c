package ir

import (
	"net/netip"
	"testing"

	"pgregory.net/rapid"
)

// Order is by the display name bytewise, then by the protocol's name: '-' and
// '/' come before ':', so a longer name can come before a shorter one's port.
func TestPortNameOrder(t *testing.T) {
	sorted := []PortName{
		{"a-b", "a", "", TCP}, // "a-" comes before "a/"
		{"a", "x", "", SCTP},
		{"a", "x", "", TCP},
		{"a", "x", "", UDP},
		{"a", "x-y", "", TCP},
		{"a", "x-y", "http", TCP},
		{"a", "x", "b", TCP}, // "a/x:b"
		{"a", "x", "b", UDP},
		{"a", "xa", "", TCP},
		{"b", "a", "", TCP},
	}
	for i, a := range sorted {
		for j, b := range sorted {
			want := 0
			if i < j {
				want = -1
			} else if i > j {
				want = 1
			}
			if got := a.Compare(b); got != want {
				t.Errorf("%s against %s: %d, want %d", a, b, got, want)
			}
		}
	}
}

func TestPortNameTexts(t *testing.T) {
	n := PortName{"demo", "web", "http", TCP}
	if n.Service() != "demo/web" || n.Display() != "demo/web:http" || n.String() != "demo/web:http/tcp" {
		t.Error(n.Service(), n.Display(), n)
	}
	n.Port = ""
	if n.Display() != "demo/web" || n.String() != "demo/web/tcp" {
		t.Error(n.Display(), n)
	}
}

func TestFamilies(t *testing.T) {
	four, six, mapped := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("::ffff:192.0.2.1")
	for _, c := range []struct {
		a      netip.Addr
		v4, v6 bool
	}{{four, true, false}, {six, false, true}, {mapped, false, false}, {netip.Addr{}, false, false}} {
		if IPv4.Of(c.a) != c.v4 || IPv6.Of(c.a) != c.v6 {
			t.Errorf("%s: of IPv4 %v, of IPv6 %v", c.a, IPv4.Of(c.a), IPv6.Of(c.a))
		}
	}
	if FamilyOf(four) != IPv4 || FamilyOf(six) != IPv6 || FamilyOf(mapped) != IPv4 {
		t.Error("FamilyOf")
	}
	if IPv4.Loopback().String() != "127.0.0.0/8" || IPv6.Loopback().String() != "::1/128" {
		t.Error("Loopback")
	}
	for _, f := range Families {
		if g, err := ParseFamily(f.String()); err != nil || g != f {
			t.Errorf("%s parses as %s, %v", f, g, err)
		}
	}
	if _, err := ParseFamily("IPv4"); err == nil {
		t.Error("IPv4 in capitals is a family")
	}
}

func TestProtocols(t *testing.T) {
	for text, want := range map[string]Protocol{"TCP": 6, "udp": 17, "Sctp": 132} {
		if p, err := ParseProtocol(text); err != nil || p != want {
			t.Errorf("%s parses as %d, %v", text, p, err)
		}
	}
	for _, bad := range []string{"", "icmp", "tcp "} {
		if _, err := ParseProtocol(bad); err == nil {
			t.Errorf("%q is a protocol", bad)
		}
	}
	if s := Protocol(1).String(); s != "protocol-1" {
		t.Error(s)
	}
}

func TestDetector(t *testing.T) {
	in, out := netip.MustParseAddr("10.244.1.1"), netip.MustParseAddr("10.245.0.0")
	for _, c := range []struct {
		d    Detector
		src  netip.Addr
		in   string
		want bool
	}{
		{Detector{}, in, "cbr0", false},
		{Detector{Kind: DetectCIDR, Prefix: netip.MustParsePrefix("10.244.0.0/16")}, in, "", true},
		{Detector{Kind: DetectCIDR, Prefix: netip.MustParsePrefix("10.244.0.0/16")}, out, "cbr0", false},
		{Detector{Kind: DetectBridge, Interface: "cbr0"}, out, "cbr0", true},
		{Detector{Kind: DetectBridge, Interface: "cbr0"}, in, "cbr01", false},
		{Detector{Kind: DetectBridge, Interface: "cbr0"}, in, "", false},
		{Detector{Kind: DetectInterface, Interface: "veth"}, out, "veth1a", true},
		{Detector{Kind: DetectInterface, Interface: "veth"}, out, "veth", true},
		{Detector{Kind: DetectInterface, Interface: "veth"}, in, "vet", false},
	} {
		if got := c.d.Match(c.src, c.in); got != c.want {
			t.Errorf("%v on %s in %q: %v", c.d, c.src, c.in, got)
		}
	}
}

func TestAllowedSources(t *testing.T) {
	r := netip.MustParsePrefix("192.0.2.0/24")
	s := &ServicePort{Frontends: []Frontend{
		{ClusterIP, netip.MustParseAddr("10.96.0.1"), 80},
		{ExternalIP, netip.MustParseAddr("203.0.113.1"), 80},
		{LoadBalancer, netip.MustParseAddr("203.0.113.2"), 80},
		{LoadBalancer, netip.MustParseAddr("203.0.113.3"), 80},
	}}
	if got := s.AllowedSources(); got != nil {
		t.Errorf("without ranges %v may come", got)
	}
	s.NodeAllowed = true
	if got := s.AllowedSources(); got != nil {
		t.Errorf("without ranges %v may come", got)
	}
	s.SourceRanges, s.NodeAllowed = []netip.Prefix{r}, false
	if got := join(s.AllowedSources()); got != "192.0.2.0/24" {
		t.Error(got)
	}
	s.NodeAllowed = true
	if got := join(s.AllowedSources()); got != "192.0.2.0/24 203.0.113.2/32 203.0.113.3/32" {
		t.Error(got)
	}
	if len(s.SourceRanges) != 1 {
		t.Error("the ranges have grown")
	}
}

// Reachable is the union as a set, in order, each address and port once.
func TestReachable(t *testing.T) {
	endpoint := rapid.Custom(func(t *rapid.T) Endpoint {
		host := rapid.ByteRange(0, 12).Draw(t, "host")
		return Endpoint{Addr: netip.AddrFrom4([4]byte{10, 0, 0, host}), Port: rapid.SampledFrom([]uint16{8, 80}).Draw(t, "port"), Local: true}
	})
	list := rapid.SliceOfNDistinct(endpoint, 0, 10, rapid.ID[Endpoint])
	rapid.Check(t, func(t *rapid.T) {
		s := &ServicePort{Cluster: sorted(list.Draw(t, "cluster")), Local: sorted(list.Draw(t, "local"))}
		want := map[Endpoint]bool{}
		for _, e := range append(append([]Endpoint{}, s.Cluster...), s.Local...) {
			want[e] = true
		}
		got := s.Reachable()
		for i, e := range got {
			if !want[e] {
				t.Errorf("%s is in neither list", e)
			}
			if i > 0 && got[i-1].String() >= e.String() {
				t.Errorf("%s before %s", got[i-1], e)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%d endpoints of %d", len(got), len(want))
		}
	})
}

func sorted(list []Endpoint) []Endpoint {
	for i := range list {
		for j := i; j > 0 && list[j].String() < list[j-1].String(); j-- {
			list[j], list[j-1] = list[j-1], list[j]
		}
	}
	return list
}

func TestPolicies(t *testing.T) {
	here := []Endpoint{{Addr: netip.MustParseAddr("10.0.0.1"), Port: 1, Local: true}}
	s := &ServicePort{InternalPolicy: Local, Local: here}
	if s.Policy(ClusterIP) != Local || s.Policy(NodePort) != Cluster || s.Policy(ExternalIP) != Cluster || s.Policy(LoadBalancer) != Cluster {
		t.Error("the internal policy is for ClusterIP alone")
	}
	if len(s.Endpoints(Local)) != 1 || len(s.Endpoints(Cluster)) != 0 {
		t.Error("Endpoints")
	}
}
