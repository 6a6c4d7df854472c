// Command gen writes a generated cluster into a directory:
//
//	go run ./golden/cluster/gen -services 1000 -dir out
//
// When reviewing a change here, look for: anything but flags. What a cluster
// looks like is decided in package cluster.
package main

import (
	"flag"
	"fmt"
	"os"

	"svcc/golden/cluster"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(2)
	}
}

func run() error {
	var o cluster.Options
	flag.IntVar(&o.Services, "services", 1000, "how many Services")
	flag.IntVar(&o.Nodes, "nodes", 0, "how many Nodes; 0: one for every 50 endpoints")
	flag.Float64Var(&o.EndpointsPerService, "endpoints", 5, "endpoints of a Service, on average")
	flag.Float64Var(&o.DualStack, "dual-stack", 0, "share of Services with both families, from 0 to 1")
	flag.Uint64Var(&o.Seed, "seed", 1, "chooses one of the clusters with these figures")
	dir := flag.String("dir", "", "where to write (required)")
	asJSON := flag.Bool("json", false, "write JSON Lists rather than YAML documents")
	flag.Parse()
	if *dir == "" || flag.NArg() > 0 {
		return fmt.Errorf("usage: gen -dir DIR [-services N] ... (see -help)")
	}
	if err := o.Check(); err != nil {
		return err
	}
	c := cluster.Generate(o)
	fmt.Printf("%d services, %d slices, %d nodes\n", len(c.Services), len(c.Slices), len(c.Nodes))
	if *asJSON {
		return c.WriteJSON(*dir)
	}
	return c.WriteYAML(*dir)
}
