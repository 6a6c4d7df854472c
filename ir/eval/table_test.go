package eval_test

import (
	"net/netip"
	"strings"
	"testing"

	"svcc/compiler/lower"
	"svcc/ir"
	"svcc/ir/eval"
)

// The addresses of the tables below.
const (
	clusterIP  = "10.96.0.10"
	externalIP = "203.0.113.9"
	balancerIP = "203.0.113.20"
	nodeIP     = "192.0.2.10"
	podIP      = "10.244.1.99" // a pod that is no endpoint
	strangerIP = "198.51.100.77"
	here       = "10.244.1.5:8080"
	there      = "10.244.2.7:8080"
)

// world is a Program of one service port with every kind of frontend.
func world() (*ir.Program, *ir.ServicePort) {
	a := netip.MustParseAddr
	s := &ir.ServicePort{
		PortName: ir.PortName{Namespace: "demo", Name: "web", Port: "http", Protocol: ir.TCP},
		Frontends: []ir.Frontend{
			{Kind: ir.ClusterIP, Addr: a(clusterIP), Port: 80},
			{Kind: ir.ExternalIP, Addr: a(externalIP), Port: 80},
			{Kind: ir.LoadBalancer, Addr: a(balancerIP), Port: 80},
			{Kind: ir.NodePort, Port: 30080},
		},
		Usable: true,
	}
	s.Cluster = []ir.Endpoint{endpoint(here, true), endpoint(there, false)}
	s.Local = s.Cluster[:1]
	return &ir.Program{
		Family: ir.IPv4,
		Node:   ir.Node{Name: "node-a", IP: a(nodeIP)},
		Options: ir.Options{
			MasqueradeMark:     0x4000,
			LocalhostNodePorts: true,
			NodePorts:          ir.NodePortAddresses{All: true},
			Pods:               ir.Detector{Kind: ir.DetectCIDR, Prefix: netip.MustParsePrefix("10.244.0.0/16")},
			DropInvalid:        true,
		},
		Services: []*ir.ServicePort{s},
	}, s
}

func endpoint(s string, local bool) ir.Endpoint {
	a := netip.MustParseAddrPort(s)
	return ir.Endpoint{Addr: a.Addr(), Port: a.Port(), Local: local}
}

// sent is a new TCP packet; the node sends those from its own addresses.
func sent(from, to string) eval.Packet {
	p := eval.Packet{Src: netip.AddrPortFrom(netip.MustParseAddr(from), 40000), Dst: netip.MustParseAddrPort(to), Protocol: ir.TCP, In: "eth0"}
	switch from {
	case nodeIP, "127.0.0.1":
		p.In = ""
	case podIP:
		p.In = "cbr0"
	}
	return p
}

// outcomes gives the fate of a packet by Program and by Graph, which must agree.
func outcomes(t *testing.T, p *ir.Program, packet eval.Packet, local ...string) eval.Outcome {
	t.Helper()
	h := eval.Host{Addrs: []netip.Addr{netip.MustParseAddr(nodeIP)}}
	for _, l := range local {
		h.Addrs = append(h.Addrs, netip.MustParseAddr(l))
	}
	p = resolved(p)
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	spec, err := eval.NewProgram(p).Outcome(packet, h)
	if err != nil {
		t.Fatal(err)
	}
	graph, err := eval.NewGraph(lower.Lower(p)).Outcome(packet, h)
	if err != nil || !graph.Equal(spec) {
		t.Errorf("%s\nprogram: %s\ngraph:   %s (%v)", packet, spec, graph, err)
	}
	return spec
}

// resolved leaves out local lists that no policy leads to, as resolving does.
func resolved(p *ir.Program) *ir.Program {
	out := *p
	out.Services = nil
	for _, s := range p.Services {
		c := *s
		if c.InternalPolicy == ir.Cluster && c.ExternalPolicy == ir.Cluster {
			c.Local = nil
		}
		out.Services = append(out.Services, &c)
	}
	return &out
}

// fate is short for an outcome: "c" all endpoints and "l" the local one, each
// with an "M" if masqueraded, or the verdict, or "-" for a packet left alone.
func fate(o eval.Outcome) string {
	b := o[0]
	if v := b.Verdict(); v.Refused() {
		return v.String()
	}
	if !b.DNAT {
		return "-"
	}
	s := "?"
	switch {
	case len(o) == 2 && o[0].To.String() == here && o[1].To.String() == there && o[0].Share == eval.OneIn(2) && o[1].Share == eval.OneIn(2):
		s = "c"
	case len(o) == 1 && b.To.String() == here:
		s = "l"
	}
	for _, x := range o {
		if x.Masquerade != b.Masquerade {
			s += "?"
		}
	}
	if b.Masquerade {
		s += "M"
	}
	return s
}

