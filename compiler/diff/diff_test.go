package diff

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"svcc/ir"
	"svcc/ir/irtest"
)

// shop gives two equal Programs to change one of.
func shop() (a, b *ir.Program) { return irtest.Shop(), irtest.Shop() }

func texts(list []Reason) (out []string) {
	for _, x := range list {
		out = append(out, x.String())
	}
	return out
}

// Each way in which a service port, or the node, can differ has a reason of its
// own and no other.
func TestReasons(t *testing.T) {
	far := ir.Endpoint{Addr: netip.MustParseAddr("10.244.3.9"), Port: 8443}
	for _, c := range []struct {
		change func(p *ir.Program, s *ir.ServicePort)
		want   []string
	}{
		{func(_ *ir.Program, s *ir.ServicePort) {
			s.Cluster, s.Serving = append(s.Cluster, far), append(s.Serving, far.AddrPort())
		}, []string{"endpoint 10.244.3.9:8443 added (elsewhere)"}},
		{func(_ *ir.Program, s *ir.ServicePort) { s.Cluster, s.Serving = s.Cluster[:1], s.Serving[:1] },
			[]string{"endpoint 10.244.2.8:8443 removed (elsewhere)"}},
		{func(_ *ir.Program, s *ir.ServicePort) { s.Cluster = s.Cluster[:1] },
			[]string{"endpoint 10.244.2.8:8443: elsewhere -> serving, not chosen"}},
		{func(_ *ir.Program, s *ir.ServicePort) { s.Cluster[1].Local = true; s.Local = slices.Clone(s.Cluster) },
			[]string{"endpoint 10.244.2.8:8443: elsewhere -> on this node"}},
		{func(_ *ir.Program, s *ir.ServicePort) { s.Local = nil },
			[]string{"endpoint 10.244.1.6:8443: on this node -> on this node, for policy cluster only"}},
		{func(_ *ir.Program, s *ir.ServicePort) { s.Cluster = s.Cluster[1:] },
			[]string{"endpoint 10.244.1.6:8443: on this node -> on this node, for policy local only"}},
		{func(_ *ir.Program, s *ir.ServicePort) { s.Serving = s.Serving[1:] },
			[]string{"endpoint 10.244.1.6:8443: on this node -> on this node, not serving known flows"}},
		{func(_ *ir.Program, s *ir.ServicePort) { s.ExternalPolicy, s.Local = ir.Cluster, nil },
			[]string{"external policy: local -> cluster"}},
		{func(_ *ir.Program, s *ir.ServicePort) { s.InternalPolicy = ir.Local }, []string{"internal policy: cluster -> local"}},
		{func(_ *ir.Program, s *ir.ServicePort) { s.Port = "web" }, []string{"port name: demo/shop:https -> demo/shop:web"}},
		{func(_ *ir.Program, s *ir.ServicePort) { s.Frontends = s.Frontends[:2] }, []string{"frontend node-port 30443 removed"}},
		{func(_ *ir.Program, s *ir.ServicePort) { s.Frontends[2].Port++ },
			[]string{"frontend node-port 30443 removed", "frontend node-port 30444 added"}},
		{func(_ *ir.Program, s *ir.ServicePort) { s.SourceRanges = s.SourceRanges[:1] }, []string{"source range 198.51.100.0/24 removed"}},
		{func(_ *ir.Program, s *ir.ServicePort) { s.NodeAllowed = false }, []string{"node may be source: yes -> no"}},
		{func(_ *ir.Program, s *ir.ServicePort) { s.AffinitySeconds = 60 }, []string{"affinity: none -> 60 s"}},
		{func(_ *ir.Program, s *ir.ServicePort) { s.HealthCheckNodePort = 0 }, []string{"health-check port: 31555 -> none"}},
		{func(_ *ir.Program, s *ir.ServicePort) { slices.Reverse(s.SourceRanges) }, []string{"order changed"}},
		{func(_ *ir.Program, s *ir.ServicePort) { s.Name = "other" }, []string{"service removed", "service added"}},
		{func(p *ir.Program, _ *ir.ServicePort) { p.Services = nil }, []string{"service removed"}},
		{func(p *ir.Program, _ *ir.ServicePort) { p.Node.Zone = "east" }, []string{"zone: none -> east"}},
		{func(p *ir.Program, _ *ir.ServicePort) { p.Options.MasqueradeAll = true }, []string{"masquerade all: no -> yes", "node options changed"}},
		{func(p *ir.Program, _ *ir.ServicePort) { p.Options.DropInvalid = false }, []string{"drop invalid: yes -> no", "node options changed"}},
	} {
		a, b := shop()
		c.change(b, b.Services[0])
		var got []string
		for _, x := range inOrder(compare(t, a, b).Changes) {
			got = append(got, texts(x.Reasons)...)
		}
		slices.Sort(got)
		slices.Sort(c.want)
		if !slices.Equal(got, c.want) {
			t.Errorf("reasons %q, want %q", got, c.want)
		}
	}
}

