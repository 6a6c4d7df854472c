package passes_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"svcc/compiler/passes"
	"svcc/ir"
	"svcc/ir/irtest"
)

func pass(t *testing.T, name string) passes.Pass {
	t.Helper()
	for _, p := range passes.Table {
		if p.Name == name {
			return p
		}
	}
	t.Fatalf("no pass %q", name)
	return passes.Pass{}
}

// shuffle puts what order promises to sort into a random order.
func shuffle(t *rapid.T, p *ir.Program) {
	p.Services = rapid.Permutation(p.Services).Draw(t, "services")
	for _, s := range p.Services {
		s.Cluster = rapid.Permutation(s.Cluster).Draw(t, "cluster")
		s.Local = rapid.Permutation(s.Local).Draw(t, "local")
		s.Serving = rapid.Permutation(s.Serving).Draw(t, "serving")
	}
}

func text(t interface{ Fatal(...any) }, p *ir.Program) string {
	var b strings.Builder
	if err := p.Print(&b, true); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Whatever the order before, order gives the sorted Program back, and changes
// nothing but order.
func TestOrder(t *testing.T) {
	order := pass(t, "order").Program
	rapid.Check(t, func(t *rapid.T) {
		p := irtest.Programs().Draw(t, "program") // sorted
		want := text(t, p)
		shuffle(t, p)
		order(p)
		if err := p.Check(); err != nil {
			t.Error(err)
		}
		if d := cmp.Diff(want, text(t, p)); d != "" {
			t.Errorf("want -, got +\n%s", d)
		}
		for _, s := range p.Services {
			if !slices.IsSortedFunc(s.Serving, func(a, b netip.AddrPort) int { return strings.Compare(a.String(), b.String()) }) {
				t.Errorf("serving %v", s.Serving)
			}
		}
		order(p)
		if text(t, p) != want {
			t.Error("a second time changes something")
		}
	})
}

// Endpoints sort by their text, as kube-proxy sorts them: 10.0.0.10 before
// 10.0.0.2, port 80 before 9.
func TestOrderIsByText(t *testing.T) {
	e := func(s string) ir.Endpoint {
		a := netip.MustParseAddrPort(s)
		return ir.Endpoint{Addr: a.Addr(), Port: a.Port()}
	}
	p := &ir.Program{Services: []*ir.ServicePort{
		{PortName: ir.PortName{Namespace: "a", Name: "b", Port: "x", Protocol: ir.UDP}},
		{PortName: ir.PortName{Namespace: "a", Name: "b", Port: "x", Protocol: ir.TCP}},
		{PortName: ir.PortName{Namespace: "a", Name: "b-c", Port: "", Protocol: ir.TCP},
			Cluster: []ir.Endpoint{e("10.0.0.2:80"), e("10.0.0.10:9"), e("10.0.0.10:80")}},
	}}
	pass(t, "order").Program(p)
	var got []string
	for _, s := range p.Services {
		got = append(got, s.String())
	}
	for _, x := range p.Services[0].Cluster {
		got = append(got, x.String())
	}
	want := []string{"a/b-c/tcp", "a/b:x/tcp", "a/b:x/udp", "10.0.0.10:80", "10.0.0.10:9", "10.0.0.2:80"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
