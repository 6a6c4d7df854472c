package validate

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"svcc/compiler/manifest"
	"svcc/ir"
)

// The order of objects must not show: not in what is found, not in whom it
// makes faulty, not in what Check leaves in the objects.
func TestOrderDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := drawSet(t)
		other := shuffled(t, set)
		o := drawOptions(t)
		Defaults(set)
		Defaults(other)
		a, b := Check(set, o), Check(other, o)
		if diff := cmp.Diff(a, b); diff != "" {
			t.Fatalf("(-as drawn +shuffled)\n%s", diff)
		}
		byLine := func(x, y *manifest.Object[*corev1.Service]) int { return x.Pos.Compare(y.Pos) }
		slices.SortFunc(other.Services, byLine)
		for i := range set.Services {
			if diff := cmp.Diff(set.Services[i].Value, other.Services[i].Value); diff != "" {
				t.Fatalf("(-as drawn +shuffled)\n%s", diff)
			}
		}
	})
}

// What is not faulty is fit for rules, whatever was read.
func TestWhatPassesIsFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := drawSet(t)
		Defaults(set)
		r := Check(set, drawOptions(t))
		if len(r.Faulty) > 0 && len(r.Diagnostics.Errors()) == 0 {
			t.Fatalf("faulty without an error: %v", r.Faulty)
		}
		seen := map[string]bool{}
		for _, s := range set.Services {
			key := s.Value.Namespace + "/" + s.Value.Name
			if !newService(s).ignored() && !r.Faulty[key] && !seen[key] {
				checkFit(t, s.Value)
			}
			seen[key] = true
		}
		for _, x := range set.Slices {
			if sl := newSlice(x); sl.owner != "" && sl.family != 0 && seen[sl.owner] && !r.Faulty[sl.owner] && !slices.ContainsFunc(set.Services, sl.ignoredBy) {
				checkSliceFit(t, sl)
			}
		}
	})
}

func (x *slice) ignoredBy(o *manifest.Object[*corev1.Service]) bool {
	s := newService(o)
	return s.key == x.owner && s.ignored() || x.Value.Labels[corev1.IsHeadlessService] != ""
}

func checkFit(t *rapid.T, s *corev1.Service) {
	for _, p := range s.Spec.Ports {
		if p.Name != "" && len(validation.IsDNS1123Label(p.Name)) > 0 || !validPort(p.Port) || !validProtocol(p.Protocol) || p.NodePort != 0 && !validPort(p.NodePort) {
			t.Fatalf("port %+v", p)
		}
	}
	if len(validation.IsDNS1123Label(s.Namespace)) > 0 || len(validation.IsDNS1123Label(s.Name)) > 0 || s.Spec.ClusterIP != "" && len(s.Spec.Ports) == 0 {
		t.Fatalf("service %q/%q", s.Namespace, s.Name)
	}
	addrs := slices.Concat(s.Spec.ClusterIPs, s.Spec.ExternalIPs)
	for _, in := range s.Status.LoadBalancer.Ingress {
		addrs = append(addrs, in.IP)
	}
	for _, text := range addrs {
		if a, err := netip.ParseAddr(text); text != "" && (err != nil || a.String() != text || a.Is4In6() || a.Zone() != "") {
			t.Fatalf("address %q", text)
		}
	}
	for _, text := range s.Spec.LoadBalancerSourceRanges {
		if p, err := netip.ParsePrefix(text); err != nil || p.Masked().String() != text {
			t.Fatalf("range %q", text)
		}
	}
}

func checkSliceFit(t *rapid.T, x *slice) {
	for _, e := range x.Value.Endpoints {
		if a, err := netip.ParseAddr(e.Addresses[0]); err != nil || a.String() != e.Addresses[0] || ir.FamilyOf(a) != x.family || special(a) != "" {
			t.Fatalf("endpoint %q", e.Addresses)
		}
	}
}

func drawOptions(t *rapid.T) (o Options) {
	if rapid.Bool().Draw(t, "node") {
		o.NodeIPs = []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")}
	}
	if rapid.Bool().Draw(t, "cidr") {
		o.ServiceCIDRs = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/31")}
	}
	o.Families = rapid.SampledFrom([][]ir.Family{nil, {ir.IPv4}, {ir.IPv6}, {ir.IPv4, ir.IPv6}}).Draw(t, "families")
	return o
}

