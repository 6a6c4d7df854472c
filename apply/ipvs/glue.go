package ipvs

import (
	"context"
	"fmt"

	"svcc/apply"
)

// Other implements apply.Target: of all that is programmed here, only the
// rules have flavours.
func (t *Target) Other(ctx context.Context) (other apply.Target, what string, err error) {
	return t.Glue.Other(ctx)
}

// Left implements apply.Target. What is left of sets, Check says.
func (t *Target) Left(ctx context.Context, now apply.Observed) ([]string, error) {
	own, ok := now.(*observed)
	if !ok {
		return nil, fmt.Errorf("internal error: %T was not observed here", now)
	}
	return t.Glue.Left(ctx, own.glue)
}

// Forget implements apply.Target.
func (t *Target) Forget() { t.Glue.Forget() }
