package apply

import (
	"context"
	"errors"
	"fmt"

	"svcc/apply/sysctl"
)

// write brings the kernel to the plan's end, or leaves it as it was.
func (r *run) write(ctx context.Context) error {
	next := r.next()
	if err := r.guard(ctx, next.ID); err != nil {
		return err
	}
	if r.ended != nil {
		defer r.ended()
	}
	err := r.step("writing the journal", func() error {
		return r.State.Begin(next, r.text, r.old.Marshal(), r.sysctls.was, r.Options.ConfirmTimeout > 0)
	})
	if err != nil {
		return fmt.Errorf("nothing was written: the state cannot be kept: %w", err)
	}
	// From here on, every way out ends in Finish or in undo.
	if err := r.commit(ctx); err != nil {
		return r.undo(ctx, err)
	}
	r.follow(ctx, r.promised, r.promises)
	if r.Options.ConfirmTimeout > 0 {
		err = r.awaitConfirm(ctx, next.ID)
	}
	if err == nil {
		err = r.State.Finish()
	}
	if err != nil {
		err = r.undo(ctx, err)
		r.follow(context.WithoutCancel(ctx), r.promises, r.promised)
		return err
	}
	r.report.Wrote, r.report.Recorded = true, true
	r.keepSeen()
	return nil
}

// commit writes, reads back and compares.
func (r *run) commit(ctx context.Context) error {
	if _, err := sysctl.Set(r.root(), r.sysctls.change); err != nil {
		return err
	}
	err := r.step("writing the rules", func() error { return r.Target.Commit(ctx, r.report.Plan) })
	if err != nil {
		return err
	}
	rest, err := r.rest(ctx)
	if err == nil && !rest.Empty() {
		// What was seen before, and taken over, is not held against the kernel.
		r.Target.Forget()
		rest, err = r.rest(ctx)
	}
	if err != nil {
		return fmt.Errorf("reading back: %w", err)
	}
	r.report.rest = rest
	if !rest.Empty() {
		return fmt.Errorf("the kernel does not hold what was written: %s", firstOf(rest))
	}
	return context.Cause(ctx)
}

// rest is what is left to do.
func (r *run) rest(ctx context.Context) (Plan, error) {
	now, err := r.observe(ctx)
	if err != nil {
		return nil, err
	}
	r.now = now
	return r.plan(r.after, now)
}

// dropSeen lets the next run read everything anew: what this one was told may be
// why it failed.
func (e *Engine) dropSeen() {
	e.Target.Forget()
	if !e.Options.DryRun {
		if err := e.State.KeepSeen(nil); err != nil {
			e.Log.Debug("the next run may read less than everything", "because", err)
		}
	}
}

// firstOf shows one difference of a plan.
func firstOf(p Plan) string {
	rules := p.Rules()
	if len(rules) == 0 {
		return "it would be written again"
	}
	if len(rules) == 1 {
		return rules[0].String()
	}
	return fmt.Sprintf("%s, and %d more", rules[0], len(rules)-1)
}

// undo puts the old state back after a failure, and says so.
func (r *run) undo(ctx context.Context, cause error) error {
	if stopped := context.Cause(ctx); stopped != nil && !errors.Is(cause, stopped) {
		cause = fmt.Errorf("%w: %w", stopped, cause)
	}
	r.dropSeen()
	wrote, err := r.putBack(ctx, r.old)
	err = errors.Join(err, sysctl.Restore(r.root(), r.sysctls.was))
	if err != nil {
		return fmt.Errorf("%w; %w: %w", cause, ErrHalfMade, err)
	}
	forget := r.State.Drop
	if r.unconfirmed {
		forget = r.State.Refuse
	}
	if err := forget(); err != nil {
		r.Log.Warn("the journal is left; the next run will find that there is nothing to mend", "because", err)
	}
	if !wrote {
		return fmt.Errorf("%w; no rule was changed", cause)
	}
	return fmt.Errorf("%w; the old state is back", cause)
}

// putBack restores what was observed and makes sure of it, trying twice.
// Whatever ended the run does not end this. It says whether it had to write.
func (e *Engine) putBack(ctx context.Context, old Observed) (wrote bool, err error) {
	ctx = context.WithoutCancel(ctx)
	e.Target.Forget()
	for range 2 {
		now, lookErr := e.observe(ctx)
		if lookErr == nil && now.Equal(old) {
			return wrote, nil
		}
		wrote = true
		err = e.step("putting the old rules back", func() error { return e.Target.Restore(ctx, old) })
		e.Target.Forget()
	}
	now, lookErr := e.observe(ctx)
	switch {
	case lookErr == nil && now.Equal(old):
		return wrote, nil
	case err == nil && lookErr == nil:
		err = errors.New("the kernel holds something else after it")
	case lookErr != nil:
		lookErr = fmt.Errorf("what the kernel holds now is not known: %w", lookErr)
	}
	return wrote, errors.Join(err, lookErr)
}
