package resolve_test

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"pgregory.net/rapid"
)

// fact is one endpoint of the model, its missing conditions filled in.
type fact struct {
	host                        int
	node                        string
	ready, serving, terminating bool
	conditions                  string // as written, with - for missing
	zones, nodes                []string
}

func (f fact) key() string { return fmt.Sprintf("10.244.1.%d:8080", f.host) }

func (f fact) endpoint() discoveryv1.Endpoint {
	return hinted(endpoint(fmt.Sprintf("10.244.1.%d", f.host), f.node, f.conditions), f.zones, f.nodes)
}

// model is kube-proxy's choice, as its semantics are written down: for one
// service port seen from node-a in zone east, the two lists and whether any
// endpoint counts.
type model struct {
	usesCluster, usesLocal bool
}

func (m model) choose(eps []fact) (cluster, local []string, hasAny bool) {
	if m.usesCluster {
		available := topology(eps)
		for _, e := range eps {
			if e.ready && available(e) {
				cluster = append(cluster, e.key())
			}
		}
		if len(cluster) == 0 {
			for _, e := range eps {
				if e.serving && e.terminating {
					cluster = append(cluster, e.key())
				}
			}
		}
		hasAny = len(cluster) > 0
	}
	if !m.usesLocal {
		return cluster, nil, hasAny
	}
	var terminating []string
	for _, e := range eps {
		hasAny = hasAny || e.ready || e.serving && e.terminating
		switch {
		case e.node != "node-a":
		case e.ready:
			local = append(local, e.key())
		case e.serving && e.terminating:
			terminating = append(terminating, e.key())
		}
	}
	if len(local) == 0 {
		local = terminating
	}
	return cluster, local, hasAny
}

func topology(eps []fact) func(fact) bool {
	ready, forNodes, forZones, ourNode, ourZone := 0, 0, 0, false, false
	for _, e := range eps {
		if !e.ready {
			continue
		}
		ready++
		if len(e.nodes) > 0 {
			forNodes++
		}
		if len(e.zones) > 0 {
			forZones++
		}
		ourNode = ourNode || slices.Contains(e.nodes, "node-a")
		ourZone = ourZone || slices.Contains(e.zones, "east")
	}
	switch {
	case ready > 0 && forNodes == ready && ourNode:
		return func(e fact) bool { return slices.Contains(e.nodes, "node-a") }
	case ready > 0 && forZones == ready && ourZone:
		return func(e fact) bool { return slices.Contains(e.zones, "east") }
	}
	return func(fact) bool { return true }
}

// facts generates endpoints; hints are there more often than not, so that they
// count at times.
func facts() *rapid.Generator[fact] {
	return rapid.Custom(func(t *rapid.T) fact {
		f := fact{
			host:       rapid.IntRange(1, 12).Draw(t, "host"),
			node:       rapid.SampledFrom([]string{"node-a", "node-b", ""}).Draw(t, "node"),
			conditions: rapid.StringOfN(rapid.RuneFrom([]rune("TF-")), 3, 3, 3).Draw(t, "conditions"),
		}
		f.ready, f.serving, f.terminating = f.conditions[0] != 'F', f.conditions[1] != 'F', f.conditions[2] == 'T'
		hint := rapid.IntRange(0, 9)
		if hint.Draw(t, "zone hints") > 0 {
			f.zones = rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"east", "west"}), 1, 2, rapid.ID[string]).Draw(t, "zones")
		}
		if hint.Draw(t, "node hints") > 4 {
			f.nodes = []string{rapid.SampledFrom([]string{"node-a", "node-b"}).Draw(t, "hinted node")}
		}
		return f
	})
}

// apply gives a world the model's policies.
func (m *model) apply(t *rapid.T, w *world) {
	internal := rapid.SampledFrom([]corev1.ServiceInternalTrafficPolicy{"Cluster", "Local"}).Draw(t, "internal")
	external := rapid.SampledFrom([]corev1.ServiceExternalTrafficPolicy{"", "Cluster", "Local"}).Draw(t, "external")
	w.service().Spec.InternalTrafficPolicy = &internal
	if external != "" {
		w.service().Spec.Type = corev1.ServiceTypeNodePort
		w.service().Spec.Ports[0].NodePort = 30080
		w.service().Spec.ExternalTrafficPolicy = external
	}
	m.usesCluster = internal == "Cluster" || external != ""
	m.usesLocal = internal == "Local" || external == "Local"
}

func keys(t *rapid.T, w *world) (cluster, local []string, usable bool) {
	programs, list := w.resolve(t)
	if len(list) > 0 || len(programs) != 1 {
		t.Fatalf("%d programs, %v", len(programs), list)
	}
	s := programs[0].Services[0]
	for _, e := range s.Cluster {
		cluster = append(cluster, e.String())
	}
	for _, e := range s.Local {
		local = append(local, e.String())
	}
	return cluster, local, s.Usable
}

