package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/pflag"

	"svcc/apply"
	"svcc/apply/state"
	"svcc/emit"
)

// unattended are the flags of an apply that nobody watches: by a unit at boot, by a
// timer, by a loop. It leaves an open window alone, and never brings what nobody
// confirmed.
type unattended struct {
	confirmed   bool // the last confirmed ruleset; what is given only if none ever was
	orConfirmed bool // what is given; the last confirmed one if that was refused
}

func (u *unattended) register(f *pflag.FlagSet) {
	f.BoolVar(&u.confirmed, "confirmed", false, "apply the last confirmed ruleset again; PATH only where none was ever confirmed (for units)")
	f.BoolVar(&u.orConfirmed, "or-confirmed", false, "apply the last confirmed ruleset instead, if nobody confirmed RULESET when it was tried (for units)")
}

func (u *unattended) asked() bool { return u.confirmed || u.orConfirmed }

// check refuses flags that contradict each other.
func (u *unattended) check(e engineFlags) error {
	switch {
	case u.confirmed && u.orConfirmed:
		return errors.New("--confirmed and --or-confirmed are two ways to choose; give one")
	case u.asked() && (e.confirm > 0 || e.retry):
		return errors.New("--confirmed and --or-confirmed are for runs that nobody watches: --confirm-timeout and --retry-unconfirmed are not")
	}
	return nil
}

// needPaths wants something to apply, unless it can be what is confirmed.
func (u *unattended) needPaths(args []string) error {
	if u.confirmed {
		return nil
	}
	return needPaths(nil, args)
}

// choose gives the ruleset of a run that nobody watches; nil for nothing to do. A
// window that nobody confirmed is undone before, so that its ruleset is known.
func (a *applyCommand) choose(ctx context.Context, args []string, e *apply.Engine) (*emit.Ruleset, error) {
	open, err := e.State.WindowOpen()
	switch {
	case err != nil:
		return nil, applied(err)
	case open:
		return nil, exit{exitWindow, apply.ErrWindow}
	}
	if err := e.Recover(ctx); err != nil {
		return nil, applied(err)
	}
	confirmed, ever, err := apply.Confirmed(e.State)
	if err != nil {
		return nil, applied(err)
	}
	if a.confirmed && ever {
		return a.again(e, confirmed), nil
	}
	if len(args) == 0 {
		return nil, exit{exitRefused, errors.New("no ruleset was ever confirmed on this node; give one to apply")}
	}
	rs, err := a.input(args, e)
	if err != nil || confirmed == nil {
		return rs, err
	}
	refused, err := e.State.Refused(state.Sum(rs.Marshal()))
	if err != nil || refused == nil {
		return rs, applied(err)
	}
	e.Log.Error("nobody confirmed this ruleset when it was tried; the last confirmed one stays", "tried", refused.When)
	return a.again(e, confirmed), nil
}

// again aims at a ruleset of the state directory; nil for none.
func (a *applyCommand) again(e *apply.Engine, rs *emit.Ruleset) *emit.Ruleset {
	if rs == nil {
		e.Log.Info("svcc remove took the rules of this node away: nothing to apply")
		return nil
	}
	a.aimAt(e, rs.Head.Mode)
	e.Options.Node, e.Accept = "", nil // as it was when it was confirmed
	return rs
}

// recoverFirst is for a command that writes without an engine: what an interrupted
// run left is finished or undone before.
func recoverFirst(ctx context.Context, s streams, dir string) error {
	e := engineFlags{dir: dir, logFormat: "text", lock: 30 * time.Second}
	en, err := e.engine(s, false, false)
	if err != nil {
		return err
	}
	return en.Recover(ctx)
}
