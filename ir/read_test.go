package ir_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"svcc/ir"
	"svcc/ir/irtest"
)

func text(t interface{ Fatal(...any) }, p *ir.Program) string {
	var b strings.Builder
	if err := p.Print(&b, false); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// same compares Programs but for origins, which a text does not have.
var same = cmp.Options{
	cmpopts.EquateEmpty(), cmpopts.IgnoreFields(ir.ServicePort{}, "Origin"),
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
	cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b }),
	cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
}

// readsBack wants a Program to come back from its text as it was.
func readsBack(t interface{ Fatal(...any) }, p *ir.Program) {
	got, err := ir.ReadProgram(text(t, p))
	if err != nil {
		t.Fatal(err, "\n", text(t, p))
	}
	if d := cmp.Diff(p, got, same); d != "" {
		t.Fatal("want -, got +:\n", d, text(t, p))
	}
}

func TestReadProgram(t *testing.T) {
	readsBack(t, irtest.Shop())
	rapid.Check(t, func(t *rapid.T) {
		p := irtest.Programs().Draw(t, "program")
		p.Node.Name = rapid.SampledFrom([]string{"", "node-a", "192.0.2.1", "zone", "a b", "fd00::1", "\n", `"`, "ü"}).Draw(t, "node")
		p.Node.Zone = rapid.SampledFrom([]string{"", "zone", "east", "east 1", "192.0.2.1"}).Draw(t, "zone")
		p.Known = rapid.IntRange(0, 1<<30).Draw(t, "known")
		if p.Options.Pods.Interface != "" {
			p.Options.Pods.Interface = rapid.SampledFrom([]string{"br0", "veth", "a b", "x*", "*"}).Draw(t, "interface")
		}
		for _, s := range p.Services {
			serve(t, s)
		}
		readsBack(t, p)
	})
}

// serve has some chosen endpoints not serve: ready ones need not.
func serve(t *rapid.T, s *ir.ServicePort) {
	if n := len(s.Serving); n > 0 && rapid.Bool().Draw(t, "one does not serve") {
		i := rapid.IntRange(0, n-1).Draw(t, "which")
		s.Serving = append(s.Serving[:i:i], s.Serving[i+1:]...)
	}
}

// Policies that no frontend shows are not lost.
func TestReadProgramHiddenPolicies(t *testing.T) {
	p := irtest.Shop()
	s := p.Services[0]
	frontends := s.Frontends
	s.InternalPolicy, s.Frontends = ir.Local, frontends[1:]
	readsBack(t, p)
	s.InternalPolicy, s.Frontends, s.Local, s.SourceRanges, s.NodeAllowed = ir.Cluster, frontends[:1], nil, nil, false
	readsBack(t, p)
}

func TestReadProgramErrors(t *testing.T) {
	whole := text(t, irtest.Shop())
	for _, c := range []struct{ old, new, want string }{
		{whole, "", "line 1: the program ends"},
		{whole, "program ipv4\n  mark 0x1\n", "line 3: the program ends"},
		{"program ipv4", "graph ipv4", "line 1: "},
		{"ipv4 node-a", "ipv5 node-a", `line 1: family "ipv5"`},
		{"node-a 192.0.2.10", "node-a 192.0.2.10 x", `line 1: "x" does not belong`},
		{"node-a 192.0.2.10", "node-a 192.0.2.10 zone", "line 1: "},
		{"node-a 192.0.2.10", `"node-a 192.0.2.10`, "line 1: "},
		{"node-a 192.0.2.10", "node-a  192.0.2.10", "line 1: "},
		{"mark 0x4000", "mark 0x6000", "line 5: masquerade mark 0x6000"},
		{"mark 0x4000", "mark 0x1ffffffff", "line 2: mark"},
		{"drop invalid", "drop all", `line 2: option "drop all"`},
		{"pods from 10.244.0.0/16", "pods from 10.244.0.0", "line 3: "},
		{"pods from 10.244.0.0/16", "pods by interfaces veth", "line 3: "},
		{"every local address", "192.0.2.1 192.0.2.2", "line 4: "},
		{"known endpoints 2", "known endpoints -2", "line 5: "},
		{"demo/shop:https/tcp", "demo/shop:https", `line 6: "demo/shop:https" is no service port`},
		{"demo/shop:https/tcp", "demo/shop:/tcp", "line 6: "},
		{"demo/shop:https/tcp", "demo/shop:https/icmp", `line 6: protocol "icmp"`},
		{"  demo/shop:https/tcp\n", "", "line 6: a row before"},
		{"cluster-ip    10.96.0.20:443 ", "cluster-ip    10.96.0.20 ", "line 7: "},
		{"cluster-ip ", "cluster-io ", `line 7: row "cluster-io"`},
		{"policy cluster", "policy none", `line 7: policy "none"`},
		{"30443                                policy local", "30443                                policy cluster", "line 9: policy cluster, but local"},
		{"192.0.2.0/24 198", "192.0.2.0/99 198", "line 8: "},
		{"10.244.1.6:8443 local,", "10.244.1.6:8443 here,", `line 10: "here"`},
		{"10.244.2.8:8443", "10.244.0.8:8443", "line 6: demo/shop:https/tcp: endpoints are out of order"},
		{"health-check  31555", "health-check  99999", "line 11: "},
		{"health-check  31555\n", "health-check  31555\n    health-check  31555\n", "line 12: "},
		{"health-check  31555\n", "health-check  31555\n    affinity      9 s\n", "line 12: "},
		{"    health-check  31555\n", "    also serving  10.244.2.8:8443\n", "line 6: demo/shop:https/tcp: who serves"},
		{"    health-check  31555\n", "    affinity      -1 s\n", "line 11: "},
		{"    health-check  31555\n", "    health-check  31555\n  demo/shop:https/tcp\n", "line 12: demo/shop:https/tcp: does not come after"},
		{"    health-check  31555\n", "health-check\n", "line 11: "},
	} {
		edited := strings.Replace(whole, c.old, c.new, 1)
		if c.old != whole && edited == whole {
			t.Fatalf("%q is not in the text", c.old)
		}
		if _, err := ir.ReadProgram(edited); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%q for %q: error %v, want %q", c.new, c.old, err, c.want)
		}
	}
}

// Whatever is read is sound and reads back.
func FuzzReadProgram(f *testing.F) {
	f.Add(text(f, irtest.Shop()))
	f.Add("program ipv6 \"a b\" fd00::1 zone \"x y\"\n  mark 0x1  masquerade all\n  pods by interfaces veth*\n  node ports at fd00::1, local addresses in fd01::/64\n  known endpoints 0\n" +
		"  a/b/udp\n    node-port     1                                    policy local\n    internal      policy local\n    endpoints     [fd00::2]:1 local only\n    not serving   [fd00::2]:1\n    affinity      5 s\n")
	f.Fuzz(func(t *testing.T, s string) {
		p, err := ir.ReadProgram(s)
		if err != nil {
			return
		}
		if err := p.Check(); err != nil {
			t.Fatal(err)
		}
		readsBack(t, p)
	})
}
