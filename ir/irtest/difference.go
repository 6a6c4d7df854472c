package irtest

import (
	"fmt"

	"svcc/ir"
	"svcc/ir/eval"
)

// fewestProbes is less than any Program has. With fewer, nothing is shown.
const fewestProbes = 90

// Difference holds what tells outcomes to what a Program means: for every one of
// Probes the outcome is the same, final mark and verdicts included. It gives the
// first probe for which it is not, and how; "" for none.
func Difference(p *ir.Program, outcome func(eval.Packet, eval.Host) (eval.Outcome, error)) (at eval.Probe, how string) {
	spec, n := eval.NewProgram(p), 0
	for x := range Probes(p) {
		n++
		at = x
		want, err := spec.Outcome(x.Packet, x.Host)
		if err != nil {
			return x, fmt.Sprintf("%s at %v: the Program: %v", x, x.Host.Addrs, err)
		}
		got, err := outcome(x.Packet, x.Host)
		if err != nil || !got.Equal(want) {
			return x, fmt.Sprintf("%s at %v: %v\nshould:\n%swould:\n%s", x, x.Host.Addrs, err, want, got)
		}
	}
	if n < fewestProbes {
		return at, fmt.Sprintf("only %d probes", n)
	}
	return at, ""
}
