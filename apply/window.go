package apply

import (
	"context"
	"errors"
	"fmt"

	"svcc/apply/state"
	"svcc/emit"
)

// Guard starts a process that undoes the window of a run if this process ends
// before the run does, however it ends. opened tells it that the rules are in
// force and the time runs; ended that nothing is left to do.
type Guard func(ctx context.Context, id string) (opened, ended func(), err error)

// ErrWindow is a window for confirmation that is open, and that a run which nobody
// watches leaves alone.
var ErrWindow = errors.New("an apply waits to be confirmed; nothing was changed")

// ErrRefused is a ruleset that nobody confirmed when it was tried.
var ErrRefused = errors.New("nobody confirmed this ruleset when it was tried")

// guard starts what outlives this process, if the run is to wait.
func (r *run) guard(ctx context.Context, id string) error {
	r.opened = func() {}
	if r.Guard == nil || r.Options.ConfirmTimeout == 0 {
		return nil
	}
	opened, ended, err := r.Guard(ctx, id)
	if err != nil {
		return fmt.Errorf("nothing was written: if this process were killed, nobody would take the rules back: %w", err)
	}
	r.opened, r.ended = opened, ended
	return nil
}

// mayConfirm refuses a ruleset of which a window ended without confirmation: what
// nobody agreed to must not come into force by a run that nobody may watch.
func (r *run) mayConfirm() error {
	if r.Options.ConfirmTimeout > 0 || r.Options.RetryUnconfirmed {
		return nil
	}
	j, err := r.State.Refused(state.Sum(r.text))
	if err != nil || j == nil {
		return err
	}
	err = fmt.Errorf("%w, %s by %s; try it again with --confirm-timeout, or apply it for good with --retry-unconfirmed", ErrRefused, moment(j.When), j.Who)
	if r.Options.DryRun {
		r.Log.Warn("this would be refused", "because", err)
		return nil
	}
	return err
}

// Confirmed reads the last ruleset that was confirmed. It is nil if none is to be in
// force; ever says whether any run was completed.
func Confirmed(d *state.Dir) (rs *emit.Ruleset, ever bool, err error) {
	r, err := d.Record()
	if err != nil || r.Current == "" {
		return nil, r.ID != "", err
	}
	rs, err = Recorded(d, r.Current)
	return rs, true, err
}

// RecoverWindow is Recover for the window of one run: if the journal is of another
// by now, or gone, there is nothing to do.
func (e *Engine) RecoverWindow(ctx context.Context, id string) error {
	if left, err := e.windowLeft(id); !left {
		return err
	}
	e.recognize()
	unlock, err := e.State.Lock(ctx, e.Options.LockTimeout)
	if err != nil {
		return err
	}
	defer unlock()
	if left, err := e.windowLeft(id); !left {
		return err
	}
	return e.mend(ctx)
}

// windowLeft says whether the journal is that of a run.
func (e *Engine) windowLeft(id string) (bool, error) {
	j, err := e.State.Journal()
	return err == nil && j != nil && j.ID == id, err
}
