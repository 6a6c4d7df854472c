package conformance

import (
	"bytes"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"svcc/compiler/manifest"
	"svcc/compiler/validate"
	"svcc/ir/diag"
)

// objectsPerSeed is how many random objects each seed tries.
const objectsPerSeed = 5000

// sample is one random object.
type sample struct {
	kind string
	text []byte
	how  []string
}

// draw makes the n-th object of a seed: some object, changed, in some way of
// writing it.
func draw(seed uint64, n int, from map[string][]tree) sample {
	r := dice(seed, n)
	kind := pick(r, []string{"Service", "Service", "Service", "EndpointSlice", "EndpointSlice", "Node"})
	o := clone(pick(r, from[kind])).(tree)
	s := sample{kind: kindOf(o), how: mutate(r, o)}
	switch block, err := yaml.Marshal(o); {
	case !plain(o):
		s.text = lines(o)
	case err == nil && oneIn(r, 2):
		s.text = block
	default:
		s.text = flow(o)
	}
	return s
}

// understood is what svcc makes of an object: the object with its defaults, nil
// if it was not read, and what it says about it.
type understood struct {
	object runtime.Object
	found  diag.List
}

func understand(text []byte) understood {
	set, found := manifest.Load([]string{"-"}, bytes.NewReader(text), manifest.Options{})
	validate.Defaults(set)
	u := understood{object: only(set)}
	return understood{u.object, append(found, validate.Check(set, validate.Options{}).Diagnostics...)}
}

// only is a copy of the one object that was read, before Check makes the text of
// its addresses canonical.
func only(set *manifest.Set) runtime.Object {
	switch {
	case len(set.Services) > 0:
		return set.Services[0].Value.DeepCopy()
	case len(set.Slices) > 0:
		return set.Slices[0].Value.DeepCopy()
	case len(set.Nodes) > 0:
		return set.Nodes[0].Value.DeepCopy()
	}
	return nil
}

// TestInput holds svcc to the API server: both take an object or both refuse it,
// but for what the tables say, and understand the same of what both take.
func TestInput(t *testing.T) {
	from := bases(t)
	eachSeed(t, func(t *testing.T, seed uint64) {
		var c counts
		for n := range objectsPerSeed {
			s := draw(seed, n, from)
			if fault := c.judge(s); fault != "" {
				t.Errorf("object %d of seed %d, a %s: %s\n%s\n%s", n, seed, s.kind, strings.Join(s.how, "; "), fault, s.text)
			}
			if t.Failed() && c.faults >= 10 {
				t.Fatal("too many; the rest is not tried")
			}
		}
		t.Log(c.String())
		did("%d objects", objectsPerSeed)
		if seed == fixedSeed && *onlySeed == 0 {
			c.complete(t)
		}
	})
}

// counts is what became of the objects of a run.
type counts struct {
	both, neither, faults int
	ofKind                map[string]int
	svccAlone             [64]int // by row of its table
	serverAlone           [64]int
}

// judge compares both on one object; "" if they agree or a row says why not.
func (c *counts) judge(s sample) string {
	object, refused := create(s.text)
	u := understand(s.text)
	errors := u.found.Errors()
	fault := ""
	switch {
	case len(refused) > 0 && len(errors) > 0:
		c.neither++
	case len(errors) > 0:
		fault = c.svccRefuses(s.kind, u, errors)
	case len(refused) > 0:
		fault = c.serverRefuses(u, refused)
	default:
		c.both++
		fault = differences(object, u.object)
	}
	if fault != "" {
		c.faults++
	}
	if c.ofKind == nil {
		c.ofKind = map[string]int{}
	}
	c.ofKind[s.kind]++
	return fault
}

func (c *counts) svccRefuses(kind string, u understood, errors diag.List) string {
	for _, d := range errors {
		i := slices.IndexFunc(svccAlone, func(r svccRow) bool { return r.matches(kind, u, d) })
		if i < 0 {
			return "svcc alone refuses it: " + d.String()
		}
		c.svccAlone[i]++
	}
	return ""
}

func (c *counts) serverRefuses(u understood, refused []refusal) string {
	for _, r := range refused {
		i := slices.IndexFunc(serverAlone, func(row serverRow) bool { return row.matches(u, r) })
		if i < 0 {
			return fmt.Sprintf("the API server alone refuses it: %s\nsvcc says: %v", r, u.found)
		}
		c.serverAlone[i]++
	}
	return ""
}

