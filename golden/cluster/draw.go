package cluster

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// draw is a source of choices.
type draw struct{ *rand.Rand }

func newDraw(seed uint64) draw { return draw{rand.New(rand.NewPCG(seed, 0x73766363))} }

// chance is true with probability p.
func (d draw) chance(p float64) bool { return d.Float64() < p }

// between gives a number from low to high, both included.
func (d draw) between(low, high int) int { return low + d.IntN(high-low+1) }

// uid gives a random (version 4) UUID.
func (d draw) uid() string {
	a, b := d.Uint64(), d.Uint64()
	return fmt.Sprintf("%08x-%04x-4%03x-%04x-%012x", a>>32, a>>16&0xffff, a&0xfff, 0x8000|b>>48&0x3fff, b&0xffffffffffff)
}

// suffix gives n letters as the API server appends to generateName.
func (d draw) suffix(n int) string {
	const alphabet = "bcdfghjklmnpqrstvwxz2456789" // without what spells words
	out := make([]byte, n)
	for i := range out {
		out[i] = alphabet[d.IntN(len(alphabet))]
	}
	return string(out)
}

// pick gives one of the choices.
func pick[T any](d draw, choices []T) T { return choices[d.IntN(len(choices))] }

// deck gives n indices into weights, shuffled, each as often as its weight's
// share of n says, so that even a small cluster has the mix of a large one.
func (d draw) deck(n int, weights []int) []int {
	total := 0
	for _, w := range weights {
		total += w
	}
	out := make([]int, 0, n)
	seen := 0
	for i, w := range weights {
		for seen += w; len(out) < (seen*n+total/2)/total; {
			out = append(out, i)
		}
	}
	d.Shuffle(n, func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// Sizes of Services: one endpoint each, and the rest by a log-normal law, whose
// spread makes the median 2 when the average is 5.
const (
	sizeSpread   = 1.6
	largestSize  = 1000 // endpoints of one Service
	quantileStep = 0.5  // the middle of each quantile stands for it
)

// sizes gives n numbers of endpoints, shuffled, with the given average. They
// are the law's quantiles rather than drawn, so that the average holds for
// small n as well.
func (d draw) sizes(n int, average float64) []int {
	extra, total := make([]float64, n), 0.0
	for i := range extra {
		p := (float64(i) + quantileStep) / float64(n)
		extra[i] = math.Exp(sizeSpread * math.Sqrt2 * math.Erfinv(2*p-1))
		total += extra[i]
	}
	out, carry := make([]int, n), 0.0
	for i, x := range extra {
		carry += x * (average - 1) * float64(n) / total
		whole := math.Floor(carry)
		carry -= whole // the next size gets what rounding left over
		out[i] = min(1+int(whole), largestSize)
	}
	d.Shuffle(n, func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}
