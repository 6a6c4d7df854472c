package resolve_test

import (
	"fmt"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"svcc/ir"
)

// used says by the combination of ready, serving and terminating what becomes
// of an endpoint: y it is used, l only where no other is ready, n never
// (KEP-1669; a missing ready or serving counts as true, a missing terminating
// as false; ready decides whatever the others say).
var used = map[string]byte{
	"---": 'y', "--T": 'y', "--F": 'y', "-T-": 'y', "-TT": 'y', "-TF": 'y', "-F-": 'y', "-FT": 'y', "-FF": 'y',
	"T--": 'y', "T-T": 'y', "T-F": 'y', "TT-": 'y', "TTT": 'y', "TTF": 'y', "TF-": 'y', "TFT": 'y', "TFF": 'y',
	"F--": 'n', "F-T": 'l', "F-F": 'n', "FT-": 'n', "FTT": 'l', "FTF": 'n', "FF-": 'n', "FFT": 'n', "FFF": 'n',
}

func TestConditions(t *testing.T) {
	if len(used) != 27 {
		t.Fatalf("%d combinations", len(used))
	}
	for conditions, use := range used {
		for _, policy := range []corev1.ServiceInternalTrafficPolicy{"Cluster", "Local"} {
			alone, beside := newWorld(), newWorld()
			for _, w := range []*world{alone, beside} {
				w.service().Spec.InternalTrafficPolicy = &policy
				w.addSlice("s", endpoint("10.244.1.5", "node-a", conditions))
			}
			beside.addSlice("t", endpoint("10.244.1.6", "node-a", "TTF"))
			a, b := alone.port(t), beside.port(t)
			listA, listB := a.Cluster, b.Cluster
			if policy == "Local" {
				listA, listB = a.Local, b.Local
			}
			wantA, wantB := "10.244.1.5:8080*", "10.244.1.5:8080* 10.244.1.6:8080*"
			if use == 'n' {
				wantA = ""
			}
			if use != 'y' {
				wantB = "10.244.1.6:8080*"
			}
			if text(listA) != wantA || a.Usable != (use != 'n') {
				t.Errorf("%s, policy %s, alone: %q usable %v, want %q", conditions, policy, text(listA), a.Usable, wantA)
			}
			if text(listB) != wantB || !b.Usable {
				t.Errorf("%s, policy %s, beside a ready one: %q, want %q", conditions, policy, text(listB), wantB)
			}
			if serving := conditions[1] != 'F'; serving != (len(a.Serving) == 1) {
				t.Errorf("%s: serving %v", conditions, a.Serving)
			}
		}
	}
}