func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, m := newWorld(), model{}
		m.apply(t, w)
		eps := rapid.SliceOfNDistinct(facts(), 0, 6, func(f fact) int { return f.host }).Draw(t, "endpoints")
		var all []discoveryv1.Endpoint
		for _, f := range eps {
			all = append(all, f.endpoint())
		}
		w.addSlice("s", all...)
		wantCluster, wantLocal, wantUsable := m.choose(eps)
		slices.Sort(wantCluster)
		slices.Sort(wantLocal)
		cluster, local, usable := keys(t, w)
		if !slices.Equal(cluster, wantCluster) || !slices.Equal(local, wantLocal) || usable != wantUsable {
			t.Errorf("cluster %v, want %v; local %v, want %v; usable %v, want %v", cluster, wantCluster, local, wantLocal, usable, wantUsable)
		}
	})
}

// spread puts endpoints, in a random order, into random slices.
func spread(t *rapid.T, w *world, eps []fact, label string) {
	n := rapid.IntRange(1, 4).Draw(t, label+": slices")
	parts := make([][]discoveryv1.Endpoint, n)
	for _, f := range rapid.Permutation(eps).Draw(t, label+": order") {
		i := rapid.IntRange(0, n-1).Draw(t, label+": slice")
		parts[i] = append(parts[i], f.endpoint())
	}
	for i, p := range parts {
		w.addSlice(fmt.Sprintf("%s-%d", label, i), p...)
	}
	w.Slices = rapid.Permutation(w.Slices).Draw(t, label+": order of slices")
}

// The livelier of two endpoints with one address and port counts, whatever the
// order and the slices they stand in (kubernetes#135266).
func TestOrderDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v, w, m := newWorld(), newWorld(), model{}
		m.apply(t, v)
		w.Services = v.Services
		distinct := func(f fact) string { return fmt.Sprint(f.host%3, f.ready, f.serving, f.terminating) }
		eps := rapid.SliceOfNDistinct(facts(), 0, 8, distinct).Draw(t, "endpoints")
		for i := range eps {
			eps[i].host %= 3
			eps[i].host++
		}
		spread(t, v, eps, "v")
		spread(t, w, eps, "w")
		a, _ := v.resolve(t)
		b, _ := w.resolve(t)
		x, y := a[0].Services[0], b[0].Services[0]
		if text(x.Cluster) != text(y.Cluster) || text(x.Local) != text(y.Local) || x.Usable != y.Usable || !slices.Equal(x.Serving, y.Serving) || a[0].Known != b[0].Known {
			t.Errorf("%+v\n%+v", x, y)
		}
	})
}

// Equally lively ones are told apart by the slices' names, whatever the order
// in which the slices are read.
func TestOrderOfSlicesDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		w.service().Spec.InternalTrafficPolicy = ptr(corev1.ServiceInternalTrafficPolicyLocal)
		spread(t, w, rapid.SliceOfN(facts(), 0, 10).Draw(t, "endpoints"), "w")
		a, _ := w.resolve(t)
		w.Slices = rapid.Permutation(w.Slices).Draw(t, "another order")
		b, _ := w.resolve(t)
		x, y := a[0].Services[0], b[0].Services[0]
		if text(x.Local) != text(y.Local) || x.Usable != y.Usable || !slices.Equal(x.Serving, y.Serving) {
			t.Errorf("%+v\n%+v", x, y)
		}
	})
}

// The cases behind the two properties, by name.
func TestDuplicates(t *testing.T) {
	for _, c := range []struct {
		name         string
		first, other discoveryv1.Endpoint
		want         string
	}{
		{"live beats dead", endpoint("10.244.1.5", "node-a", "TTF"), endpoint("10.244.1.5", "node-b", "FFT"), "10.244.1.5:8080*"},
		{"live elsewhere beats terminating here", endpoint("10.244.1.5", "node-b", "TTF"), endpoint("10.244.1.5", "node-a", "FTT"), "10.244.1.5:8080"},
		{"unready beats terminating and serving", endpoint("10.244.1.5", "node-b", "FFF"), endpoint("10.244.1.5", "node-a", "FTT"), ""},
		{"ready beats unready", endpoint("10.244.1.5", "node-a", "TTF"), endpoint("10.244.1.5", "node-b", "FTF"), "10.244.1.5:8080*"},
	} {
		for _, turned := range []bool{false, true} {
			w := newWorld()
			names := []string{"a", "b"}
			if turned {
				slices.Reverse(names)
			}
			w.addSlice(names[0], c.first)
			w.addSlice(names[1], c.other)
			if got := text(w.port(t).Cluster); got != c.want {
				t.Errorf("%s, turned %v: %q, want %q", c.name, turned, got, c.want)
			}
		}
	}
}
