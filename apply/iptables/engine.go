package iptables

import (
	"context"
)

// Preflight implements apply.Target: the tools must be there, of one
// flavour and new enough.
func (t *Target) Preflight(ctx context.Context) (flavour string, err error) {
	v, err := t.Version(ctx)
	if err != nil {
		return "", err
	}
	return "iptables " + v.String(), nil
}

// Remember implements apply.Target.
func (t *Target) Remember(made []string) { t.Owns = made }

// Leaves implements apply.Target: rules alone do not hold what another mode has.
func (t *Target) Leaves() []string { return nil }

// Forget implements apply.Target.
func (t *Target) Forget() { t.seen = nil }
