package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// options are what flags choose.
type options struct {
	sizes       []int
	endpoints   int           // of each service of a uniform cluster
	large       int           // endpoints of the one large service
	mix         bool          // a realistic mix instead
	seed        uint64        // of addresses
	rounds      int           // of traffic
	loads       int           // of each text, at most
	packets     int           // of a sample
	slowest     int           // services up to which iptables-nft loads -O0
	loadTimeout time.Duration // for one load
	markdown    bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "kernelbench:", err)
		os.Exit(2)
	}
}

func parseFlags(args []string) (o options, err error) {
	flags := flag.NewFlagSet("kernelbench", flag.ContinueOnError)
	sizes := flags.String("services", "100,1000,10000,30000", "how many Services; above 10000 without -O0")
	flags.IntVar(&o.endpoints, "endpoints", 5, "endpoints of each Service")
	flags.IntVar(&o.large, "large", 500, "endpoints of the one large Service that clusters of 1000 and more have")
	flags.BoolVar(&o.mix, "mix", false, "a realistic mix of Services instead of equal ones")
	flags.Uint64Var(&o.seed, "seed", 1, "chooses the addresses")
	flags.IntVar(&o.rounds, "rounds", 20, "rounds of traffic through all layouts")
	flags.IntVar(&o.loads, "loads", 3, "loads of each text, fewer of those that take long")
	flags.IntVar(&o.packets, "packets", 20000, "packets of a sample, fewer where they take long")
	flags.IntVar(&o.slowest, "nft-o0", 1000, "iptables-nft loads -O0 up to so many Services")
	flags.DurationVar(&o.loadTimeout, "load-timeout", 3*time.Minute, "for one load")
	flags.BoolVar(&o.markdown, "markdown", false, "print tables in Markdown")
	quick := flags.Bool("quick", false, "up to 10000 Services, 8 rounds, each text loaded once")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.sizes, err = parseSizes(*sizes); err != nil || !*quick {
		return o, err
	}
	o.rounds, o.loads = min(o.rounds, 8), 1
	o.sizes = slices.DeleteFunc(o.sizes, func(n int) bool { return n > goalSize })
	return o, nil
}

func parseSizes(words string) (out []int, err error) {
	for _, word := range strings.Split(words, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < leastServices || n > maxServices {
			return nil, fmt.Errorf("services: %q is not a number from %d to %d", word, leastServices, maxServices)
		}
		out = append(out, n)
	}
	return out, nil
}

// run does everything: texts, loads, traffic, tables.
func run(ctx context.Context, args []string, out io.Writer) (err error) {
	o, err := parseFlags(args)
	if err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return errors.New("network namespaces need root")
	}
	dir, err := os.MkdirTemp("", "kernelbench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	layouts, err := prepare(ctx, dir, o)
	if err != nil {
		return err
	}
	w := newWorld(dir)
	defer w.close()
	if err := w.build(ctx, layouts, o); err != nil {
		return err
	}
	if err := w.traffic(ctx, layouts, o); err != nil {
		return err
	}
	return report(out, layouts, o)
}

// progress goes to standard error: the tables alone are the output.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "kernelbench: "+format+"\n", args...)
}
