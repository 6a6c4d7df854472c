package resolve

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"svcc/compiler/manifest"
	"svcc/compiler/validate"
	"svcc/ir"
	"svcc/ir/diag"
)

// inVirtual resolves manifests for IPv4 in IPVS mode.
func inVirtual(t *testing.T, text string, o Options) (*ir.Program, diag.List) {
	t.Helper()
	set, list := manifest.Load([]string{"-"}, strings.NewReader(text), manifest.Options{})
	if len(list) > 0 {
		t.Fatal(list)
	}
	validate.Defaults(set)
	o.Virtual = &Virtual{Virtual: ir.Virtual{Scheduler: "rr", Exclude: o.Virtual.Exclude}, LocalAddrs: o.Virtual.LocalAddrs}
	programs, list := Resolve(set, nil, o)
	return programs[0], list
}

const nodeAndService = `
{apiVersion: v1, kind: Node, metadata: {name: node-a}, status: {addresses: [{type: InternalIP, address: 192.0.2.10}, {type: InternalIP, address: "2001:db8::10"}, {type: Hostname, address: node-a}]}}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: demo, annotations: {svcc.io/ipvs-scheduler: sh}}
spec: {type: NodePort, clusterIP: 10.96.0.1, externalIPs: [192.0.2.10], ports: [{port: 30080, nodePort: 30443}]}
`

func options(local ...string) Options {
	o := NewOptions()
	o.Node, o.Virtual = "node-a", &Virtual{}
	o.ClusterCIDRs = []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}
	for _, a := range local {
		o.Virtual.LocalAddrs = append(o.Virtual.LocalAddrs, netip.MustParseAddr(a))
	}
	return o
}

// A node's addresses are those of its object and of its interfaces, but for
// loopback and IPv6 link-local ones (kube-proxy semantics, IPVS mode), and node
// ports have a virtual server at each.
func TestOwnAddresses(t *testing.T) {
	p, list := inVirtual(t, nodeAndService, options("127.0.0.1", "fe80::1", "192.0.2.77", "192.0.2.10"))
	if len(list) > 0 {
		t.Fatal(list)
	}
	want := []netip.Addr{netip.MustParseAddr("192.0.2.10"), netip.MustParseAddr("192.0.2.77")}
	if v := p.Options.Virtual; !slices.Equal(v.Own, want) || !slices.Equal(p.Options.NodePorts.Addrs, want) || p.Options.LocalhostNodePorts {
		t.Errorf("own %v, node ports %v, localhost %v; want %v for both, and no localhost", v.Own, p.Options.NodePorts, p.Options.LocalhostNodePorts, want)
	}
	if s := p.Services[0].Scheduler; s != "sh" {
		t.Errorf("scheduler %q, not the annotation's", s)
	}
}

// What is excluded is the family's, in the order of a Program.
func TestExclude(t *testing.T) {
	o := options()
	for _, s := range []string{"2.0.0.0/8", "2001:db8::/64", "10.0.0.0/8"} {
		o.Virtual.Exclude = append(o.Virtual.Exclude, netip.MustParsePrefix(s))
	}
	p, _ := inVirtual(t, nodeAndService, o)
	if err := p.Check(); err != nil {
		t.Error(err)
	}
	want := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2.0.0.0/8")}
	if got := p.Options.Virtual.Exclude; !slices.Equal(got, want) {
		t.Errorf("excluded %v, want %v", got, want)
	}
}

// Ranges choose among the node's own addresses; one that is named alone is the
// node's.
func TestNodePortRanges(t *testing.T) {
	o := options("192.0.2.77", "198.51.100.1")
	o.NodePortAddresses = []string{"198.51.100.0/24", "203.0.113.5/32"}
	p, _ := inVirtual(t, nodeAndService, o)
	if got := p.Options.NodePorts.String(); got != "198.51.100.1, 203.0.113.5" {
		t.Errorf("node ports at %s", got)
	}
}

// Without the node's addresses there is nowhere to put a node port.
func TestNodePortsNeedAddresses(t *testing.T) {
	o := options()
	o.Node = ""
	_, list := inVirtual(t, nodeAndService, o)
	if !slices.ContainsFunc(list, func(d diag.Diagnostic) bool {
		return d.Code == diag.NodeNeeded && strings.Contains(d.Message, "address is not known")
	}) {
		t.Errorf("not told: %v", list)
	}
}

// What virtual servers cannot tell apart is an error at the Service that comes
// later, which is left out.
func TestClashes(t *testing.T) {
	const more = nodeAndService + `---
apiVersion: v1
kind: Service
metadata: {name: zed, namespace: demo}
spec: {type: NodePort, clusterIP: 10.96.0.2, ports: [{port: 80, nodePort: 30080}]}
---
apiVersion: v1
kind: Service
metadata: {name: caught, namespace: demo}
spec: {clusterIP: 10.96.0.3, ports: [{port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: caught-1, namespace: demo, labels: {kubernetes.io/service-name: caught}}
addressType: IPv4
ports: [{port: 30443}]
endpoints: [{addresses: [192.0.2.10], nodeName: node-a}]
`
	p, list := inVirtual(t, more, options())
	var codes []diag.Code
	for _, d := range list {
		codes = append(codes, d.Code)
		if d.Pos.Line == 0 {
			t.Errorf("%s has no place", d)
		}
	}
	if !slices.Equal(codes, []diag.Code{diag.DestinationShared, diag.EndpointIsDestination}) {
		t.Errorf("found %v", list)
	}
	if len(p.Services) != 1 || p.Services[0].Name != "web" {
		t.Errorf("%d services are left", len(p.Services))
	}
}
