package conformance

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
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
		fmt.Printf("%s: seed %d\n", t.Name(), seed)
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { f(t, seed) })
	}
}

// dice are those of the n-th object of a seed.
func dice(seed uint64, n int) *rand.Rand { return rand.New(rand.NewPCG(seed, uint64(n))) }

// pick is one of a list.
func pick[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

// oneIn is true once in n times.
func oneIn(r *rand.Rand, n int) bool { return r.IntN(n) == 0 }