// Which lists are made for which policies, from a ready endpoint here (1), a
// ready one elsewhere (2), a terminating one here (3) and one elsewhere (4).
func TestPolicies(t *testing.T) {
	e := map[rune]discoveryv1.Endpoint{
		'1': endpoint("10.244.1.1", "node-a", "TTF"),
		'2': endpoint("10.244.1.2", "node-b", "TTF"),
		'3': endpoint("10.244.1.3", "node-a", "FTT"),
		'4': endpoint("10.244.1.4", "node-b", "FTT"),
		'5': endpoint("10.244.1.5", "node-a", "FTF"), // of no use
		'6': endpoint("10.244.1.6", "", "TTF"),       // of no node
	}
	for _, c := range []struct {
		endpoints, internal, external string
		cluster, local                string
		usable                        bool
	}{
		{"1234", "Cluster", "", "12", "", true},
		{"1234", "Cluster", "Cluster", "12", "", true},
		{"1234", "Cluster", "Local", "12", "1", true},
		{"1234", "Local", "", "", "1", true}, // nothing leads to Cluster
		{"1234", "Local", "Cluster", "12", "1", true},
		{"1234", "Local", "Local", "12", "1", true},
		{"234", "Cluster", "Local", "2", "3", true}, // terminating here beats ready elsewhere
		{"234", "Local", "", "", "3", true},
		{"24", "Local", "Local", "2", "", true}, // usable, but none here
		{"24", "Local", "", "", "", true},
		{"34", "Cluster", "Local", "34", "3", true},
		{"34", "Cluster", "", "34", "", true},
		{"4", "Local", "", "", "", true},
		{"345", "Local", "Local", "34", "3", true},
		{"5", "Local", "Local", "", "", false},
		{"5", "Cluster", "", "", "", false},
		{"6", "Local", "Local", "6", "", true}, // without a node it is local nowhere
		{"", "Local", "Local", "", "", false},
	} {
		t.Run(fmt.Sprintf("%s internal %s external %s", c.endpoints, c.internal, c.external), func(t *testing.T) {
			w := newWorld()
			w.service().Spec.InternalTrafficPolicy = ptr(corev1.ServiceInternalTrafficPolicy(c.internal))
			if c.external != "" {
				w.service().Spec.Type = corev1.ServiceTypeNodePort
				w.service().Spec.Ports[0].NodePort = 30080
				w.service().Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicy(c.external)
			}
			var all []discoveryv1.Endpoint
			for _, r := range c.endpoints {
				all = append(all, e[r])
			}
			w.addSlice("s", all...)
			s := w.port(t)
			if got := numbers(text(s.Cluster)); got != c.cluster {
				t.Errorf("cluster %s, want %s", got, c.cluster)
			}
			if got := numbers(text(s.Local)); got != c.local {
				t.Errorf("local %s, want %s", got, c.local)
			}
			if s.Usable != c.usable {
				t.Errorf("usable %v", s.Usable)
			}
		})
	}
}

// numbers takes "10.244.1.1:8080* 10.244.1.2:8080" to "12".
func numbers(s string) string {
	out := ""
	for i := range s {
		if s[i] == ':' {
			out += s[i-1 : i]
		}
	}
	return out
}

// hinted adds hints: "z:east,west" for zones, "n:node-a" for nodes.
func hinted(e discoveryv1.Endpoint, zones, nodes []string) discoveryv1.Endpoint {
	if zones == nil && nodes == nil {
		return e
	}
	e.Hints = &discoveryv1.EndpointHints{}
	for _, z := range zones {
		e.Hints.ForZones = append(e.Hints.ForZones, discoveryv1.ForZone{Name: z})
	}
	for _, n := range nodes {
		e.Hints.ForNodes = append(e.Hints.ForNodes, discoveryv1.ForNode{Name: n})
	}
	return e
}

