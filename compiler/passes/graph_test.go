package passes_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"svcc/ir"
)

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }
func addr(s string) netip.Addr     { return netip.MustParseAddr(s) }

// endpoints are of text "10.0.0.1:80 10.0.0.2:80".
func endpoints(s string) (out []ir.Endpoint) {
	for _, f := range strings.Fields(s) {
		a := netip.MustParseAddrPort(f)
		out = append(out, ir.Endpoint{Addr: a.Addr(), Port: a.Port()})
	}
	return out
}

func named(name string, p ir.Protocol) ir.PortName {
	return ir.PortName{Namespace: "a", Name: name, Protocol: p}
}

// balance is a TCP service's share over all endpoints.
func balance(service, eps string) *ir.Balance {
	return &ir.Balance{Label: ir.Label{Service: named(service, ir.TCP), Part: ir.PartClusterShare}, Endpoints: endpoints(eps)}
}

// entry is a TCP ClusterIP "10.96.0.1:80" of a service, or of another kind.
func entry(service, at string, next ir.Step, kind ...ir.FrontendKind) *ir.Entry {
	a := netip.MustParseAddrPort(at)
	f := ir.Frontend{Addr: a.Addr(), Port: a.Port()}
	for _, f.Kind = range kind {
		if f.Kind == ir.NodePort {
			f.Addr = netip.Addr{}
		}
	}
	return &ir.Entry{Frontend: f, Service: named(service, ir.TCP), Next: next}
}

// after runs one pass over the entries and gives the Graph.
func after(t *testing.T, name string, entries ...*ir.Entry) *ir.Graph {
	t.Helper()
	g := &ir.Graph{Family: ir.IPv4, Options: ir.Options{MasqueradeMark: 1}, Entries: entries}
	pass(t, name).Graph(g)
	if err := g.Check(); err != nil {
		t.Error(err)
	}
	return g
}

// wantGraph compares a Graph as it is printed, but for the head and blanks.
func wantGraph(t *testing.T, g *ir.Graph, want ...string) {
	t.Helper()
	var b strings.Builder
	if err := g.Print(&b); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(b.String()) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	if d := cmp.Diff(want, got[1:]); d != "" {
		t.Errorf("want -, got +\n%s", d)
	}
}

// fromPod asks whether a packet is from a pod.
func fromPod(then, other ir.Step) *ir.Guard {
	return &ir.Guard{If: ir.Condition{FromPod: true}, Then: then, Else: other}
}

func sources(then ir.Step, ranges ...string) *ir.Guard {
	g := &ir.Guard{Then: then, Else: &ir.Refuse{Reason: ir.SourceRefused}}
	for _, r := range ranges {
		g.If.Sources = append(g.If.Sources, prefix(r))
	}
	return g
}

func ipv4(b [4]byte) netip.Addr { return netip.AddrFrom4(b) }
