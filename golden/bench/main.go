package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"svcc/golden/cluster"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
}

// run does what the arguments say: everything, or as a child one part.
func run(args []string, out io.Writer) error {
	if len(args) > 0 && args[0] == childArg {
		return child(args[1:], out)
	}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	services := flags.String("services", "100,1000,10000", "how many Services, one number for each column")
	var o cluster.Options
	flags.Float64Var(&o.EndpointsPerService, "endpoints", 5, "endpoints of a Service, on average")
	flags.Float64Var(&o.DualStack, "dual-stack", 0, "share of Services with both families")
	flags.Uint64Var(&o.Seed, "seed", 1, "chooses the clusters")
	level := flags.Int("level", 1, "-O of the builds")
	growing := flags.Bool("growth", true, "also how commands grow with what one Service has many of")
	rounds := flags.Int("rounds", 1, "builds of each cluster, of which the one with the least CPU time counts")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var columns []measured
	for _, word := range strings.Split(*services, ",") {
		n, err := strconv.Atoi(word)
		if err != nil {
			return err
		}
		o.Services = n
		m, err := measure(o, *level, *rounds)
		if err != nil {
			return fmt.Errorf("%d services: %w", n, err)
		}
		columns = append(columns, m)
	}
	if err := printTable(out, columns); err != nil || !*growing {
		return err
	}
	return printGrowth(out)
}
