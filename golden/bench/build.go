package main

import (
	"bytes"
	"errors"

	"svcc/compiler"
	"svcc/golden/cluster"
)

// build compiles the cluster in dir for its first node, with the proof, and
// makes the whole ruleset file.
func build(dir string, level int) (built, error) {
	o := compiler.NewOptions()
	o.Paths, o.Level = []string{dir}, level
	node, pods := "node-0", cluster.PodCIDR+","+cluster.PodCIDR6
	o.Flags.Node, o.Flags.ClusterCIDR = &node, &pods
	r, err := compiler.Compile(o, nil)
	if err != nil {
		return built{}, err
	}
	if len(r.Units) == 0 {
		return built{}, errors.New("nothing was compiled: " + r.Diagnostics.Errors()[0].String())
	}
	return report(r)
}

// report gives the figures of a build.
func report(r *compiler.Result) (built, error) {
	var out built
	for _, s := range r.Stages {
		out.Stages = append(out.Stages, stage(s))
	}
	for _, u := range r.Units {
		for _, s := range u.Sections {
			out.Rules += bytes.Count(s.Text, []byte("\n-A "))
		}
	}
	rs, err := r.Ruleset(false)
	if err != nil {
		return built{}, err
	}
	out.Bytes = len(rs.Marshal())
	return out, nil
}
