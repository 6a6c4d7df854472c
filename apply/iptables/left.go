package iptables

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"svcc/apply"
	rules "svcc/emit/iptables"
	"svcc/ir"
)

// Left implements apply.Target: chains that others use, and tables that an apply
// made (Owns) and that are empty now. The kernel keeps those of iptables-legacy as
// long as their module is loaded. Those of iptables-nft could be deleted, but not
// so that a rule which another program adds at this moment is safe.
func (t *Target) Left(ctx context.Context, now apply.Observed) (out []string, err error) {
	own, ok := now.(*observed)
	if !ok {
		return nil, fmt.Errorf("internal error: %T was not observed here", now)
	}
	for i, f := range ir.Families {
		for _, name := range tables {
			at := own.families[i].tables[name]
			if at == nil || at.unused {
				continue
			}
			out = append(out, t.chainsLeft(f, name, at)...)
			if !slices.Contains(t.Owns, tableName(f, name)) {
				continue
			}
			dump, err := t.saved(ctx, f, name)
			if err != nil {
				return nil, err
			}
			if emptyDump(dump) {
				out = append(out, t.tableLeft(f, name))
			}
		}
	}
	return out, nil
}

func (t *Target) chainsLeft(f ir.Family, name string, at *table) (out []string) {
	for i := range at.chains {
		c := &at.chains[i]
		switch {
		case c.name != rules.SharedChain && c.pinned:
			out = append(out, fmt.Sprintf("%s table %s: chain %s stays, empty: rules that are not svcc's lead to it (%s -t %s)", f, name, c.name, t.tool(f, "save"), name))
		case c.name == rules.SharedChain && c.n > 0:
			out = append(out, fmt.Sprintf("%s table %s: chain %s stays: kubelet uses it too, and no record says that svcc made it", f, name, c.name))
		}
	}
	return out
}

// tableName is how Plan.Makes names a table.
func tableName(f ir.Family, name string) string { return f.String() + " " + name }

func (t *Target) tableLeft(f ir.Family, name string) string {
	kernels := map[ir.Family]string{ir.IPv4: "ip", ir.IPv6: "ip6"}[f]
	if t.version.NFT {
		return fmt.Sprintf("%s table %s stays, empty: svcc apply made it, and other programs may count on it by now (nft delete table %s %s)", f, name, kernels, name)
	}
	return fmt.Sprintf("%s table %s stays, empty: svcc apply made it, and the kernel gives it up only with its module, which svcc leaves alone (rmmod %stable_%s)", f, name, kernels, name)
}

// emptyDump says that a table has no rule, no chain of its own and no policy but
// to accept.
func emptyDump(dump []byte) bool {
	for line := range bytes.Lines(dump) {
		if line[0] == '-' || line[0] == '[' || line[0] == ':' && !bytes.Contains(line, []byte(" ACCEPT ")) {
			return false
		}
	}
	return true
}
