package iptables

import (
	"context"

	"svcc/emit"
	rules "svcc/emit/iptables"
	"svcc/ir"
)

// Live reads with the save tool every table of a family that decides about
// packets, other programs' rules as well, as the section of a ruleset.
func (t *Target) Live(ctx context.Context, f ir.Family) ([]emit.Section, error) {
	s := emit.Section{Tool: rules.Tool, Family: f}
	for _, name := range tables {
		dump, err := t.saved(ctx, f, name)
		if err != nil {
			return nil, err
		}
		s.Text = append(s.Text, dump...)
	}
	return []emit.Section{s}, nil
}