// The pools are small, so that objects meet; one draw in thirty is bad, in any
// of the ways listed.
var (
	drawName      = mostly([]string{"a", "b", "c", "d", "7"}, "", "A", "a b", "a\n-A", strings.Repeat("x", 64))
	drawNamespace = mostly([]string{"a"}, "", "B", "b")
	drawPortName  = mostly([]string{"", "a", "b", "c"}, "%", "A", "a\n")
	drawPort      = mostly([]int32{80, 81, 82}, 0, -1, 65536)
	drawNodePort  = mostly([]int32{0, 30000, 30001, 30002, 40000}, -1)
	drawProtocol  = mostly([]corev1.Protocol{"", "TCP", "UDP", "SCTP"}, "tcp", "\n")
	drawAddress   = mostly([]string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "010.0.0.1", "::ffff:10.0.0.2"}, "fd00::1", "FD00::3", "127.0.0.1", "::", "x", "", "None", "10.0.0.1 ")
	drawPod       = mostly([]string{"10.9.0.1", "10.9.0.2", "010.9.0.3"}, "fd00::1", "127.0.0.1", "x", "10.0.0.1")
	drawRange     = mostly([]string{"10.0.0.0/8", " 10.0.0.1/8 ", "0.0.0.0/0", "fd00::/8", "::ffff:10.0.0.0/104"}, "x", "10.0.0.0/33", "")
	drawType      = mostly([]corev1.ServiceType{"ClusterIP", "NodePort", "LoadBalancer"}, "", "ExternalName", "x")
	drawIPFamily  = mostly([]corev1.IPFamily{"IPv4"}, "IPv6", "x")
	drawETP       = mostly([]corev1.ServiceExternalTrafficPolicy{"", ""}, "Local", "Cluster", "x")
	drawAffinity  = mostly([]corev1.ServiceAffinity{"", "None", "ClientIP"}, "x")
	drawNear      = mostly([]*string{nil, new("PreferClose"), new("PreferSameNode")}, new("x"))
	drawIPMode    = mostly([]*corev1.LoadBalancerIPMode{nil, new(corev1.LoadBalancerIPModeProxy)}, new(corev1.LoadBalancerIPMode("x")))
	drawFamily    = mostly([]discoveryv1.AddressType{"IPv4"}, "IPv6", "FQDN", "x")
	drawBool      = rapid.SampledFrom([]*bool{nil, new(true), new(false)})
)

func mostly[T any](good []T, bad ...T) *rapid.Generator[T] {
	return rapid.Custom(func(t *rapid.T) T {
		if rapid.IntRange(0, 29).Draw(t, "luck") == 17 {
			return rapid.SampledFrom(bad).Draw(t, "bad")
		}
		return rapid.SampledFrom(good).Draw(t, "good")
	})
}

func list[T any](g *rapid.Generator[T], most int) *rapid.Generator[[]T] {
	return rapid.Custom(func(t *rapid.T) []T {
		least := 1
		if rapid.IntRange(0, 29).Draw(t, "none") == 17 {
			least = 0
		}
		return rapid.SliceOfN(g, least, most).Draw(t, "list")
	})
}

func drawMeta(t *rapid.T, labels ...string) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Name: drawName.Draw(t, "name"), Namespace: drawNamespace.Draw(t, "namespace"), Labels: map[string]string{}}
	for _, l := range labels {
		if rapid.IntRange(0, 29).Draw(t, l) == 17 {
			m.Labels[l] = "x"
		}
	}
	return m
}

var drawService = rapid.Custom(func(t *rapid.T) *corev1.Service {
	s := &corev1.Service{ObjectMeta: drawMeta(t, proxyNameLabel)}
	sp := &s.Spec
	sp.Type = drawType.Draw(t, "type")
	sp.ClusterIP = drawAddress.Draw(t, "clusterIP")
	if rapid.Bool().Draw(t, "several") {
		sp.ClusterIPs = append([]string{sp.ClusterIP}, list(rapid.Just("fd00::2"), 1).Draw(t, "second")...)
	}
	sp.IPFamilies = list(drawIPFamily, 1).Draw(t, "ipFamilies")
	sp.Ports = list(rapid.Custom(func(t *rapid.T) corev1.ServicePort {
		return corev1.ServicePort{Name: drawPortName.Draw(t, "name"), Protocol: drawProtocol.Draw(t, "protocol"), Port: drawPort.Draw(t, "port"), NodePort: drawNodePort.Draw(t, "nodePort")}
	}), 2).Draw(t, "ports")
	misplaced := rapid.IntRange(0, 29).Draw(t, "misplaced") == 17
	for i := range sp.Ports {
		if sp.Type == corev1.ServiceTypeClusterIP && !misplaced {
			sp.Ports[i].NodePort = 0
		}
	}
	if rapid.IntRange(0, 3).Draw(t, "external") == 0 {
		sp.ExternalIPs = list(drawAddress, 1).Draw(t, "externalIPs")
	}
	if sp.Type == corev1.ServiceTypeLoadBalancer || misplaced {
		sp.LoadBalancerSourceRanges = list(drawRange, 2).Draw(t, "ranges")
		s.Status.LoadBalancer.Ingress = list(drawIngress, 2).Draw(t, "ingress")
	}
	sp.ExternalTrafficPolicy = drawETP.Draw(t, "eTP")
	if wantsHealthCheck(sp) || misplaced {
		sp.HealthCheckNodePort = drawNodePort.Draw(t, "health")
	}
	sp.SessionAffinity = drawAffinity.Draw(t, "affinity")
	sp.PublishNotReadyAddresses = rapid.Bool().Draw(t, "publish")
	sp.TrafficDistribution = drawNear.Draw(t, "distribution")
	return s
})