// Topology (KEP-2433, KEP-3015): node hints, then zone hints, then all; only
// where every ready endpoint has a hint of the kind and one is for us.
func TestTopology(t *testing.T) {
	type hint struct{ zones, nodes []string }
	east, west := []string{"east"}, []string{"west"}
	a, b := []string{"node-a"}, []string{"node-b"}
	for _, c := range []struct {
		name       string
		hints      []hint // of endpoints 1, 2, 3
		conditions []string
		zone       string
		want       string
	}{
		{"zone", []hint{{east, nil}, {west, nil}, {east, nil}}, nil, "east", "13"},
		{"several zones in a hint", []hint{{append(west, "east"), nil}, {west, nil}, {west, nil}}, nil, "east", "1"},
		{"no hint for our zone", []hint{{west, nil}, {west, nil}, {west, nil}}, nil, "east", "123"},
		{"one without a hint", []hint{{east, nil}, {nil, nil}, {west, nil}}, nil, "east", "123"},
		{"one with empty hints", []hint{{east, nil}, {[]string{}, nil}, {west, nil}}, nil, "east", "123"},
		{"node without a zone", []hint{{east, nil}, {west, nil}, {east, nil}}, nil, "", "123"},
		{"unready without a hint does not count", []hint{{east, nil}, {nil, nil}, {west, nil}}, []string{"TTF", "FTF", "TTF"}, "east", "1"},
		{"unready with our hint does not count", []hint{{west, nil}, {east, nil}, {west, nil}}, []string{"TTF", "FTF", "TTF"}, "east", "13"},
		{"node", []hint{{nil, a}, {nil, b}, {nil, a}}, nil, "east", "13"},
		{"node needs no zone", []hint{{nil, a}, {nil, b}, {nil, a}}, nil, "", "13"},
		{"node before zone", []hint{{west, a}, {east, b}, {east, b}}, nil, "east", "1"},
		{"no hint for our node, zones", []hint{{east, b}, {west, b}, {west, b}}, nil, "east", "1"},
		{"node hints incomplete, zones", []hint{{east, a}, {west, nil}, {west, a}}, nil, "east", "1"},
		{"mixed kinds", []hint{{east, nil}, {nil, a}, {east, nil}}, nil, "east", "123"},
		{"the fallback ignores hints", []hint{{west, b}, {west, b}, {east, a}}, []string{"FTT", "FTT", "FTT"}, "east", "123"},
		{"the fallback stands back", []hint{{west, b}, {west, b}, {east, a}}, []string{"FTT", "TTF", "FTT"}, "east", "2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld()
			w.options.Zone = &c.zone
			var all []discoveryv1.Endpoint
			for i, h := range c.hints {
				conditions := "TTF"
				if c.conditions != nil {
					conditions = c.conditions[i]
				}
				all = append(all, hinted(endpoint(fmt.Sprintf("10.244.1.%d", i+1), "node-b", conditions), h.zones, h.nodes))
			}
			w.addSlice("s", all...)
			if got := numbers(text(w.port(t).Cluster)); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// Lists of policy Local do not look at hints.
func TestLocalIgnoresTopology(t *testing.T) {
	w := newWorld()
	w.service().Spec.InternalTrafficPolicy = ptr(corev1.ServiceInternalTrafficPolicyLocal)
	w.addSlice("s", hinted(endpoint("10.244.1.1", "node-a", "TTF"), []string{"west"}, nil), hinted(endpoint("10.244.1.2", "node-b", "TTF"), []string{"east"}, nil))
	if got := text(w.port(t).Local); got != "10.244.1.1:8080*" {
		t.Error(got)
	}
}

// Whose endpoints a slice's are: by label, namespace, type, port name and
// protocol, and by nothing else.
func TestWhichSlices(t *testing.T) {
	none := func(*discoveryv1.EndpointSlice) {}
	for _, c := range []struct {
		name   string
		port   corev1.ServicePort
		change func(s *discoveryv1.EndpointSlice)
		want   string
	}{
		{"meets", corev1.ServicePort{Name: "http", Protocol: "TCP", Port: 80}, none, "10.244.1.5:8080*"},
		{"no label", corev1.ServicePort{Name: "http", Protocol: "TCP", Port: 80}, func(s *discoveryv1.EndpointSlice) { s.Labels = nil }, ""},
		{"empty label", corev1.ServicePort{Name: "http", Protocol: "TCP", Port: 80}, func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelServiceName] = "" }, ""},
		{"another service", corev1.ServicePort{Name: "http", Protocol: "TCP", Port: 80}, func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelServiceName] = "api" }, ""},
		{"headless, whatever its value", corev1.ServicePort{Name: "http", Protocol: "TCP", Port: 80}, func(s *discoveryv1.EndpointSlice) { s.Labels["service.kubernetes.io/headless"] = "" }, ""},
		{"another namespace", corev1.ServicePort{Name: "http", Protocol: "TCP", Port: 80}, func(s *discoveryv1.EndpointSlice) { s.Namespace = "other" }, ""},
		{"IPv6", corev1.ServicePort{Name: "http", Protocol: "TCP", Port: 80}, func(s *discoveryv1.EndpointSlice) { s.AddressType = "IPv6"; s.Endpoints[0].Addresses[0] = "fd00::1" }, ""},
		{"host names", corev1.ServicePort{Name: "http", Protocol: "TCP", Port: 80}, func(s *discoveryv1.EndpointSlice) { s.AddressType = "FQDN" }, ""},
		{"another port name", corev1.ServicePort{Name: "web", Protocol: "TCP", Port: 8080}, none, ""},
		{"unnamed service port", corev1.ServicePort{Protocol: "TCP", Port: 8080}, none, ""},
		{"both unnamed", corev1.ServicePort{Protocol: "TCP", Port: 80}, func(s *discoveryv1.EndpointSlice) { s.Ports[0].Name = nil }, "10.244.1.5:8080*"},
		{"protocol is TCP by default", corev1.ServicePort{Name: "http", Protocol: "TCP", Port: 80}, func(s *discoveryv1.EndpointSlice) { s.Ports[0].Protocol = nil }, "10.244.1.5:8080*"},
		{"another protocol", corev1.ServicePort{Name: "http", Protocol: "UDP", Port: 80}, none, ""},
		{"no number", corev1.ServicePort{Name: "http", Protocol: "TCP", Port: 80}, func(s *discoveryv1.EndpointSlice) { s.Ports[0].Port = nil }, ""},
		{"number 0", corev1.ServicePort{Name: "http", Protocol: "TCP", Port: 80}, func(s *discoveryv1.EndpointSlice) { s.Ports[0].Port = ptr(int32(0)) }, ""},
		{"only the first address", corev1.ServicePort{Name: "http", Protocol: "TCP", Port: 80}, func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses = []string{"10.244.1.5", "10.244.1.6"} }, "10.244.1.5:8080*"},
		{"leading zeros are decimal", corev1.ServicePort{Name: "http", Protocol: "TCP", Port: 80}, func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses = []string{"10.244.001.010"} }, "10.244.1.10:8080*"},
		{"no address", corev1.ServicePort{Name: "http", Protocol: "TCP", Port: 80}, func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses = nil }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld()
			w.service().Spec.Ports[0] = c.port
			c.change(w.addSlice("s", endpoint("10.244.1.5", "node-a", "TTF")))
			s := w.port(t)
			if got := text(s.Cluster); got != c.want || s.Usable != (c.want != "") {
				t.Errorf("%q usable %v, want %q", got, s.Usable, c.want)
			}
		})
	}
}

