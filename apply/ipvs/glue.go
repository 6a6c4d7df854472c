package ipvs

import (
	"context"
	"fmt"

	"svcc/apply"
)

var (
	_ apply.Flavoured = (*Target)(nil)
	_ apply.Leaving   = (*Target)(nil)
)

// Other implements apply.Flavoured: of all that is programmed here, only the
// rules have flavours.
func (t *Target) Other(ctx context.Context) (other apply.Target, what string, err error) {
	return t.Glue.Other(ctx)
}

// Left implements apply.Leaving. What is left of sets, Check says.
func (t *Target) Left(ctx context.Context, now apply.Observed) ([]string, error) {
	own, ok := now.(*observed)
	if !ok {
		return nil, fmt.Errorf("internal error: %T was not observed here", now)
	}
	return t.Glue.Left(ctx, own.glue)
}

// Forget implements apply.Recalling.
func (t *Target) Forget() { t.Glue.Forget() }
