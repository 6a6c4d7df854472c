package apply

import (
	"context"
	"errors"
	"fmt"
	"time"

	"svcc/apply/state"
	"svcc/apply/sysctl"
	"svcc/emit"
)

// Recover finishes or undoes what an interrupted run left; without a journal it
// does nothing, and needs no lock. Every method that changes the node does the
// same first; this is for a run that gets no further, because its input is
// refused, and must leave the node old or new as a whole all the same.
func (e *Engine) Recover(ctx context.Context) error {
	if err := e.State.Check(); err != nil {
		return err
	}
	if j, err := e.State.Journal(); j == nil || e.Options.DryRun {
		return err
	}
	e.recognize()
	unlock, err := e.State.Lock(ctx, e.Options.LockTimeout)
	if err != nil {
		return err
	}
	defer unlock()
	return e.mend(ctx)
}

// mend is Recover with the lock held.
func (e *Engine) mend(ctx context.Context) error {
	j, err := e.State.Journal()
	if err != nil || j == nil {
		return err
	}
	if e.Options.DryRun {
		e.Log.Warn(e.left(ctx, j), "run", moment(j.When))
		return nil
	}
	e.Log.Warn("mending what an interrupted run left", "run", moment(j.When))
	e.Target.Remember(j.Record.Made)
	if err := e.step("waiting for its last tool", func() error { return e.State.AwaitChild(ctx, j, e.Options.LockTimeout) }); err != nil {
		return err
	}
	if err := e.oneFlavour(ctx); err != nil {
		return fmt.Errorf("mending what an interrupted run left: %w", err)
	}
	if err := e.finishOrUndo(ctx, j); err != nil {
		return fmt.Errorf("%w: mending what an interrupted run left: %w", ErrHalfMade, err)
	}
	return nil
}

// moment is a time for people: seconds are enough.
func moment(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// left says what an interrupted run left, and what the next run does about it.
func (e *Engine) left(ctx context.Context, j *state.Journal) string {
	const unknown = "a run was interrupted; the next run finishes or undoes it first"
	if e.State.Busy() {
		return "another run is under way"
	}
	now, err := e.observe(ctx)
	if err != nil {
		return unknown
	}
	c, err := e.condition(j, false, false, now)
	switch {
	case err != nil:
		return unknown
	case c == Old:
		return "a run was interrupted before it changed a rule; the next run clears that away first"
	case c == New && j.Confirm && !e.State.Confirmed(j.ID):
		return "a run was interrupted while it waited for its confirmation, its rules in force; the next run undoes it first"
	case c == New:
		return "a run was interrupted with its rules in force; the next run completes its record first"
	}
	return "an interrupted run left the node half made, some tables old and some new; the next run mends that first"
}

func (e *Engine) finishOrUndo(ctx context.Context, j *state.Journal) error {
	if !j.Confirm || e.State.Confirmed(j.ID) {
		desired, done, err := e.arrived(ctx, j)
		if err != nil {
			e.Log.Warn("cannot tell whether the interrupted run was complete; undoing it", "because", err)
		} else if done {
			return e.finish(ctx, j, desired)
		}
	}
	text, err := e.State.Undo(j)
	if err != nil {
		return err
	}
	old, err := e.Target.Load(text)
	if err != nil {
		return err
	}
	_, err = e.putBack(ctx, old)
	if err = errors.Join(err, sysctl.Restore(e.root(), j.Sysctled)); err != nil {
		return err
	}
	e.Log.Info("the interrupted run is undone")
	return e.State.Abandon()
}

// arrived says whether the kernel holds all that the journal's run was to write.
func (e *Engine) arrived(ctx context.Context, j *state.Journal) (desired *emit.Ruleset, done bool, err error) {
	if j.Current != "" {
		if desired, err = e.recorded(j.Current); err != nil {
			return nil, false, err
		}
	}
	now, err := e.observe(ctx)
	if err != nil {
		return nil, false, err
	}
	rest, err := e.plan(desired, now)
	return desired, err == nil && rest.Empty(), err
}

// finish does what the interrupted run had left to do.
func (e *Engine) finish(ctx context.Context, j *state.Journal, after *emit.Ruleset) error {
	var before *emit.Ruleset
	if r, err := e.State.Record(); err == nil && r.Current != "" {
		before, _ = e.recorded(r.Current)
	}
	was, _ := programs(before)
	is, _ := programs(after)
	e.follow(ctx, was, is)
	e.Log.Info("the interrupted run was complete but for its record", "run", moment(j.When))
	return e.State.Finish()
}