// Slices unite; one port name may have a number in each; known endpoints are
// counted whatever their state, each once.
func TestUnion(t *testing.T) {
	w := newWorld()
	w.addSlice("a", endpoint("10.244.1.1", "node-a", "TTF"), endpoint("10.244.1.2", "node-b", "TTF"))
	w.addSlice("b", endpoint("10.244.1.2", "node-b", "TTF"), endpoint("10.244.1.3", "node-b", "FFF"))
	w.addSlice("c", endpoint("10.244.1.1", "node-a", "TTF")).Ports[0].Port = ptr(int32(9090))
	p := w.program(t)
	if got := text(p.Services[0].Cluster); got != "10.244.1.1:8080* 10.244.1.1:9090* 10.244.1.2:8080" {
		t.Error(got)
	}
	if p.Known != 4 {
		t.Errorf("%d endpoints known, want 4", p.Known)
	}
}

// Of two equally live endpoints with one address in one slice, the same one
// counts in whatever order they are listed.
func TestOneAddressTwiceInAnyOrder(t *testing.T) {
	on := func(node, zone string) discoveryv1.Endpoint {
		e := discoveryv1.Endpoint{Addresses: []string{"10.0.0.1"}, NodeName: &node}
		if zone != "" {
			e.Hints = &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: zone}}}
		}
		return e
	}
	for _, c := range [][2]discoveryv1.Endpoint{
		{on("node-a", "east"), on("node-b", "west")},
		{on("node-a", "east"), on("node-a", "west")},
	} {
		var got [2]*ir.ServicePort
		for i := range got {
			w := newWorld()
			w.addSlice("one", c[i], c[1-i])
			w.addSlice("two", discoveryv1.Endpoint{Addresses: []string{"10.0.0.2"}, Hints: on("", "west").Hints})
			got[i] = w.port(t)
		}
		if !reflect.DeepEqual(got[0], got[1]) {
			t.Errorf("%+v\n%+v", got[0], got[1])
		}
	}
}
