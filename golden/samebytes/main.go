package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"
)

func main() {
	flags := flag.NewFlagSet("samebytes", flag.ExitOnError)
	base := flags.String("base", "", "the commit to compare the working tree with (required)")
	random := flags.Int("random", 200, "how many random clusters")
	only := flags.String("run", "", "only inputs whose name this regular expression matches")
	messages := flags.Bool("messages", false, "also compare what build, lint, explain and diff say")
	_ = flags.Parse(os.Args[1:])
	if *base == "" || flags.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "usage: samebytes -base COMMIT [-random N] [-run REGEXP] [-messages], in the folder of go.mod")
		os.Exit(2)
	}
	same, err := run(*base, *random, *only, *messages)
	if err != nil {
		fmt.Fprintln(os.Stderr, "samebytes:", err)
		os.Exit(2)
	}
	if !same {
		os.Exit(1)
	}
}

// run compares the commit with the working tree below the current folder.
func run(base string, random int, only string, messages bool) (same bool, err error) {
	chosen, err := regexp.Compile(only)
	if err != nil {
		return false, err
	}
	dir, err := os.MkdirTemp("", "samebytes-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	binaries, err := builds(dir, base)
	if err != nil {
		return false, err
	}
	list, err := inputs(filepath.Join(dir, "in"), random)
	if err != nil {
		return false, err
	}
	list = slices.DeleteFunc(list, func(in input) bool { return !chosen.MatchString(in.name) })
	t := &tally{out: os.Stdout}
	c := comparer{builds: binaries, dir: dir, messages: messages, tally: t}
	if err := c.all(list); err != nil {
		return false, err
	}
	return t.close(len(list)), nil
}

// all compares every input, as many at once as there are processors.
func (c comparer) all(list []input) error {
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, in := range list {
		g.Go(func() error { return c.one(in, list[max(0, i-1)]) })
	}
	return g.Wait()
}

// close prints the last line, and says whether the builds are the same. Where no run
// wrote a thing, nothing was proved.
func (t *tally) close(inputs int) bool {
	fmt.Fprintf(t.out, "%d inputs, %d runs of each build, %d of them without output: %d texts compared, %d differences\n",
		inputs, t.runs, t.refused, t.texts, t.differences)
	return t.differences == 0 && t.runs > t.refused
}
