package resolve_test

import (
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"svcc/compiler/resolve"
	"svcc/ir"
	"svcc/ir/diag"
)

// unknown is a world without a node.
func unknown() *world {
	w := newWorld()
	w.Nodes, w.options.Node = nil, ""
	w.addSlice("s", endpoint("10.244.1.5", "node-a", "TTF"))
	return w
}

func local(w *world) {
	w.service().Spec.InternalTrafficPolicy = ptr(corev1.ServiceInternalTrafficPolicyLocal)
}

func balanced(w *world, ranges ...string) {
	s := w.service()
	s.Spec.Type = corev1.ServiceTypeLoadBalancer
	s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "203.0.113.20"}}
	s.Spec.LoadBalancerSourceRanges = ranges
}

func hints(w *world, zones, nodes []string) {
	s := w.Slices[0].Value
	s.Endpoints[0] = hinted(s.Endpoints[0], zones, nodes)
}

// A fact of the node is asked for exactly where a Service's meaning depends on
// it, and the error names the Service and the fact.
func TestNodeNeeded(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(w *world)
		want   string // in the message; "" for no finding
	}{
		{"nothing depends on it", func(*world) {}, ""},
		{"policy Local", local, "the node's name is not known"},
		{"policy Local, name given", func(w *world) { local(w); w.options.Node = "node-a" }, ""},
		{"policy Local without endpoints", func(w *world) { local(w); w.Slices = nil }, ""},
		{"policy Local, nothing usable", func(w *world) { local(w); w.Slices[0].Value.Endpoints[0].Conditions.Ready = ptr(false) }, ""},
		{"external policy Local, but nothing external", func(w *world) { w.service().Spec.ExternalTrafficPolicy = "Local" }, ""},
		{"zone hints", func(w *world) { hints(w, []string{"east"}, nil) }, "the node's zone is not known"},
		{"zone hints, zone given", func(w *world) { hints(w, []string{"east"}, nil); w.options.Zone = ptr("west") }, ""},
		{"node hints", func(w *world) { hints(w, nil, []string{"node-a"}) }, "the node's name is not known"},
		{"source ranges", func(w *world) { balanced(w, "192.0.2.0/24") }, "the node's address is not known"},
		{"source ranges, address given", func(w *world) {
			balanced(w, "192.0.2.0/24")
			w.options.NodeIPs = []netip.Addr{netip.MustParseAddr("192.0.2.10")}
		}, ""},
		{"source ranges without a load balancer's address", func(w *world) { w.service().Spec.LoadBalancerSourceRanges = []string{"192.0.2.0/24"} }, ""},
		{"source ranges that let everybody in", func(w *world) { balanced(w, "0.0.0.0/0") }, ""},
		{"primary and a node port", func(w *world) {
			w.options.NodePortAddresses = []string{"primary"}
			w.service().Spec.Ports[0].NodePort = 30080
		}, "the node's address is not known"},
		{"primary without a node port", func(w *world) { w.options.NodePortAddresses = []string{"primary"} }, ""},
		{"NodeCIDR", func(w *world) { w.options.Detect = resolve.DetectNodeCIDR }, "the node's pod range is not known"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := unknown()
			c.change(w)
			_, list := w.resolve(t)
			if c.want == "" {
				if len(list) > 0 {
					t.Errorf("findings: %v", list)
				}
				return
			}
			if codes(list) != string(diag.NodeNeeded) || list[0].Severity != diag.Error {
				t.Fatalf("findings: %v", list)
			}
			m := list[0].Message
			if !strings.Contains(m, c.want) || !strings.Contains(m, "demo/web") || list[0].Hint == "" {
				t.Errorf("%q, want %q and demo/web; hint %q", m, c.want, list[0].Hint)
			}
		})
	}
}

// Many services are named in order, five of them.
func TestNodeNeededNamesServices(t *testing.T) {
	w := unknown()
	w.Services = nil
	for _, n := range []string{"g", "f", "e", "d", "c", "b", "a"} {
		w.addService(n, "10.96.0.1")
	}
	w.options.Detect = resolve.DetectNodeCIDR
	_, list := w.resolve(t)
	if len(list) != 1 || !strings.HasSuffix(list[0].Message, "for demo/a, demo/b, demo/c, demo/d, demo/e and 2 more") {
		t.Errorf("%v", list)
	}
}

func TestNodeName(t *testing.T) {
	// kube-proxy trims and lowers the name.
	w := newWorld()
	w.options.Node = " Node-A "
	local(w)
	w.addSlice("s", endpoint("10.244.1.5", "node-a", "TTF"))
	if p := w.program(t); p.Node.Name != "node-a" || text(p.Services[0].Local) == "" {
		t.Errorf("%+v", p.Node)
	}
	// A name that no Node object has is an error, where there are any.
	w.options.Node = "node-x"
	_, list := w.resolve(t)
	if codes(list) != string(diag.NodeUnknown) || !strings.Contains(list[0].Message, `"node-x"`) || !strings.Contains(list[0].Hint, "node-a") {
		t.Errorf("%v", list)
	}
	w.Nodes = nil
	if p := w.program(t); p.Node.Name != "node-x" || text(p.Services[0].Local) != "" || !p.Services[0].Usable {
		t.Errorf("%+v", p.Node)
	}
}