func (c *counts) String() string {
	return fmt.Sprintf("both take %d, both refuse %d; of each kind %v; rows of svcc alone %v, of the API server alone %v",
		c.both, c.neither, c.ofKind, c.svccAlone[:len(svccAlone)], c.serverAlone[:len(serverAlone)])
}

// complete holds that the run tried what it is there to try, and that no row is
// idle: one that nothing matches any more is to be taken out.
func (c *counts) complete(t *testing.T) {
	if c.both < objectsPerSeed/5 || c.neither < objectsPerSeed/5 || len(c.ofKind) != len(fieldsOf) {
		t.Errorf("objects are of few kinds: %s", c)
	}
	for i, r := range svccAlone {
		if c.svccAlone[i] == 0 {
			t.Errorf("no object is refused by svcc alone because %s", r.reason)
		}
	}
	for i, r := range serverAlone {
		if c.serverAlone[i] == 0 {
			t.Errorf("no object is refused by the API server alone because %s", r.reason)
		}
	}
}

// differences tells what svcc understands otherwise than the API server.
func differences(want, got runtime.Object) string {
	if got == nil {
		return "svcc has read nothing, without a word"
	}
	if reflect.TypeOf(want) != reflect.TypeOf(got) {
		return fmt.Sprintf("the API server reads %T, svcc %T", want, got)
	}
	want = want.DeepCopyObject()
	if w, ok := want.(*corev1.Service); ok {
		leaveOut(w, got.(*corev1.Service))
	}
	options := cmp.Options{
		cmpopts.EquateEmpty(),
		cmpopts.IgnoreTypes(metav1.TypeMeta{}),
		cmp.FilterPath(func(p cmp.Path) bool { return p.Last().Type() == reflect.TypeFor[metav1.ObjectMeta]() }, cmp.Comparer(sameMeta)),
		cmpopts.IgnoreFields(discoveryv1.Endpoint{}, "DeprecatedTopology"), // dropped from what a v1 client writes
	}
	if d := cmp.Diff(want, got, options); d != "" {
		return "(-API server +svcc):\n" + d
	}
	return ""
}

// sameMeta compares what svcc keeps of an object's metadata.
func sameMeta(a, b metav1.ObjectMeta) bool {
	return a.Name == b.Name && a.Namespace == b.Namespace && cmp.Equal(a.Labels, b.Labels, cmpopts.EquateEmpty()) && cmp.Equal(a.Annotations, b.Annotations, cmpopts.EquateEmpty())
}

// leaveOut takes away what one side fills in and the other does not: svcc the
// families that follow from cluster IPs, which the registry does when it
// allocates; create the port for health checks, which svcc leaves open.
func leaveOut(want, got *corev1.Service) {
	if follow := familiesOf(want.Spec); len(want.Spec.IPFamilies) < len(follow) {
		want.Spec.IPFamilies = follow
	}
	if got.Spec.HealthCheckNodePort == 0 {
		want.Spec.HealthCheckNodePort = 0
	}
}

// familiesOf are the families of a Service's cluster IPs; none if it has none.
func familiesOf(s corev1.ServiceSpec) (out []corev1.IPFamily) {
	ips := s.ClusterIPs
	if len(ips) == 0 {
		ips = []string{s.ClusterIP}
	}
	for _, ip := range ips {
		switch a, err := netip.ParseAddr(ip); {
		case err != nil:
			return nil
		case a.Is4():
			out = append(out, corev1.IPv4Protocol)
		default:
			out = append(out, corev1.IPv6Protocol)
		}
	}
	return out
}

// TestEachValue is TestInput with one change an object: each value of each field once.
func TestEachValue(t *testing.T) {
	from, r := bases(t), dice(fixedSeed, 0)
	var c counts
	n := 0
	for _, kind := range []string{"Service", "EndpointSlice", "Node"} {
		for _, f := range fieldsOf[kind] {
			for _, v := range f.values {
				o := clone(from[kind][n%len(from[kind])]).(tree)
				n++
				place, ok := find(r, o, f.path)
				if !ok {
					t.Fatalf("no %s has a field %s", kind, f.path)
				}
				place.put(clone(v))
				s := sample{kind: kind, text: lines(o)}
				if fault := c.judge(s); fault != "" {
					t.Errorf("%s: %s = %s: %s\n%s", kind, f.path, flow(v), fault, s.text)
				}
			}
		}
	}
	t.Log(n, "values")
	did("%d values, each once", n)
}
