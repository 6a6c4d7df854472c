package cluster

import (
	"testing"

	"svcc/compiler/manifest"
	"svcc/compiler/validate"
	"svcc/ir/diag"
)

// expected are the warnings that a cluster gives rise to on purpose: pending
// load balancers, and Services whose slices are yet to come.
var expected = map[diag.Code]bool{diag.NoLoadBalancerAddress: true, diag.ServiceWithoutSlice: true}

// A generated cluster could have been read from an API server: nothing is
// wrong with it, and nothing worth a warning but what is there on purpose.
func TestGeneratedClustersAreValid(t *testing.T) {
	for _, o := range []Options{{Services: 2000, DualStack: 0.4}, {Services: 10000, Nodes: 100}} {
		set := setOf(Generate(o))
		validate.Defaults(set)
		found := validate.Check(set, validate.Options{}).Diagnostics
		for _, d := range found {
			if d.Severity >= diag.Warning && !expected[d.Code] {
				t.Errorf("%+v: %s: %s", o, d.Object, d)
			}
		}
		if len(found) == 0 {
			t.Errorf("%+v: validation noted nothing, not even that there are external IPs", o)
		}
	}
}

func setOf(c *Cluster) *manifest.Set {
	set := &manifest.Set{}
	for _, s := range c.Services {
		set.Services = append(set.Services, object(s))
	}
	for _, s := range c.Slices {
		set.Slices = append(set.Slices, object(s))
	}
	for _, n := range c.Nodes {
		set.Nodes = append(set.Nodes, object(n))
	}
	return set
}

func object[T any](v T) *manifest.Object[T] { return &manifest.Object[T]{Value: v} }

// What is written is read back by the loader without a finding, in both forms.
func TestWrittenClustersLoad(t *testing.T) {
	c := Generate(Options{Services: 300, DualStack: 0.4})
	yamlDir, jsonDir := t.TempDir(), t.TempDir()
	if err := c.WriteYAML(yamlDir); err != nil {
		t.Fatal(err)
	}
	if err := c.WriteJSON(jsonDir); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{yamlDir, jsonDir} {
		set, found := manifest.Load([]string{dir}, nil, manifest.Options{})
		for _, d := range found {
			t.Errorf("%s", d)
		}
		if len(set.Services) != len(c.Services) || len(set.Slices) != len(c.Slices) || len(set.Nodes) != len(c.Nodes) {
			t.Errorf("%s: read %d Services, %d EndpointSlices, %d Nodes", dir, len(set.Services), len(set.Slices), len(set.Nodes))
		}
	}
}