func TestNodeAddressAndZone(t *testing.T) {
	type address = corev1.NodeAddress
	for _, c := range []struct {
		name   string
		addrs  []address
		given  []string
		v4, v6 string
	}{
		{"first InternalIP", []address{{Type: "Hostname", Address: "10.9.9.9"}, {Type: "ExternalIP", Address: "203.0.113.1"}, {Type: "InternalIP", Address: "192.0.2.1"}, {Type: "InternalIP", Address: "192.0.2.2"}}, nil, "192.0.2.1", ""},
		{"else ExternalIP", []address{{Type: "Hostname", Address: "node-a"}, {Type: "ExternalIP", Address: "203.0.113.1"}}, nil, "203.0.113.1", ""},
		{"each family", []address{{Type: "InternalIP", Address: "192.0.2.1"}, {Type: "InternalIP", Address: "2001:db8::1"}}, nil, "192.0.2.1", "2001:db8::1"},
		{"external of the other family", []address{{Type: "InternalIP", Address: "192.0.2.1"}, {Type: "ExternalIP", Address: "2001:db8::1"}}, nil, "192.0.2.1", "2001:db8::1"},
		{"none", nil, nil, "", ""},
		{"given by hand", []address{{Type: "InternalIP", Address: "192.0.2.1"}}, []string{"192.0.2.9"}, "192.0.2.9", ""},
		{"given for one family", []address{{Type: "InternalIP", Address: "192.0.2.1"}, {Type: "InternalIP", Address: "2001:db8::1"}}, []string{"192.0.2.9"}, "192.0.2.9", "2001:db8::1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld()
			w.options.Families = []ir.Family{ir.IPv4, ir.IPv6}
			w.options.Detect, w.options.Interface = resolve.DetectBridge, "cbr0"
			w.Nodes[0].Value.Status.Addresses = c.addrs
			for _, g := range c.given {
				w.options.NodeIPs = append(w.options.NodeIPs, netip.MustParseAddr(g))
			}
			programs, list := w.resolve(t)
			if len(list) > 0 {
				t.Fatal(list)
			}
			for i, want := range []string{c.v4, c.v6} {
				if got := programs[i].Node.IP; want == "" && got.IsValid() || want != "" && got.String() != want {
					t.Errorf("%s: %s, want %q", programs[i].Family, got, want)
				}
			}
			if programs[0].Node.Zone != "east" {
				t.Errorf("zone %q", programs[0].Node.Zone)
			}
		})
	}
	w := newWorld()
	w.options.Zone = ptr("west")
	if got := w.program(t).Node.Zone; got != "west" {
		t.Errorf("zone %q", got)
	}
}

// How pods are recognised, by mode and family.
func TestDetection(t *testing.T) {
	cidrs := func(list ...string) (out []netip.Prefix) {
		for _, s := range list {
			out = append(out, netip.MustParsePrefix(s))
		}
		return out
	}
	for _, c := range []struct {
		name     string
		change   func(w *world)
		v4, v6   string
		warnings int
	}{
		{"none given", func(w *world) { w.options.ClusterCIDRs = nil }, "not recognised", "not recognised", 2},
		{"one family", func(*world) {}, "from 10.244.0.0/16", "not recognised", 1},
		{"both", func(w *world) { w.options.ClusterCIDRs = cidrs("fd00:10::/56", "10.1.0.0/16") }, "from 10.1.0.0/16", "from fd00:10::/56", 0},
		{"the first of each counts", func(w *world) {
			w.options.Detect = resolve.DetectClusterCIDR
			w.options.ClusterCIDRs = cidrs("10.1.0.0/16", "10.2.0.0/16", "fd00:1::/64", "fd00:2::/64")
		}, "from 10.1.0.0/16", "from fd00:1::/64", 0},
		{"bridge", func(w *world) { w.options.Detect, w.options.Interface = resolve.DetectBridge, "cbr0" }, "by interface cbr0", "by interface cbr0", 0},
		{"prefix", func(w *world) { w.options.Detect, w.options.Interface = resolve.DetectInterfacePrefix, "veth" }, "by interfaces veth*", "by interfaces veth*", 0},
		{"NodeCIDR", func(w *world) {
			w.options.Detect = resolve.DetectNodeCIDR
			w.Nodes[0].Value.Spec.PodCIDRs = []string{"10.244.1.0/24", "10.244.9.0/24", "fd00:1::/64"}
		}, "from 10.244.1.0/24", "from fd00:1::/64", 0},
		{"NodeCIDR, one family", func(w *world) {
			w.options.Detect = resolve.DetectNodeCIDR
			w.Nodes[0].Value.Spec.PodCIDR = "10.244.1.0/24"
		}, "from 10.244.1.0/24", "not recognised", 1},
		{"NodeCIDR without ranges", func(w *world) { w.options.Detect = resolve.DetectNodeCIDR }, "not recognised", "not recognised", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld()
			w.options.Families = []ir.Family{ir.IPv4, ir.IPv6}
			c.change(w)
			programs, list := w.resolve(t)
			if len(list) != c.warnings || strings.Count(codes(list), string(diag.PodsUnknown)) != c.warnings {
				t.Errorf("findings: %v", list)
			}
			if got := programs[0].Options.Pods.String(); got != c.v4 {
				t.Errorf("IPv4 %s, want %s", got, c.v4)
			}
			if got := programs[1].Options.Pods.String(); got != c.v6 {
				t.Errorf("IPv6 %s, want %s", got, c.v6)
			}
		})
	}
}

// Where there is nothing to masquerade, nobody is warned.
func TestNoWarningWithoutServices(t *testing.T) {
	w := newWorld()
	w.Services, w.options.ClusterCIDRs = nil, nil
	if p := w.program(t); len(p.Services) != 0 || p.Family != ir.IPv4 {
		t.Errorf("%+v", p)
	}
}
