package apply

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// oneFlavour refuses where rules of ours are out of the tools' sight: what is
// written would act beside them.
func (e *Engine) oneFlavour(ctx context.Context) error {
	_, err := e.otherFlavour(ctx)
	return err
}

// otherFlavour gives the Target for rules out of the tools' sight, with
// ErrFlavour; nil if there are none.
func (e *Engine) otherFlavour(ctx context.Context) (Target, error) {
	other, what, err := e.Target.Other(ctx)
	if err != nil {
		e.Log.Warn("cannot tell whether the other flavour of iptables has rules of Services", "because", err)
		return nil, nil
	}
	if other == nil {
		return nil, nil
	}
	return other, fmt.Errorf("%w: %s; either choose that flavour again (update-alternatives --config iptables), or take away both flavours' rules first (svcc remove)", ErrFlavour, what)
}

// unite sees to it that no rules are out of the tools' sight: a run that removes
// takes them away, any other is refused.
func (r *run) unite(ctx context.Context) error {
	other, found := r.otherFlavour(ctx)
	switch {
	case found == nil:
		return nil
	case r.Options.DryRun && r.removing:
		r.Log.Warn("rules of the other flavour of iptables would go as well", "found", found)
		return nil
	case r.Options.DryRun:
		r.Log.Warn("this would be refused", "because", found)
		return nil
	case !r.removing:
		return found
	}
	if made := flavourOf(r.record.Flavour); made != "" && made != flavourOf(r.flavour) {
		other.Remember(r.record.Made)
		r.Target.Remember(nil)
	}
	e := *r.Engine
	e.Target = other
	err := r.step("taking away the rules of the other flavour of iptables", func() error { return e.clear(ctx) })
	if err == nil {
		r.Log.Info("the rules of the other flavour of iptables are gone")
		r.report.Wrote = true
	}
	return err
}

// clear takes away all that a Target sees of ours, or nothing. There is no need
// of a journal: what a crash leaves of it, the next run that removes finds.
func (e *Engine) clear(ctx context.Context) error {
	old, err := e.observe(ctx)
	if err != nil {
		return err
	}
	p, err := e.plan(nil, old)
	if err != nil {
		return err
	}
	if err = e.Target.Commit(ctx, p); err == nil {
		var now Observed
		if now, err = e.observe(ctx); err == nil {
			p, err = e.plan(nil, now)
		}
		if err == nil && !p.Empty() {
			err = fmt.Errorf("they are not gone: %s", firstOf(p))
		}
	}
	if err == nil {
		return nil
	}
	_, back := e.putBack(ctx, old)
	if back != nil {
		back = fmt.Errorf("%w: %w", ErrHalfMade, back)
	}
	return fmt.Errorf("the other flavour of iptables: %w", errors.Join(err, back))
}

// flavourOf is the flavour in what a Preflighter says: "nf_tables" of
// "iptables 1.8.9 (nf_tables)".
func flavourOf(tools string) string {
	_, rest, _ := strings.Cut(tools, "(")
	flavour, _, _ := strings.Cut(rest, ")")
	return flavour
}
