package conformance

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

var onlySeed = flag.Uint64("seed", 0, "run with this seed alone; 0: with the fixed one and the day's")

// fixedSeed is the one of every run.
const fixedSeed = 1

// eachSeed runs f as a subtest for each seed of this run.
func eachSeed(t *testing.T, f func(t *testing.T, seed uint64)) {
	t.Helper()
	day, err := strconv.ParseUint(time.Now().UTC().Format("20060102"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	seeds := []uint64{fixedSeed, day}
	if *onlySeed != 0 {
		seeds = []uint64{*onlySeed}
	}
	for _, seed := range seeds {
		again := fmt.Sprintf("make conformance ARGS='-run %s -seed %d'", t.Name(), seed)
		fmt.Printf("%s, seed %d (alone: %s)\n", t.Name(), seed, again)
		if !t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { f(t, seed) }) {
			failed = append(failed, again)
		}
	}
}

// What the closing line tells.
var (
	done    []string // how much each test tried
	failed  []string // how to run again what failed
	skipped []string
)

// did notes how much a test tried, and says so at once.
func did(format string, args ...any) {
	done = append(done, fmt.Sprintf(format, args...))
	fmt.Println("  " + done[len(done)-1])
}

// TestMain ends the run with one line that says how svcc stands.
func TestMain(m *testing.M) {
	code := m.Run()
	for _, again := range failed {
		fmt.Println("conformance: again: " + again)
	}
	switch {
	case code != 0:
		fmt.Println("conformance: FAILED: svcc differs from k8s.io/kubernetes")
	case len(done) > 0:
		fmt.Printf("conformance: ok: svcc is as k8s.io/kubernetes is, but for what is listed; %s%s\n", strings.Join(done, ", "), strings.Join(skipped, ""))
	}
	os.Exit(code)
}

// dice are those of the n-th object of a seed.
func dice(seed uint64, n int) *rand.Rand { return rand.New(rand.NewPCG(seed, uint64(n))) }

// pick is one of a list.
func pick[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

// oneIn is true once in n times.
func oneIn(r *rand.Rand, n int) bool { return r.IntN(n) == 0 }
