package ipvs

import (
	"context"

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
func (t *Target) Left(ctx context.Context) ([]string, error) { return t.Glue.Left(ctx) }

// Forget implements apply.Recalling.
func (t *Target) Forget() { t.Glue.Forget() }
