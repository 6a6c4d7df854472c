package apply

import (
	"context"
	"fmt"
	"time"

	"svcc/apply/state"
)

// confirmPoll is how often both sides look for the other's word.
const confirmPoll = 50 * time.Millisecond

// awaitConfirm waits until somebody agrees to the run.
func (r *run) awaitConfirm(ctx context.Context, id string) error {
	r.opened()
	r.Log.Info("the rules are in force; confirm them with \"svcc confirm\", or they are taken back", "within", r.Options.ConfirmTimeout)
	deadline := time.After(r.Options.ConfirmTimeout)
	for {
		if r.State.Confirmed(id) {
			return nil
		}
		select {
		case <-ctx.Done():
			r.unconfirmed = true
			return fmt.Errorf("while waiting to be confirmed: %w", context.Cause(ctx))
		case <-deadline:
			r.unconfirmed = true
			return fmt.Errorf("%w (%s)", ErrUnconfirmed, r.Options.ConfirmTimeout)
		case <-time.After(confirmPoll):
		}
	}
}

// Confirm agrees to the run that waits for it, and waits until that run is
// completed. It is ErrNoneWaits if there is none, ErrUnconfirmed if it came too
// late.
func Confirm(ctx context.Context, d *state.Dir) error {
	if err := d.Check(); err != nil {
		return err
	}
	j, err := d.Journal()
	switch {
	case err != nil:
		return err
	case j == nil || !j.Confirm:
		return ErrNoneWaits
	case !d.Busy():
		return fmt.Errorf("%w: the one that did was interrupted; any other run of svcc undoes it", ErrNoneWaits)
	}
	if err := d.Confirm(j.ID); err != nil {
		return err
	}
	for d.Busy() {
		if now, err := d.Journal(); err != nil || now == nil || now.ID != j.ID {
			break
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(confirmPoll):
		}
	}
	return completed(d, j.ID)
}

// completed says whether the record is of that run.
func completed(d *state.Dir, id string) error {
	r, err := d.Record()
	if err == nil && r.ID != id {
		err = fmt.Errorf("%w: the run is being undone", ErrUnconfirmed)
	}
	return err
}
