package apply

import (
	"context"
	"fmt"
	"slices"

	"svcc/apply/state"
	"svcc/emit"
)

// fits says whether a ruleset is meant for this node, and for what is done here.
func (e *Engine) fits(rs *emit.Ruleset, rec state.Record) error {
	if rs.Head.Mode != e.Options.Mode {
		return fmt.Errorf("%w: %s, not %s", ErrMode, rs.Head.Mode, e.Options.Mode)
	}
	if rec.Current != "" && rec.Mode != e.Options.Mode {
		if err := e.mayChange(rec.Mode); err != nil {
			return err
		}
	}
	if n := rs.Head.Node; n != "" && e.Options.Node != "" && n != e.Options.Node {
		return fmt.Errorf("%w: it is for %q, this is %q (--node %s, if they are the same)", ErrNode, n, e.Options.Node, n)
	}
	return nil
}

// mayChange says whether a run may leave a mode.
func (e *Engine) mayChange(from string) error {
	switch {
	case !slices.Contains(e.Target.Leaves(), from):
		return fmt.Errorf("%w: this node runs %s; take that away first (svcc remove --mode %s)", ErrMode, from, from)
	case !e.Options.ChangeMode:
		return fmt.Errorf("%w: this node runs %s; to change that, say --mode %s", ErrMode, from, e.Options.Mode)
	}
	return nil
}

// notRunning refuses where a kube-proxy runs: it would soon write its own rules
// over ours, in whatever mode it is.
func (e *Engine) notRunning() error {
	pid := KubeProxy(e.root())
	if pid == 0 {
		return nil
	}
	if e.Options.TakeOver || e.Options.DryRun {
		e.Log.Warn("kube-proxy is running: it writes its own rules over these until it is stopped", "process", pid)
		return nil
	}
	return fmt.Errorf("%w: it is running, process %d, and would write its own rules over these; stop it and its DaemonSet first, or go on with --take-over", ErrKubeProxy, pid)
}

// strangers refuses where rules by our names are in the kernel that no run of
// svcc wrote. It is asked only when something would be written: rules that are
// right already may have been loaded by any tool.
func (r *run) strangers() error {
	if r.removing || r.record.Current != "" {
		return nil
	}
	there, err := r.plan(nil, r.old)
	if err != nil || there.Empty() {
		return err
	}
	if r.Options.TakeOver || r.Options.DryRun {
		r.Log.Warn("rules by kube-proxy's names are there that svcc has no record of; they are replaced")
		return nil
	}
	return fmt.Errorf("%w: its rules are there, and %s has no record of svcc having written them; if kube-proxy is gone for good, replace them with --take-over",
		ErrKubeProxy, r.State.Path())
}

// preflight asks the Target whether it can work.
func (r *run) preflight(ctx context.Context) error {
	return r.step("looking at the tools", func() error {
		var err error
		r.flavour, err = r.Target.Preflight(ctx)
		return err
	})
}
