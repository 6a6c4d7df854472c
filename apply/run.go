package apply

import (
	"context"
	"slices"
	"strings"
	"time"

	"svcc/apply/state"
	"svcc/emit"
	"svcc/ir"
)

// run is one change of the node.
type run struct {
	*Engine
	record        state.Record  // of the last run that was completed
	before, after *emit.Ruleset // what that run left in force, what this one will; nil for nothing
	text          []byte        // after, sealed; nil for nothing
	// What was and will be promised; nil if the ruleset does not say.
	promised, promises []*ir.Program
	removing           bool
	flavour            string
	old, now           Observed // before the run, and when last read
	sysctls            settings
	report             Report
	opened, ended      func() // of the Guard
	unconfirmed        bool   // the window ended without confirmation
}

// prepare does everything that comes before looking at the rules.
func (r *run) prepare(ctx context.Context, aim func(*run) error) error {
	mended := r.mend(ctx)
	if err := r.read(); err != nil && mended == nil {
		mended = err
	}
	if err := aim(r); err != nil && (mended == nil || r.removing) {
		return err
	}
	if mended != nil && !r.removing {
		return mended
	}
	if mended != nil {
		r.Log.Warn("removing all the same", "because", mended)
	}
	if err := r.preflight(ctx); err != nil {
		return err
	}
	return r.unite(ctx)
}

// read reads the record, and what it says to be in force.
func (r *run) read() error {
	var err error
	if r.record, err = r.State.Record(); err != nil {
		return err
	}
	r.Target.Remember(r.record.Made)
	r.recall()
	if r.record.Current == "" {
		return nil
	}
	if r.before, err = r.recorded(r.record.Current); err != nil {
		return err
	}
	r.report.Before = r.before
	if r.promised, err = programs(r.before); err != nil {
		r.Log.Warn("the services of the ruleset in force cannot be read", "because", err)
	}
	return nil
}

// aim sets what the kernel is to hold.
func (r *run) aim(after *emit.Ruleset) error {
	r.after, r.text, r.report.After = after, after.Marshal(), after
	if !after.Head.Hooks && len(after.Sections) > 0 {
		r.Log.Info("the ruleset was built with --hooks=no: the jumps from built-in chains are written all the same")
	}
	if r.before != nil && slices.Equal(after.Programs, r.before.Programs) {
		r.promises = r.promised
		return nil
	}
	var err error
	if r.promises, err = programs(after); err != nil {
		return err
	}
	if bare(after) {
		r.Log.Info("the ruleset was built with --bare: sysctls, stale flows and lost endpoints are not looked at")
	}
	return nil
}

// programs reads what a ruleset promises; nil if it does not say.
func programs(rs *emit.Ruleset) ([]*ir.Program, error) {
	if rs == nil || bare(rs) {
		return nil, nil
	}
	return rs.ReadPrograms()
}

// bare says that a ruleset has rules and does not say what they promise.
func bare(rs *emit.Ruleset) bool { return len(rs.Programs) == 0 && len(rs.Sections) > 0 }

// do plans, checks and writes.
func (r *run) do(ctx context.Context) error {
	var err error
	if r.old, err = r.observe(ctx); err != nil {
		return err
	}
	r.now = r.old
	if r.report.Plan, err = r.plan(r.after, r.old); err != nil {
		return err
	}
	if err := r.planSysctls(); err != nil {
		return err
	}
	idle := r.report.Plan.Empty() && len(r.sysctls.change) == 0
	if idle && r.inForce() {
		return r.settle(ctx)
	}
	if err := r.accept(); err != nil {
		return err
	}
	if idle {
		return r.settle(ctx)
	}
	if err := r.strangers(); err != nil {
		return err
	}
	err = r.step("checking the plan", func() error {
		r.report.Notes, err = r.Target.Check(ctx, r.report.Plan)
		return err
	})
	if err != nil {
		r.dropSeen()
	}
	if err != nil || r.Options.DryRun {
		return err
	}
	return r.write(ctx)
}

// inForce says that the ruleset is the one of the record.
func (r *run) inForce() bool { return r.record.ID != "" && r.record.Current == state.Sum(r.text) }

// settle ends a run that has nothing to write to the kernel. The record is left
// alone too unless it would say something else.
func (r *run) settle(ctx context.Context) error {
	if r.Options.DryRun {
		return nil
	}
	r.follow(ctx, r.promised, r.promises)
	if r.removing {
		// One that could not be mended tells of nothing that is left.
		if err := r.State.Abandon(); err != nil {
			return err
		}
	}
	n := r.next()
	if r.record.ID != "" && r.record.Current == n.Current && r.record.Flavour == n.Flavour && r.record.Mode == n.Mode {
		return nil
	}
	if r.Options.ConfirmTimeout > 0 && r.record.Current != n.Current {
		return r.write(ctx) // that the kernel has it already confirms nothing
	}
	r.report.Recorded = true
	r.keepSeen()
	return r.State.Save(n, r.text)
}

// next is the record that the run leaves.
func (r *run) next() state.Record {
	n := state.Record{
		ID: state.NewID(), When: time.Now().UTC().Truncate(time.Second), Who: r.Options.Who, Mode: r.Options.Mode, Flavour: r.flavour,
		Current: state.Sum(r.text), Previous: r.record.Previous, Sysctls: r.sysctls.keep,
	}
	if r.record.Current != "" && r.record.Current != n.Current {
		n.Previous = r.record.Current
	}
	if r.after != nil {
		n.Node, n.Level = r.after.Head.Node, r.after.Head.Level
		n.Made = made(r.record.Made, r.report.Plan)
	} else if flavourOf(r.record.Flavour) == flavourOf(r.flavour) {
		n.Made = tablesIn(r.record.Made)
	}
	return n
}

// tablesIn are the tables of what was made: "ipv4 nat". They outlive the rules.
func tablesIn(made []string) []string {
	return slices.DeleteFunc(slices.Clone(made), func(s string) bool { return strings.Count(s, " ") != 1 })
}

// made is what exists thanks to svcc after a plan.
func made(before []string, p Plan) []string {
	all := slices.Concat(before, p.Makes())
	for _, c := range p.Rules() {
		if c.Rule == "" && !c.Add {
			gone := c.Family + " " + c.Table + " " + c.Chain
			all = slices.DeleteFunc(all, func(s string) bool { return s == gone })
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
