package iptables

import (
	"context"

	"svcc/emit"
	rules "svcc/emit/iptables"
	"svcc/ir"
)

// unused says that the kernel has no such table yet.
func (t *Target) unused(f ir.Family, table string) bool {
	if t.Kernel == nil || t.version == nil {
		return false
	}
	used, err := t.Kernel.Used(f, table, t.version.NFT)
	return err == nil && !used
}

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

// emptyTable is what the save tool prints of a table that nobody has used yet.
func emptyTable(table string) []byte {
	text := "*" + table + "\n"
	for _, chain := range builtins[table] {
		text += ":" + chain + " ACCEPT [0:0]\n"
	}
	return []byte(text + "COMMIT\n")
}
