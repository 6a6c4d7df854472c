package apply

import (
	"context"
	"log/slog"
	"time"

	"svcc/apply/state"
	"svcc/emit"
	"svcc/ir"
)

// Engine brings a node from one state to another. Its methods that change the
// node take the lock, and first finish or undo what an interrupted run left. An
// error of theirs means that the node is as it was, unless it is ErrHalfMade.
type Engine struct {
	Target  Target
	State   *state.Dir
	Log     *slog.Logger
	Options Options
	// Flows is called once the kernel holds the rules of after instead of those
	// of before, for what must follow rules: UDP flows that are stale now. Nil
	// for nothing. Its error is told, but changes nothing: the rules are right.
	Flows func(ctx context.Context, before, after []*ir.Program) error
	// Accept is asked whether a ruleset is what it says it is, before any tool is
	// given a line of it: tools do more than a ruleset may say, and its rules may
	// do other things than it promises. before is the ruleset in force, if it was
	// accepted; nil else. A nil Accept is for rulesets that this process compiled,
	// and so proved.
	Accept func(before, after *emit.Ruleset) error
	// AcceptedBy names who accepts, to remember in the state directory what was
	// accepted: it is not asked about again while it has the same name. "" to ask
	// always.
	AcceptedBy string
	// Guard is asked before a run that is to be confirmed writes; nil for nothing.
	Guard Guard
	// Root is where proc is; "" for "/".
	Root string
}

// Options are the choices of a run.
type Options struct {
	Mode        string        // of the ruleset in force after the run: "iptables", "ipvs"
	ChangeMode  bool          // go on although another mode's is in force until now
	Node        string        // the node's name; "" if the ruleset was made for it just now
	Who         string        // for the record
	TakeOver    bool          // go on although kube-proxy is there
	AllowShrink bool          // go on although most services lose their endpoints
	DryRun      bool          // plan and check only
	LockTimeout time.Duration // to wait for another run
	// RetryUnconfirmed goes on although nobody confirmed the ruleset when it was tried.
	RetryUnconfirmed bool
	ConfirmTimeout   time.Duration // undo the run unless Confirm comes in time; 0 for no such wait
}

// Report tells what a run did, or with DryRun would do.
type Report struct {
	Plan          Plan
	Before, After *emit.Ruleset // in force by the record until now, and then; nil for none
	Sysctls       []string      // "name: old -> new", for those that had to change
	Notes         []string      // what Check could not try
	Left          []string      // what stays, and why, after everything was to go
	Wrote         bool          // whether the kernel was written to
	Recorded      bool          // whether the record changed

	rest Plan // what was left to do when the kernel was last looked at
}

// Apply brings the node to a ruleset.
func (e *Engine) Apply(ctx context.Context, desired *emit.Ruleset) (Report, error) {
	return e.change(ctx, func(r *run) error {
		if err := e.fits(desired, r.record); err != nil {
			return err
		}
		if err := r.aim(desired); err != nil {
			return err
		}
		if err := r.mayConfirm(); err != nil {
			return err
		}
		if err := e.notRunning(); err != nil {
			return err
		}
		return r.shrink()
	})
}

// Rollback brings the node to the ruleset before the one in force; a second one
// returns. It is ErrNoPrevious if there was none.
func (e *Engine) Rollback(ctx context.Context) (Report, error) {
	return e.change(ctx, func(r *run) error {
		if r.record.Previous == "" {
			return ErrNoPrevious
		}
		desired, err := e.recorded(r.record.Previous)
		if err != nil {
			return err
		}
		e.Options.Mode = desired.Head.Mode
		if err := r.aim(desired); err != nil {
			return err
		}
		if err := r.mayConfirm(); err != nil {
			return err
		}
		return e.notRunning()
	})
}

// Remove takes away everything that is ours, kube-proxy's left-overs included,
// whether or not a record or a journal tells of it.
func (e *Engine) Remove(ctx context.Context) (Report, error) {
	return e.change(ctx, func(r *run) error {
		r.removing = true
		return e.notRunning()
	})
}

// change takes the lock, mends, and does one run, which aim gives its aim.
func (e *Engine) change(ctx context.Context, aim func(*run) error) (Report, error) {
	r := &run{Engine: e}
	if err := e.State.Check(); err != nil {
		return Report{}, err
	}
	e.recognize()
	if !e.Options.DryRun {
		unlock, err := e.State.Lock(ctx, e.Options.LockTimeout)
		if err != nil {
			return Report{}, err
		}
		defer unlock()
	}
	if err := r.prepare(ctx, aim); err != nil {
		return r.report, err
	}
	err := r.do(ctx)
	if err == nil {
		r.tidy(ctx)
		r.left(ctx)
	}
	return r.report, err
}

// recorded reads a ruleset of the state directory.
func (e *Engine) recorded(sum string) (*emit.Ruleset, error) {
	return Recorded(e.State, sum)
}

// recall gives the Target what the last run saw. Without it, all is read anew.
func (e *Engine) recall() {
	seen, err := e.State.Seen()
	if err == nil && seen != nil {
		err = e.Target.Recall(seen)
	}
	if err != nil {
		e.Log.Debug("all rules are read anew", "because", err)
	}
}

// keepSeen keeps what the Target saw for the next run. Nothing but time depends
// on it.
func (e *Engine) keepSeen() {
	if seen := e.Target.Seen(); seen != nil {
		if err := e.State.KeepSeen(seen); err != nil {
			e.Log.Debug("the next run will read all rules anew", "because", err)
		}
	}
}

// follow lets what depends on the rules follow them.
func (e *Engine) follow(ctx context.Context, before, after []*ir.Program) {
	if e.Flows == nil {
		return
	}
	err := e.step("cleaning up flows", func() error { return e.Flows(ctx, before, after) })
	if err != nil {
		e.Log.Warn("stale flows may be left", "because", err)
	}
}

func (e *Engine) observe(ctx context.Context) (o Observed, err error) {
	err = e.step("reading the rules", func() error {
		o, err = e.Target.Observe(ctx)
		return err
	})
	return o, err
}

func (e *Engine) plan(desired *emit.Ruleset, from Observed) (p Plan, err error) {
	err = e.step("planning", func() error {
		p, err = e.Target.Plan(desired, from)
		return err
	})
	return p, err
}
