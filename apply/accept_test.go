package apply_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"svcc/apply"
	"svcc/emit"
)

// No tool that restores, be it to test, is given a ruleset that is not accepted.
func TestAcceptComesFirst(t *testing.T) {
	w := newWorld(t)
	no := errors.New("not accepted")
	refusing := func(e *apply.Engine) {
		e.Accept = func(_, _ *emit.Ruleset) error { return no }
	}
	before := len(w.kernel.Calls())
	for _, with := range [][]func(*apply.Engine){{refusing}, {refusing, dryRun}} {
		_, err := w.engine(with...).Apply(context.Background(), oldState(t))
		mustFail(t, err, no)
	}
	for _, c := range w.kernel.Calls()[before:] {
		if slices.Contains([]string{"iptables-restore", "ip6tables-restore"}, c.Input.Tool) {
			t.Errorf("%s %q was run", c.Input.Tool, c.Input.Args)
		}
	}
	w.apply(oldState(t))
	if r := w.apply(oldState(t), refusing); r.Wrote { // nothing is to be written
		t.Error("the same ruleset was written twice")
	}
}
