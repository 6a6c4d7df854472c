package apply_test

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"svcc/apply"
	"svcc/apply/state"
)

// Where nobody would take the rules back if svcc were killed, no window is opened,
// and nothing is written.
func TestNoWatchdogNoWindow(t *testing.T) {
	w, states, _ := start(t, oldState(t), newState(t))
	writes := w.kernel.Writes()
	guard := func(e *apply.Engine) {
		e.Guard = func(context.Context, string) (func(), func(), error) {
			return apply.StartWatchdog(exec.Command("sh", "-c", "echo no control group >&4"))
		}
	}
	err := to(background, w.engine(confirmIn(time.Hour), guard), newState(t))
	if err == nil || !strings.Contains(err.Error(), "nothing was written") || !strings.Contains(err.Error(), "no control group") {
		t.Errorf("%v", err)
	}
	if w.kernel.Writes() != writes || w.whole(states) != "old" || w.journal() != nil {
		t.Error("the kernel was written to, or a journal is left")
	}
	if _, _, err := apply.StartWatchdog(exec.Command("true")); err == nil {
		t.Error("one that ends at once is taken for a watchdog")
	}
	if err := to(background, w.engine(guard), newState(t)); err != nil {
		t.Errorf("without a window: %v", err)
	}
}

// A window that ended without confirmation is remembered; the undoing of one that
// failed before it was open is not.
func TestRefusedAfterTheWindow(t *testing.T) {
	w, states, calls := start(t, oldState(t), newState(t))
	mustFail(t, to(background, w.engine(confirmIn(20*time.Millisecond)), newState(t)), apply.ErrUnconfirmed)
	writes := w.kernel.Writes()
	mustFail(t, to(background, w.engine(), newState(t)), apply.ErrRefused)
	if w.kernel.Writes() != writes || w.whole(states) != "old" {
		t.Error("refused, and written")
	}
	retry := func(e *apply.Engine) { e.Options.RetryUnconfirmed = true }
	if err := to(background, w.engine(retry), newState(t)); err != nil || w.whole(states) != "new" {
		t.Errorf("%v", err)
	}
	if j, err := w.engine().State.Refused(state.Sum(newState(t).Marshal())); j != nil || err != nil {
		t.Errorf("confirmed, and refused: %v, %v", j, err)
	}
	w, _, _ = start(t, oldState(t), newState(t))
	broken(w, calls-2)
	err := to(background, w.engine(confirmIn(time.Hour)), newState(t))
	w.kernel.Faults = nil
	if err == nil || errors.Is(err, apply.ErrUnconfirmed) {
		t.Errorf("a failure before the window: %v", err)
	}
}

// A watchdog does nothing to another run's window, and undoes its own.
func TestRecoverWindow(t *testing.T) {
	w, states, calls := start(t, oldState(t), newState(t))
	w.crashed(calls, true, newState(t), confirmIn(time.Hour))
	if err := w.engine().RecoverWindow(background, "another"); err != nil || w.whole(states) != "new" || w.journal() == nil {
		t.Errorf("another's: %v, %q", err, w.whole(states))
	}
	if err := w.engine().RecoverWindow(background, w.journal().ID); err != nil || w.whole(states) != "old" || w.journal() != nil {
		t.Errorf("its own: %v, %q", err, w.whole(states))
	}
	mustFail(t, to(background, w.engine(), newState(t)), apply.ErrRefused)
}
