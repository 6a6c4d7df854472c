package apply

import "context"

// Leaving is a Target that can say what stays where everything of ours goes.
type Leaving interface {
	// Left is given what was observed once all was removed that can be. It says what
	// stays and why, a line for each.
	Left(ctx context.Context, now Observed) ([]string, error)
}

// left reports what a run that removed could not take away. Its error is told, but
// changes nothing.
func (r *run) left(ctx context.Context) {
	t, ok := r.Target.(Leaving)
	if !ok || !r.removing || r.Options.DryRun {
		return
	}
	var err error
	if r.report.Left, err = t.Left(ctx, r.now); err != nil {
		r.Log.Warn("cannot tell whether anything stays", "because", err)
	}
}
