package golden

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	discoveryv1 "k8s.io/api/discovery/v1"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"svcc/cmd/svcc/cli"
	"svcc/compiler"
	"svcc/golden/cluster"
	"svcc/ir"
)

// drawCluster is one of some clusters that have every kind of Service.
func drawCluster(t *rapid.T) *cluster.Cluster {
	return cluster.Generate(cluster.Options{
		Services: rapid.IntRange(1, 15).Draw(t, "services"), Nodes: 4, EndpointsPerService: 4, DualStack: 0.5,
		Seed: rapid.Uint64Range(1, 20).Draw(t, "seed"),
	})
}

// objects are a cluster's, as any program would write them.
func objects(c *cluster.Cluster) (out []any) {
	for _, s := range c.Services {
		out = append(out, s)
	}
	for _, s := range c.Slices {
		out = append(out, s)
	}
	for _, n := range c.Nodes {
		out = append(out, n)
	}
	return out
}

// form is a way to write objects down: each is one or more files.
type form struct {
	files [][]any
	json  bool // as Lists
}

// write writes the files and gives their names in the order in which they
// shall be read.
func (f form) write(dir string) (paths []string, err error) {
	for i, objects := range f.files {
		var b bytes.Buffer
		for _, o := range objects {
			text, err := yaml.Marshal(o)
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(&b, "---\n%s", text)
		}
		path := filepath.Join(dir, fmt.Sprintf("%d.yaml", i))
		if f.json {
			b.Reset()
			path = filepath.Join(dir, fmt.Sprintf("%d.json", i))
			if err := json.NewEncoder(&b).Encode(map[string]any{"apiVersion": "v1", "kind": "List", "items": objects}); err != nil {
				return nil, err
			}
		}
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// compileForm compiles what a form says.
func compileForm(t *rapid.T, f form) *compiler.Result {
	dir, err := os.MkdirTemp("", "svcc-form")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	paths, err := f.write(dir)
	if err != nil {
		t.Fatal(err)
	}
	flags := []string{"--node=node-0", "--no-proof", "--cluster-cidr=" + cluster.PodCIDR + "," + cluster.PodCIDR6}
	o, err := cli.BuildOptions(append(flags, paths...), "")
	if err != nil {
		t.Fatal(err)
	}
	r, err := compiler.Compile(o, nil)
	if err != nil || r.Units == nil {
		t.Fatalf("%v: %v", err, r.Diagnostics.Errors())
	}
	return r
}

// rulesetFile is the file that a result makes.
func rulesetFile(t *rapid.T, r *compiler.Result) string {
	rs, err := r.Ruleset(false)
	if err != nil {
		t.Fatal(err)
	}
	return string(rs.Marshal())
}

// shuffled has the same objects in other files, in another order, and their
// endpoints in another order and in other slices.
func shuffled(t *rapid.T, c *cluster.Cluster) form {
	var all []any
	for _, o := range objects(c) {
		if s, ok := o.(*discoveryv1.EndpointSlice); ok {
			all = append(all, split(t, s)...)
		} else {
			all = append(all, o)
		}
	}
	all = rapid.Permutation(all).Draw(t, "objects")
	f := form{files: make([][]any, rapid.IntRange(1, 4).Draw(t, "files")), json: rapid.Bool().Draw(t, "json")}
	for i, o := range all {
		f.files[i%len(f.files)] = append(f.files[i%len(f.files)], o)
	}
	return f
}

// split shuffles a slice's endpoints and deals them out to one or more slices,
// the last of which may be empty.
func split(t *rapid.T, s *discoveryv1.EndpointSlice) (out []any) {
	endpoints := slices.Clone(s.Endpoints)
	if len(endpoints) > 1 {
		endpoints = rapid.Permutation(endpoints).Draw(t, "endpoints")
	}
	n := rapid.IntRange(1, 3).Draw(t, "slices")
	for i := range n {
		part := s.DeepCopy()
		part.Name = fmt.Sprintf("%c-%s", 'c'-i, s.Name)
		part.UID = ""
		part.Endpoints = nil
		for j := i; j < len(endpoints); j += n {
			part.Endpoints = append(part.Endpoints, endpoints[j])
		}
		out = append(out, part)
	}
	return out
}

// The ruleset file is byte-identical for the same meaning.
func TestRulesetDoesNotDependOnOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCluster(t)
		want := rulesetFile(t, compileForm(t, form{files: [][]any{objects(c)}}))
		got := rulesetFile(t, compileForm(t, shuffled(t, c)))
		if got != want {
			t.Errorf("-in order +shuffled:\n%s", cmp.Diff(want, got))
		}
	})
}

// What is left of a family's slices when the other's are gone is the same
// text: families are compiled each by itself.
func TestFamiliesAreIndependent(t *testing.T) {
	changed := 0
	rapid.Check(t, func(t *rapid.T) {
		c := drawCluster(t)
		gone := rapid.SampledFrom([]discoveryv1.AddressType{discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6}).Draw(t, "gone")
		before := sectionTexts(compileForm(t, form{files: [][]any{objects(c)}}))
		c.Slices = slices.DeleteFunc(c.Slices, func(s *discoveryv1.EndpointSlice) bool { return s.AddressType == gone })
		after := sectionTexts(compileForm(t, form{files: [][]any{objects(c)}}))
		for f, text := range before {
			if (f == ir.IPv6) == (gone == discoveryv1.AddressTypeIPv6) {
				if after[f] != text {
					changed++
				}
				continue
			}
			if after[f] != text {
				t.Errorf("without slices of %s, %s is another:\n%s", gone, f, cmp.Diff(text, after[f]))
			}
		}
	})
	if changed == 0 {
		t.Error("no family was changed by what it lost")
	}
}

func sectionTexts(r *compiler.Result) map[ir.Family]string {
	out := map[ir.Family]string{}
	for _, u := range r.Units {
		for _, s := range u.Sections {
			out[u.Family] += string(s.Text)
		}
	}
	return out
}

// A file for --families of one is that family's section of the file for both.
func TestOneFamilyOfTwo(t *testing.T) {
	both := sectionTexts(compileArgs(t, twoFamilies...))
	for _, f := range ir.Families {
		one := sectionTexts(compileArgs(t, append(slices.Clone(twoFamilies), "--families="+f.String())...))
		if len(one) != 1 || one[f] != both[f] || one[f] == "" {
			t.Errorf("%s: %s", f, cmp.Diff(both[f], one[f]))
		}
	}
}
