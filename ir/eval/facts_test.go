package eval_test

import (
	"net/netip"
	"testing"

	"svcc/ir"
	"svcc/ir/eval"
)

// The mark: one bit is set for masquerading and cleared when that is done;
// the others stay.
func TestMarks(t *testing.T) {
	p, _ := world()
	packet := sent(strangerIP, clusterIP+":80")
	packet.Mark = 0x80000001
	for _, b := range outcomes(t, p, packet) {
		if b.Mark != 0x80000001 || !b.Masquerade {
			t.Errorf("%s", b)
		}
	}
	// A foreign mark is masqueraded like ours, whatever its destination.
	stray := sent(strangerIP, "203.0.113.77:80")
	stray.Mark = 0x4000
	if b := outcomes(t, p, stray)[0]; !b.Masquerade || b.Mark != 0 || b.DNAT {
		t.Errorf("%s", b)
	}
	// What is delivered never meets POSTROUTING, so it keeps its mark.
	stray.Dst = netip.MustParseAddrPort(nodeIP + ":22")
	if b := outcomes(t, p, stray)[0]; b.Masquerade || b.Mark != 0x4000 {
		t.Errorf("%s", b)
	}
	// nat sees the first packet of a flow only.
	stray.Dst, stray.State = netip.MustParseAddrPort("203.0.113.77:80"), eval.Established
	if b := outcomes(t, p, stray)[0]; b.Masquerade || b.Mark != 0x4000 {
		t.Errorf("%s", b)
	}
}

// An endpoint that gets its own connection back is masqueraded, wherever it
// is; of two endpoints only the one that is the client.
func TestHairpin(t *testing.T) {
	p, _ := world()
	for _, from := range []string{here, there} {
		a := netip.MustParseAddrPort(from).Addr().String()
		for _, b := range outcomes(t, p, sent(a, clusterIP+":80")) {
			if b.Masquerade != (b.To.String() == from) {
				t.Errorf("from %s: %s", a, b)
			}
		}
	}
}

// Only what DNAT brought to 127.0.0.0/8 may come there from elsewhere.
func TestMartianByDNAT(t *testing.T) {
	p, s := world()
	s.Cluster = []ir.Endpoint{endpoint("127.0.0.1:8080", true)}
	if got := hooks(outcomes(t, p, sent(strangerIP, clusterIP+":80"))); got != "- - policy" {
		t.Error(got)
	}
}

func TestAffinity(t *testing.T) {
	p, s := world()
	s.AffinitySeconds = 60
	packet := sent(podIP, clusterIP+":80")
	for _, b := range outcomes(t, p, packet) {
		if b.Sticky != 60 || b.Share != eval.OneIn(2) {
			t.Errorf("%s", b)
		}
	}
	packet.Remembered = netip.MustParseAddrPort(there)
	if o := outcomes(t, p, packet); len(o) != 1 || o[0].To.String() != there || o[0].Share != eval.Whole || o[0].Sticky != 60 {
		t.Errorf("remembered: %s", o)
	}
	packet.Remembered = netip.MustParseAddrPort("10.244.9.9:8080")
	if o := outcomes(t, p, packet); len(o) != 2 {
		t.Errorf("an endpoint that is gone is remembered: %s", o)
	}
	// Policy Local holds a client off what it remembers elsewhere.
	s.InternalPolicy = ir.Local
	packet.Remembered = netip.MustParseAddrPort(there)
	if o := outcomes(t, p, packet); len(o) != 1 || o[0].To.String() != here {
		t.Errorf("policy Local: %s", o)
	}
	// Without affinity nothing is remembered.
	s.InternalPolicy, s.AffinitySeconds = ir.Cluster, 0
	if o := outcomes(t, p, packet); len(o) != 2 || o[0].Sticky != 0 {
		t.Errorf("without affinity: %s", o)
	}
}

