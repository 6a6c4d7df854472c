package irtest_test

import (
	"testing"

	"svcc/ir/eval"
	"svcc/ir/irtest"
)

// One outcome that is another, of the last probe, is found, and nothing else is.
func TestDifference(t *testing.T) {
	p := irtest.Shop()
	spec := eval.NewProgram(p)
	if _, how := irtest.Difference(p, spec.Outcome); how != "" {
		t.Fatal(how)
	}
	var last eval.Probe
	n, seen := 0, 0
	for last = range irtest.Probes(p) {
		n++
	}
	at, how := irtest.Difference(p, func(x eval.Packet, h eval.Host) (eval.Outcome, error) {
		if seen++; seen == n {
			return nil, nil
		}
		return spec.Outcome(x, h)
	})
	if how == "" || at.Packet != last.Packet {
		t.Errorf("found %q at %s, want a difference at %s", how, at, last)
	}
}
