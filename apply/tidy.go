package apply

import "context"

// Tidying is a Target that has something to do once the kernel holds what it
// should, and which is no part of that: to do it later is no fault.
type Tidying interface {
	// Tidy is given the plan that found nothing to do. It tells what it did, and
	// what it left for a later run.
	Tidy(ctx context.Context, p Plan) (did []string, err error)
}

// tidy ends a run that succeeded. Its error is told, but changes nothing.
func (r *run) tidy(ctx context.Context) {
	t, ok := r.Target.(Tidying)
	if !ok || r.Options.DryRun {
		return
	}
	p := r.report.rest
	if p == nil {
		p = r.report.Plan // it was empty
	}
	did, err := t.Tidy(ctx, p)
	for _, what := range did {
		r.Log.Info(what)
	}
	if err != nil {
		r.Log.Warn("not all that is left over could be taken away", "because", err)
	}
}

// left reports what a run that removed could not take away. Its error is told, but
// changes nothing.
func (r *run) left(ctx context.Context) {
	if !r.removing || r.Options.DryRun {
		return
	}
	var err error
	if r.report.Left, err = r.Target.Left(ctx, r.now); err != nil {
		r.Log.Warn("cannot tell whether anything stays", "because", err)
	}
}
