package iptables

import (
	"context"

	"svcc/apply"
)

var (
	_ apply.Preflighter = (*Target)(nil)
	_ apply.Remembering = (*Target)(nil)
	_ apply.Recalling   = (*Target)(nil)
)

// Preflight implements apply.Preflighter: the tools must be there, of one
// flavour and new enough.
func (t *Target) Preflight(ctx context.Context) (flavour string, err error) {
	v, err := t.Version(ctx)
	if err != nil {
		return "", err
	}
	return "iptables " + v.String(), nil
}

// Remember implements apply.Remembering.
func (t *Target) Remember(made []string) { t.Owns = made }

// Forget implements apply.Recalling.
func (t *Target) Forget() { t.seen = nil }