// clients in the order of the tables' columns.
var clients = []string{podIP, nodeIP, strangerIP}

func fates(t *testing.T, p *ir.Program, to string) string {
	t.Helper()
	var out []string
	for _, from := range clients {
		out = append(out, fate(outcomes(t, p, sent(from, to))))
	}
	return strings.Join(out, " ")
}

var external = []string{externalIP + ":80", balancerIP + ":80", nodeIP + ":30080"}

// The truth table of traffic policies: who gets what, from a pod, the node, a
// stranger.
func TestWhoGetsWhat(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(p *ir.Program, s *ir.ServicePort)
		inside string
		out    string
	}{
		{"both Cluster", func(*ir.Program, *ir.ServicePort) {}, "c cM cM", "cM cM cM"},
		{"internal Local", func(_ *ir.Program, s *ir.ServicePort) { s.InternalPolicy = ir.Local }, "l lM lM", "cM cM cM"},
		{"external Local", func(_ *ir.Program, s *ir.ServicePort) { s.ExternalPolicy = ir.Local }, "c cM cM", "c cM l"},
		{"masquerade all", func(p *ir.Program, s *ir.ServicePort) { p.Options.MasqueradeAll = true }, "cM cM cM", "cM cM cM"},
		{"masquerade all, external Local", func(p *ir.Program, s *ir.ServicePort) {
			p.Options.MasqueradeAll, s.ExternalPolicy = true, ir.Local
		}, "cM cM cM", "c cM l"},
		{"no detection", func(p *ir.Program, _ *ir.ServicePort) { p.Options.Pods = ir.Detector{} }, "c c c", "cM cM cM"},
		{"no detection, external Local", func(p *ir.Program, s *ir.ServicePort) {
			p.Options.Pods, s.ExternalPolicy = ir.Detector{}, ir.Local
		}, "c c c", "l cM l"},
		{"no detection, masquerade all", func(p *ir.Program, s *ir.ServicePort) {
			p.Options.Pods, p.Options.MasqueradeAll = ir.Detector{}, true
		}, "cM cM cM", "cM cM cM"},
		{"by bridge", func(p *ir.Program, s *ir.ServicePort) {
			p.Options.Pods, s.ExternalPolicy = ir.Detector{Kind: ir.DetectBridge, Interface: "cbr0"}, ir.Local
		}, "c cM cM", "c cM l"},
		{"by interface prefix", func(p *ir.Program, s *ir.ServicePort) {
			p.Options.Pods, s.ExternalPolicy = ir.Detector{Kind: ir.DetectInterface, Interface: "cbr"}, ir.Local
		}, "c cM cM", "c cM l"},
		{"internal Local, none local", func(_ *ir.Program, s *ir.ServicePort) { s.InternalPolicy, s.Local = ir.Local, nil }, "drop drop drop", "cM cM cM"},
		{"external Local, none local", func(_ *ir.Program, s *ir.ServicePort) { s.ExternalPolicy, s.Local = ir.Local, nil }, "c cM cM", "c cM drop"},
		{"both Local, none local", func(_ *ir.Program, s *ir.ServicePort) {
			s.InternalPolicy, s.ExternalPolicy, s.Local = ir.Local, ir.Local, nil
		}, "drop drop drop", "c cM drop"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, s := world()
			c.change(p, s)
			if got := fates(t, p, clusterIP+":80"); got != c.inside {
				t.Errorf("ClusterIP: %s, want %s", got, c.inside)
			}
			for _, to := range external {
				if got := fates(t, p, to); got != c.out {
					t.Errorf("%s: %s, want %s", to, got, c.out)
				}
			}
		})
	}
}

