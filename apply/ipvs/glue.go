package ipvs

import (
	"context"

	"svcc/apply"
)

var _ apply.Flavoured = (*Target)(nil)

// Other implements apply.Flavoured: of all that is programmed here, only the
// rules have flavours.
func (t *Target) Other(ctx context.Context) (other apply.Target, what string, err error) {
	return t.Glue.Other(ctx)
}

// Forget implements apply.Recalling.
func (t *Target) Forget() { t.Glue.Forget() }