var drawIngress = rapid.Custom(func(t *rapid.T) corev1.LoadBalancerIngress {
	return corev1.LoadBalancerIngress{IP: drawAddress.Draw(t, "ip"), IPMode: drawIPMode.Draw(t, "mode")}
})

var drawSlice = rapid.Custom(func(t *rapid.T) *discoveryv1.EndpointSlice {
	x := &discoveryv1.EndpointSlice{ObjectMeta: drawMeta(t, corev1.IsHeadlessService)}
	if owner := drawName.Draw(t, "owner"); owner != "" {
		x.Labels[discoveryv1.LabelServiceName] = owner
	}
	x.AddressType = drawFamily.Draw(t, "addressType")
	x.Ports = list(rapid.Custom(func(t *rapid.T) discoveryv1.EndpointPort {
		return discoveryv1.EndpointPort{Name: rapid.Ptr(drawPortName, true).Draw(t, "name"), Protocol: rapid.Ptr(drawProtocol, true).Draw(t, "protocol"), Port: rapid.Ptr(drawPort, true).Draw(t, "port")}
	}), 2).Draw(t, "ports")
	x.Endpoints = list(drawEndpoint, 3).Draw(t, "endpoints")
	return x
})

var drawEndpoint = rapid.Custom(func(t *rapid.T) discoveryv1.Endpoint {
	e := discoveryv1.Endpoint{Addresses: list(drawPod, 1).Draw(t, "addresses"), NodeName: rapid.Ptr(drawName, true).Draw(t, "nodeName")}
	e.Conditions.Ready = drawBool.Draw(t, "ready")
	if rapid.Bool().Draw(t, "hints") {
		e.Hints = &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: "z"}}}
	}
	if rapid.Bool().Draw(t, "target") {
		e.TargetRef = &corev1.ObjectReference{Name: drawName.Draw(t, "pod")}
	}
	return e
})

var drawNode = rapid.Custom(func(t *rapid.T) *corev1.Node {
	n := &corev1.Node{ObjectMeta: drawMeta(t)}
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: drawAddress.Draw(t, "address")}}
	return n
})

func drawSet(t *rapid.T) *manifest.Set {
	return &manifest.Set{
		Services:     wrap(list(drawService, 5).Draw(t, "services")),
		Slices:       wrap(list(drawSlice, 6).Draw(t, "slices")),
		Nodes:        wrap(list(drawNode, 2).Draw(t, "nodes")),
		ServiceCIDRs: wrap([]*networkingv1.ServiceCIDR{{Spec: networkingv1.ServiceCIDRSpec{CIDRs: list(drawRange, 1).Draw(t, "cidrs")}}}),
	}
}

// shuffled is a copy of the set in another order; places go with their objects.
func shuffled(t *rapid.T, set *manifest.Set) *manifest.Set {
	return &manifest.Set{
		Services:     permute(t, set.Services, (*corev1.Service).DeepCopy),
		Slices:       permute(t, set.Slices, (*discoveryv1.EndpointSlice).DeepCopy),
		Nodes:        permute(t, set.Nodes, (*corev1.Node).DeepCopy),
		ServiceCIDRs: permute(t, set.ServiceCIDRs, (*networkingv1.ServiceCIDR).DeepCopy),
	}
}

func permute[T any](t *rapid.T, objects []*manifest.Object[T], clone func(T) T) []*manifest.Object[T] {
	out := make([]*manifest.Object[T], len(objects))
	for i, o := range objects {
		out[i] = &manifest.Object[T]{Value: clone(o.Value), Pos: o.Pos}
	}
	if len(out) > 1 {
		out = rapid.Permutation(out).Draw(t, "order")
	}
	return out
}