// Where nothing can be used, every destination refuses, in the hooks where
// kube-proxy has its rules: ClusterIPs in FORWARD and OUTPUT, external ones in
// INPUT and FORWARD.
func TestNothingUsable(t *testing.T) {
	p, s := world()
	s.Usable, s.Cluster, s.Local = false, nil, nil
	for _, policy := range []ir.Policy{ir.Cluster, ir.Local} {
		s.InternalPolicy, s.ExternalPolicy = policy, policy
		for to, want := range map[string]string{
			clusterIP + ":80":  "reject reject reject",
			externalIP + ":80": "reject - reject",
			balancerIP + ":80": "reject - reject",
			nodeIP + ":30080":  "reject reject reject",
		} {
			if got := fates(t, p, to); got != want {
				t.Errorf("policy %s, to %s: %s, want %s", policy, to, got, want)
			}
		}
	}
}

// hooks writes what each hook did: output, forward, input.
func hooks(o eval.Outcome) string {
	var s []string
	for _, v := range []eval.Verdict{o[0].Output, o[0].Forward, o[0].Input} {
		s = append(s, v.String())
	}
	return strings.Join(s, " ")
}

// Which hook refuses, and what the hooks do with odd packets.
func TestHooks(t *testing.T) {
	state := func(p eval.Packet, s eval.State) eval.Packet { p.State = s; return p }
	udp := func(p eval.Packet) eval.Packet { p.Protocol = ir.UDP; return p }
	marked := func(p eval.Packet, m uint32) eval.Packet { p.Mark = m; return p }
	nothing := func(_ *ir.Program, s *ir.ServicePort) { s.Usable, s.Cluster, s.Local = false, nil, nil }
	asItIs := func(*ir.Program, *ir.ServicePort) {}
	noneHere := func(_ *ir.Program, s *ir.ServicePort) {
		s.InternalPolicy, s.ExternalPolicy, s.Local = ir.Local, ir.Local, nil
	}
	guarded := func(_ *ir.Program, s *ir.ServicePort) {
		s.SourceRanges = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/25")}
	}
	for _, c := range []struct {
		name   string
		change func(*ir.Program, *ir.ServicePort)
		packet eval.Packet
		local  string // a further address of the node
		want   string
	}{
		{"no service, forwarded", asItIs, sent(strangerIP, "203.0.113.77:80"), "", "- policy -"},
		{"no service, delivered", asItIs, sent(strangerIP, nodeIP+":22"), "", "- - policy"},
		{"no service, sent", asItIs, sent(nodeIP, "203.0.113.77:80"), "", "policy - -"},
		{"to itself", asItIs, sent(nodeIP, nodeIP+":22"), "", "policy - policy"},
		{"DNAT with the mark is accepted", asItIs, sent(strangerIP, clusterIP+":80"), "", "- accept -"},
		{"DNAT without the mark is left to the policy", asItIs, sent(podIP, clusterIP+":80"), "", "- policy -"},
		{"the node's own is not forwarded", asItIs, sent(nodeIP, clusterIP+":80"), "", "policy - -"},
		{"another port of a ClusterIP", asItIs, sent(strangerIP, clusterIP+":81"), "", "- policy -"},
		{"cluster IP refuses in FORWARD", nothing, sent(strangerIP, clusterIP+":80"), "", "- reject -"},
		{"cluster IP refuses in OUTPUT", nothing, sent(nodeIP, clusterIP+":80"), "", "reject - -"},
		{"cluster IP does not refuse in INPUT", nothing, sent(strangerIP, clusterIP+":80"), clusterIP, "- - policy"},
		{"external IP refuses in FORWARD", nothing, sent(strangerIP, externalIP+":80"), "", "- reject -"},
		{"external IP refuses in INPUT", nothing, sent(strangerIP, externalIP+":80"), externalIP, "- - reject"},
		{"external IP does not refuse in OUTPUT", nothing, sent(nodeIP, externalIP+":80"), "", "policy - -"},
		{"node port refuses in INPUT", nothing, sent(strangerIP, nodeIP+":30080"), "", "- - reject"},
		{"node port of another host is left alone", nothing, sent(strangerIP, "192.0.2.11:30080"), "", "- policy -"},
		{"node port refuses at loopback", nothing, sent("127.0.0.1", "127.0.0.1:30080"), "", "policy - reject"},
		{"no local endpoint drops in FORWARD", noneHere, sent(strangerIP, externalIP+":80"), "", "- drop -"},
		{"no local endpoint drops in INPUT", noneHere, sent(strangerIP, nodeIP+":30080"), "", "- - drop"},
		{"no local endpoint drops a ClusterIP in OUTPUT", noneHere, sent(nodeIP, clusterIP+":80"), "", "drop - -"},
		{"established is accepted", asItIs, state(sent(strangerIP, clusterIP+":80"), eval.Established), "", "- accept -"},
		{"related is accepted", asItIs, state(sent(strangerIP, clusterIP+":80"), eval.Related), "", "- accept -"},
		{"established is not refused", nothing, state(sent(strangerIP, clusterIP+":80"), eval.Established), "", "- accept -"},
		{"established is not refused in INPUT", nothing, state(sent(strangerIP, nodeIP+":30080"), eval.Established), "", "- - policy"},
		{"invalid is dropped in FORWARD", asItIs, state(sent(strangerIP, clusterIP+":80"), eval.Invalid), "", "- drop -"},
		{"invalid is not dropped in INPUT", asItIs, state(sent(strangerIP, nodeIP+":22"), eval.Invalid), "", "- - policy"},
		{"invalid is not dropped in OUTPUT", asItIs, state(sent(nodeIP, clusterIP+":80"), eval.Invalid), "", "policy - -"},
		{"invalid with liberal tracking", func(p *ir.Program, _ *ir.ServicePort) { p.Options.DropInvalid = false },
			state(sent(strangerIP, clusterIP+":80"), eval.Invalid), "", "- policy -"},
		{"a foreign mark is accepted before a refusal", nothing, marked(sent(strangerIP, clusterIP+":80"), 0x4000), "", "- accept -"},
		{"other bits of the mark are not", nothing, marked(sent(strangerIP, clusterIP+":80"), ^uint32(0x4000)), "", "- reject -"},
		{"a mark does not help in INPUT", nothing, marked(sent(strangerIP, nodeIP+":30080"), 0x4000), "", "- - reject"},
		{"ranges drop in FORWARD", guarded, sent(strangerIP, balancerIP+":80"), "", "- drop -"},
		{"ranges drop in INPUT", guarded, sent(strangerIP, balancerIP+":80"), balancerIP, "- - drop"},
		{"ranges drop in OUTPUT", func(_ *ir.Program, s *ir.ServicePort) {
			s.SourceRanges = []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}
		}, sent(nodeIP, balancerIP+":80"), "", "drop - -"},
		{"ranges come before the accepted mark", guarded, marked(sent(strangerIP, balancerIP+":80"), 0x4000), "", "- drop -"},
		{"ranges leave established flows alone", guarded, state(sent(strangerIP, balancerIP+":80"), eval.Established), "", "- accept -"},
		{"ranges are no matter without endpoints", func(p *ir.Program, s *ir.ServicePort) { guarded(p, s); nothing(p, s) },
			sent(strangerIP, balancerIP+":80"), "", "- reject -"},
		{"martian", asItIs, sent(strangerIP, "127.0.0.1:22"), "", "- - drop"},
		{"martian of a known flow", asItIs, state(sent(strangerIP, "127.0.0.1:22"), eval.Established), "", "- - policy"},
		{"martian at a node port", asItIs, sent(strangerIP, "127.0.0.1:30080"), "", "- accept -"},
		{"martian from the node", asItIs, sent(nodeIP, "127.0.0.1:22"), "", "drop - -"},
		{"loopback to loopback", asItIs, sent("127.0.0.1", "127.0.0.1:22"), "", "policy - policy"},
		{"no martian rule without localhost node ports", func(p *ir.Program, _ *ir.ServicePort) { p.Options.LocalhostNodePorts = false },
			sent(strangerIP, "127.0.0.1:22"), "", "- - policy"},
		{"health check is open", func(_ *ir.Program, s *ir.ServicePort) { s.HealthCheckNodePort = 31555 }, sent(strangerIP, nodeIP+":31555"), "", "- - accept"},
		{"health check is TCP", func(_ *ir.Program, s *ir.ServicePort) { s.HealthCheckNodePort = 31555 }, udp(sent(strangerIP, nodeIP+":31555")), "", "- - policy"},
		{"another protocol is another destination", nothing, udp(sent(strangerIP, clusterIP+":80")), "", "- policy -"},
		{"health check is for the node", func(_ *ir.Program, s *ir.ServicePort) { s.HealthCheckNodePort = 31555 }, sent(strangerIP, externalIP+":31555"), "", "- policy -"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, s := world()
			c.change(p, s)
			var local []string
			if c.local != "" {
				local = append(local, c.local)
			}
			if got := hooks(outcomes(t, p, c.packet, local...)); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}