// A changed endpoint concerns whoever is sent to the cluster's endpoints: at the
// load balancer's address pods and the node (it is among the source ranges), and
// not strangers, who by policy Local stay on this node.
func TestFlows(t *testing.T) {
	a, b := shop()
	b.Services[0].Cluster, b.Services[0].Serving = b.Services[0].Cluster[:1], b.Services[0].Serving[:1]
	r := compare(t, a, b)
	if len(r.Changes) != 1 {
		t.Fatalf("%d changes", len(r.Changes))
	}
	seen := map[string][]string{}
	for _, f := range r.Changes[0].Flows {
		seen[f.To] = append(seen[f.To], f.From...)
		if f.Before.Verdict != "deliver" || len(f.Before.Endpoints) != 2 || len(f.After.Endpoints) != 1 || f.After.Endpoints[0] != "10.244.1.6:8443" {
			t.Errorf("%+v", f)
		}
	}
	if got := seen["cluster-ip 10.96.0.20:443/tcp"]; !slices.Equal(sorted(got), []string{"node", "outside", "pod"}) {
		t.Errorf("cluster IP: from %v", got)
	}
	if got := seen["node-port 192.0.2.10:30443/tcp"]; !slices.Equal(sorted(got), []string{"node", "pod"}) {
		t.Errorf("node port: from %v", got)
	}
	if slices.Contains(seen["load-balancer 203.0.113.20:443/tcp"], "outside") {
		t.Error("load balancer: strangers are not let in")
	}
}

func sorted(s []string) []string {
	s = slices.Clone(s)
	slices.Sort(s)
	return s
}

// A wider range shows at its edge, though no plain client is in it.
func TestRangeEdges(t *testing.T) {
	a, b := shop()
	b.Services[0].SourceRanges[0] = netip.MustParsePrefix("192.0.2.0/23")
	for _, f := range compare(t, a, b).Changes[0].Flows {
		if slices.Contains(f.From, "192.0.3.255 from outside") && f.Before.Verdict == "drop" && f.After.Text == "10.244.1.6:8443" {
			return
		}
	}
	t.Error("no flow from the new edge")
}

// A service port that does not change can suffer from one that does: what is
// sent on to an endpoint on the node's own address meets the refusal of a node
// port of the same number.
func TestNeighbour(t *testing.T) {
	a, b := shop()
	host := ir.Endpoint{Addr: a.Node.IP, Port: 30081, Local: true}
	for _, p := range []*ir.Program{a, b} {
		p.Services[0].Cluster, p.Services[0].Local = []ir.Endpoint{host}, []ir.Endpoint{host}
		p.Services[0].Serving = []netip.AddrPort{host.AddrPort()}
	}
	b.Services = append(b.Services, &ir.ServicePort{
		PortName:  ir.PortName{Namespace: "demo", Name: "zero", Protocol: ir.TCP},
		Frontends: []ir.Frontend{{Kind: ir.ClusterIP, Addr: netip.MustParseAddr("10.96.0.40"), Port: 80}, {Kind: ir.NodePort, Port: 30081}},
	})
	r := compare(t, a, b)
	if len(r.Changes) != 2 || r.Changes[0].Service != "demo/shop:https/tcp" || !slices.Equal(texts(r.Changes[0].Reasons), []string{"neighbour demo/zero/tcp changed"}) {
		t.Fatalf("%+v", r.Changes)
	}
	for _, f := range r.Changes[0].Flows {
		if f.To == "cluster-ip 10.96.0.20:443/tcp" && f.Before.Verdict == "deliver" && f.After.Verdict == "reject" {
			return
		}
	}
	t.Errorf("no flow is rejected now: %+v", r.Changes[0].Flows)
}

func TestFamilies(t *testing.T) {
	four := irtest.Shop()
	r, err := Compare([]*ir.Program{four}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Changes) != 2 || !slices.Equal(texts(r.Changes[0].Reasons), []string{"family ipv4 removed"}) || r.Changes[1].Kind != Removed {
		t.Errorf("%+v", r.Changes)
	}
	if r, err := Compare(nil, nil); err != nil || !r.Same() {
		t.Error(r, err)
	}
}

// Names of the inputs can end no cell and no fence, and steer no terminal.
func TestInputIsHarmless(t *testing.T) {
	a, b := shop()
	b.Node.Name = "x|y\x1b[31m<b>`@me\u202e"
	r := compare(t, a, b)
	r.Rules = []Chain{{Family: "ipv4", Table: "nat", Chain: "X", Kind: Changed, Diff: []string{"--- a", "+++ b", "@@ -1,1 +1,1 @@", " ```", "+````\x1b"}}}
	var md, text strings.Builder
	if err := r.Markdown(&md); err != nil {
		t.Fatal(err)
	}
	if err := r.Text(&text, false); err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{md.String(), text.String()} {
		if strings.ContainsAny(s, "\x1b\u202e") {
			t.Errorf("control characters: %q", s)
		}
	}
	for _, bad := range []string{"x|y", "<b>", "@me"} {
		if strings.Contains(md.String(), bad) {
			t.Errorf("%q in Markdown", bad)
		}
	}
	if !strings.Contains(md.String(), "\n`````diff\n") || !strings.Contains(md.String(), "\n`````\n") {
		t.Errorf("no fence that is long enough:\n%s", md.String())
	}
}

// A comment that would be too long for a pull request says what it leaves out.
func TestMarkdownIsBounded(t *testing.T) {
	r := &Report{}
	for range 3000 {
		r.Changes = append(r.Changes, Change{Family: "ipv4", Service: "demo/" + strings.Repeat("x", 60) + "/tcp", Kind: Changed,
			Reasons: []Reason{{What: "order", Kind: Changed}},
			Flows:   []Flow{{From: []string{"pod"}, To: "x", Before: Fate{Text: "a"}, After: Fate{Text: "b"}}}})
		r.Rules = append(r.Rules, Chain{Diff: []string{"--- old", "+++ new", "+" + strings.Repeat("y", 60)}})
	}
	var b strings.Builder
	if err := r.Markdown(&b); err != nil {
		t.Fatal(err)
	}
	if n := b.Len(); n > 65536 || n < 30000 {
		t.Errorf("%d bytes", n)
	}
	if !strings.Contains(b.String(), "parts left out") || !strings.HasPrefix(b.String(), Marker+"\n") {
		t.Error("it does not say what is left out, or lacks the marker")
	}
}
