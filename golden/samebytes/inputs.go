package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"

	"svcc/golden"
	"svcc/golden/cluster"
	"svcc/ir"
	"svcc/ir/irtest"
)

// input is what both builds are given: a folder of manifests, and flags.
type input struct {
	name   string
	number int
	dir    string
	args   []string // flags and paths from dir
	flags  []string // the flags alone
}

// inputs writes all inputs below a folder.
func inputs(dir string, random int) ([]input, error) {
	var list []input
	add := func(name string, write func(dir string) error, flags []string, paths ...string) error {
		in := input{name: name, number: len(list), dir: filepath.Join(dir, fmt.Sprint(len(list))), flags: flags}
		in.args = append(append(in.args, flags...), paths...)
		list = append(list, in)
		return errors.Join(os.MkdirAll(in.dir, 0o755), write(in.dir))
	}
	if err := addCases(add); err != nil {
		return nil, err
	}
	for _, r := range references {
		if err := add(r.path, copied(r.path), r.flags, "."); err != nil {
			return nil, err
		}
	}
	for seed := range random {
		objects, flags := drawn(uint64(seed))
		if err := add(fmt.Sprintf("random cluster %d", seed), objects.WriteYAML, flags, "."); err != nil {
			return nil, err
		}
	}
	return list, nil
}

type adder func(name string, write func(dir string) error, flags []string, paths ...string) error

func addCases(add adder) error {
	files, err := filepath.Glob("golden/cases/*.txtar")
	if err == nil && len(files) == 0 {
		err = errors.New("no golden case is below the current folder")
	}
	if err != nil {
		return err
	}
	for _, file := range files {
		c, err := golden.ReadCase(file)
		if err != nil {
			return err
		}
		if err := add(c.Name, c.Unpack, c.Flags, c.Inputs()...); err != nil {
			return err
		}
	}
	return nil
}

// references are clusters in the repository, most of which kube-proxy's rules stand
// beside.
var references = []struct {
	path  string // a file or a folder
	flags []string
}{
	{"golden/testdata/kube-proxy/cluster", []string{"--node=node-0", "--cluster-cidr=10.128.0.0/9,fd00:10:128::/48"}},
	{"golden/testdata/kube-proxy/example/cluster.yaml", []string{"--node=node-a", "--cluster-cidr=10.244.0.0/16"}},
	{"golden/testdata/nodes/cluster.yaml", []string{"--node=node-a", "--cluster-cidr=10.244.0.0/16"}},
	{"docs/example", []string{"--node=node-0", "--cluster-cidr=10.128.0.0/9"}},
}

// copied copies a file, or a folder's files.
func copied(path string) func(dir string) error {
	return func(dir string) error {
		files := []string{path}
		if i, err := os.Stat(path); err == nil && i.IsDir() {
			if files, err = filepath.Glob(path + "/*"); err != nil {
				return err
			}
		}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, filepath.Base(f)), text, 0o644)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
}

// drawn is a random cluster: even seeds give one as clusters are, odd ones an awkward
// one of either family.
func drawn(seed uint64) (*cluster.Cluster, []string) {
	r := rand.New(rand.NewPCG(seed, 11))
	if seed%2 == 0 {
		o := cluster.Options{Services: 1 + r.IntN(60), DualStack: []float64{0, 0.5, 1}[r.IntN(3)], Seed: seed}
		return cluster.Generate(o), append([]string{"--node=node-0", "--cluster-cidr=" + cluster.PodCIDR + "," + cluster.PodCIDR6}, looks(r)...)
	}
	p := irtest.Cluster(r, ir.Families[seed/2%2], 1+r.IntN(60))
	return objects(p), append(flagsOf(p), "--keep-going")
}

// looks are options that show in rules, each now and then.
func looks(r *rand.Rand) (flags []string) {
	for _, f := range []string{"--masquerade-all", "--masquerade-bit=3", "--tcp-be-liberal", "--localhost-nodeports=false",
		"--nodeport-addresses=primary", "--detect-local-mode=NodeCIDR"} {
		if r.IntN(4) == 0 {
			flags = append(flags, f)
		}
	}
	return flags
}
