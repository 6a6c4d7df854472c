package validate

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"svcc/compiler/manifest"
	"svcc/golden/cluster"
	"svcc/ir"
	"svcc/ir/diag"
)

func load(t testing.TB, text string) *manifest.Set {
	t.Helper()
	set, list := manifest.Load([]string{"-"}, strings.NewReader(text), manifest.Options{})
	if len(list) > 0 {
		t.Fatal(list)
	}
	Defaults(set)
	return set
}

// Addresses reach later stages in one form, at their own index.
func TestAddressesBecomeCanonical(t *testing.T) {
	set := load(t, readCase(t, "testdata/errors/address-form.yaml"))
	Check(set, Options{})
	s := set.Services[0].Value
	got := []any{s.Spec.ClusterIP, s.Spec.ClusterIPs, s.Spec.ExternalIPs, s.Spec.LoadBalancerSourceRanges,
		s.Status.LoadBalancer.Ingress[0].IP, set.Slices[0].Value.Endpoints[0].Addresses, set.ServiceCIDRs[0].Value.Spec.CIDRs}
	want := []any{"10.96.0.10", []string{"10.96.0.10"}, []string{"198.51.100.7"}, []string{"192.0.2.0/24", "10.0.0.0/8"},
		"203.0.113.5", []string{"10.244.0.10"}, []string{"10.96.0.0/16"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if again := Check(set, Options{}); len(codesOf(again.Diagnostics)) != 2 {
		t.Errorf("a second Check still finds %v", codesOf(again.Diagnostics))
	}
}

// An address of the load balancer that cannot be read goes, and no other.
func TestUnreadableIngressGoesAlone(t *testing.T) {
	set := load(t, readCase(t, "testdata/errors/ingress-unreadable.yaml"))
	Check(set, Options{})
	vip := corev1.LoadBalancerIPModeVIP
	want := []corev1.LoadBalancerIngress{{}, {IP: "203.0.113.6", IPMode: &vip}}
	if diff := cmp.Diff(want, set.Services[0].Value.Status.LoadBalancer.Ingress); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// Of a family that is not asked for, nothing is said.
func TestFamiliesAskedFor(t *testing.T) {
	for file, code := range map[string]diag.Code{
		"no-cluster-ip-of-family":  diag.NoClusterIPOfFamily,
		"family-not-served":        diag.FamilyNotServed,
		"family-without-slice":     diag.FamilyWithoutSlice,
		"slice-family-unused":      diag.SliceFamilyUnused,
		"ranges-leave-family-open": diag.RangesLeaveFamilyOpen,
	} {
		has := func(f ...ir.Family) bool {
			set := load(t, readCase(t, "testdata/errors/"+file+".yaml"))
			list := Check(set, Options{Families: f}).Diagnostics
			for _, d := range list {
				if d.Code == code {
					return true
				}
			}
			return false
		}
		if !has() || !has(ir.IPv6) || has(ir.IPv4) {
			t.Errorf("%s: %s is not about IPv6 alone", file, code)
		}
	}
}

// Under --strict the Services of what becomes an error are faulty, and the same
// is found.
func TestStrict(t *testing.T) {
	for file, service := range map[string]string{
		"ranges-leave-family-open": "demo/lb",
		"no-node-port":             "demo/node",
		"port-unmatched":           "demo/bad",
		"external-ip-is-node":      "", // a warning that stays one
	} {
		text := readCase(t, "testdata/errors/"+file+".yaml")
		lax, strict := Check(load(t, text), Options{}), Check(load(t, text), Options{Strict: true})
		if diff := cmp.Diff(lax.Diagnostics, strict.Diagnostics); diff != "" {
			t.Errorf("%s: (-lax +strict)\n%s", file, diff)
		}
		if len(lax.Faulty) > 0 || service != "" && !strict.Faulty[service] || strict.Faulty["demo/good"] || service == "" && len(strict.Faulty) > 0 {
			t.Errorf("%s: faulty %v, under strict %v", file, lax.Faulty, strict.Faulty)
		}
	}
}

// The hint of a Service without slices tells what is the matter.
func TestHintWithoutSlices(t *testing.T) {
	text := readCase(t, "testdata/errors/service-without-slice.yaml")
	for want, change := range map[string]func(*manifest.Set){
		"kubectl get endpointslices": func(*manifest.Set) {},
		"--endpoints":                func(set *manifest.Set) { set.Skipped = map[string]int{"v1/Endpoints": 1} },
		"no selector":                func(set *manifest.Set) { set.Services[0].Value.Spec.Selector = nil },
	} {
		set := load(t, text)
		change(set)
		list := Check(set, Options{}).Diagnostics
		if len(list) != 1 || !strings.Contains(list[0].Hint, want) {
			t.Errorf("want one finding with the hint %q, got %v", want, list)
		}
	}
}

// Every error says what to do or names the value that is wrong.
func TestMessagesAreSentences(t *testing.T) {
	for _, file := range errorFiles(t) {
		text := readCase(t, file)
		_, _, o := expectations(t, text)
		for _, d := range Check(load(t, text), o).Diagnostics {
			if strings.HasSuffix(d.Message, ".") || strings.ContainsAny(d.Message+d.Hint+d.Object, "\n\r\t") {
				t.Errorf("%s", d)
			}
			if d.Object == "" || d.Pos.Line == 0 {
				t.Errorf("of what and where? %s", d)
			}
		}
	}
}

// A healthy cluster has no errors, and warnings only where something is
// missing on purpose.
func TestHealthyCluster(t *testing.T) {
	set := generated(500)
	Defaults(set)
	r := Check(set, Options{})
	if len(r.Faulty) > 0 {
		t.Errorf("faulty: %v", r.Faulty)
	}
	for _, d := range r.Diagnostics {
		if d.Severity > diag.Note && d.Code != diag.ServiceWithoutSlice && d.Code != diag.NoLoadBalancerAddress {
			t.Errorf("%s: %s", d.Object, d)
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	set := generated(10000)
	Defaults(set)
	for b.Loop() {
		Check(set, Options{})
	}
}

// generated is a cluster of the golden generator, without places.
func generated(services int) *manifest.Set {
	c := cluster.Generate(cluster.Options{Services: services, DualStack: 0.3})
	return &manifest.Set{Services: wrap(c.Services), Slices: wrap(c.Slices), Nodes: wrap(c.Nodes)}
}

func wrap[T any](values []T) (objects []*manifest.Object[T]) {
	for i, v := range values {
		objects = append(objects, &manifest.Object[T]{Value: v, Pos: diag.Pos{File: "x.yaml", Line: i + 1}})
	}
	return objects
}