// Source ranges guard the load balancer's address alone; the node may come if
// a range holds it, and then that address may as well.
func TestSourceRanges(t *testing.T) {
	p, s := world()
	s.SourceRanges = []netip.Prefix{netip.MustParsePrefix("198.51.100.64/28"), netip.MustParsePrefix("10.244.1.0/24")}
	for _, c := range []struct{ from, want string }{
		{"198.51.100.63", "drop"}, {"198.51.100.64", "cM"}, {"198.51.100.79", "cM"}, {"198.51.100.80", "drop"},
		{podIP, "cM"}, {nodeIP, "drop"}, {balancerIP, "drop"},
	} {
		if got := fate(outcomes(t, p, sent(c.from, balancerIP+":80"))); got != c.want {
			t.Errorf("from %s: %s, want %s", c.from, got, c.want)
		}
		for _, to := range []string{externalIP + ":80", nodeIP + ":30080"} {
			if got := fate(outcomes(t, p, sent(c.from, to))); got != "cM" {
				t.Errorf("from %s to %s: %s, want cM", c.from, to, got)
			}
		}
	}
	s.SourceRanges, s.NodeAllowed = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}, true
	own := sent(balancerIP, balancerIP+":80")
	own.In = ""
	if got := fate(outcomes(t, p, own, balancerIP)); got != "cM" {
		t.Errorf("from the address itself: %s", got)
	}
	if got := fates(t, p, balancerIP+":80"); got != "drop cM drop" {
		t.Errorf("ranges with the node: %s", got)
	}
	s.ExternalPolicy = ir.Local
	if got := fates(t, p, balancerIP+":80"); got != "drop cM drop" {
		t.Errorf("ranges with policy Local: %s", got)
	}
}

// At which addresses node ports answer.
func TestNodePortAddresses(t *testing.T) {
	a := netip.MustParseAddr
	const second = "10.9.0.1" // a further address of the node
	for _, c := range []struct {
		name      string
		at        ir.NodePortAddresses
		localhost bool
		want      map[string]string
	}{
		{"everywhere", ir.NodePortAddresses{All: true}, true,
			map[string]string{nodeIP: "cM", second: "cM", "127.0.0.1": "cM", "127.9.9.9": "cM", "203.0.113.77": "-"}},
		{"everywhere but localhost", ir.NodePortAddresses{All: true}, false,
			map[string]string{nodeIP: "cM", second: "cM", "127.0.0.1": "-"}},
		{"one address", ir.NodePortAddresses{Addrs: []netip.Addr{a(nodeIP)}}, false,
			map[string]string{nodeIP: "cM", second: "-", "127.0.0.1": "-"}},
		{"localhost", ir.NodePortAddresses{Addrs: []netip.Addr{a("127.0.0.1")}}, true,
			map[string]string{nodeIP: "-", second: "-", "127.0.0.1": "cM", "127.9.9.9": "-"}},
		{"a range", ir.NodePortAddresses{Prefixes: []netip.Prefix{netip.MustParsePrefix("10.9.0.0/16")}}, false,
			map[string]string{nodeIP: "-", second: "cM", "10.9.0.2": "-", "127.0.0.1": "-"}},
		{"nowhere", ir.NodePortAddresses{}, false, map[string]string{nodeIP: "-", second: "-", "127.0.0.1": "-"}},
	} {
		p, s := world()
		p.Options.NodePorts, p.Options.LocalhostNodePorts = c.at, c.localhost
		for to, want := range c.want {
			packet := sent(nodeIP, to+":30080")
			if netip.MustParseAddr(to).IsLoopback() {
				packet = sent("127.0.0.1", to+":30080")
			}
			if got := fate(outcomes(t, p, packet, second)); got != want {
				t.Errorf("%s: at %s %s, want %s", c.name, to, got, want)
			}
		}
		// The refusal asks for any local address (kube-proxy semantics).
		s.Usable, s.Cluster, s.Local = false, nil, nil
		if got := fate(outcomes(t, p, sent(strangerIP, second+":30080"), second)); got != "reject" {
			t.Errorf("%s: without endpoints %s", c.name, got)
		}
	}
}

// A node port meets also what the row of its address leaves alone, and the
// address' own row comes first.
func TestAddressThatIsTheNodes(t *testing.T) {
	p, s := world()
	other := &ir.ServicePort{
		PortName:       ir.PortName{Namespace: "demo", Name: "other", Protocol: ir.TCP},
		Frontends:      []ir.Frontend{{Kind: ir.ClusterIP, Addr: netip.MustParseAddr("10.96.0.11"), Port: 30080}, {Kind: ir.ExternalIP, Addr: netip.MustParseAddr(nodeIP), Port: 30080}},
		ExternalPolicy: ir.Local,
		Usable:         true,
		Cluster:        s.Cluster[1:],
	}
	p.Services = []*ir.ServicePort{other, s}
	// From the node, the external IP's row leads to its own endpoints.
	if o := outcomes(t, p, sent(nodeIP, nodeIP+":30080")); len(o) != 1 || o[0].To.String() != there {
		t.Errorf("own row: %s", o)
	}
	// A stranger's packet falls off its end and is a node port's.
	if got := fate(outcomes(t, p, sent(strangerIP, nodeIP+":30080"))); got != "cM" {
		t.Errorf("stranger: %s", got)
	}
}
