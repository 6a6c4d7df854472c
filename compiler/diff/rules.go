package diff

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strings"

	"svcc/emit"
)

// Chain is a chain of rules that differs.
type Chain struct {
	Family string `json:"family"`
	Table  string `json:"table"` // the tool, for a section that has no tables
	Chain  string `json:"chain"` // "" for a section that has no chains
	Kind   Kind   `json:"kind"`
	// Diff has the lines of a unified diff, from "---" on; none if only the
	// names of chains are asked for.
	Diff []string `json:"diff,omitempty"`
}

// chainKey names a chain; place puts tables into the order of the text.
type chainKey struct{ family, table, chain string }

func (k chainKey) compare(l chainKey) int {
	return cmp.Or(strings.Compare(k.family, l.family), strings.Compare(k.table, l.table), strings.Compare(k.chain, l.chain))
}

// CompareRules gives the chains that differ between two sets of sections,
// sorted by family, table and chain. The order of rules in a chain counts, that
// of chains does not.
func CompareRules(old, new []emit.Section) []Chain {
	if slices.EqualFunc(old, new, func(a, b emit.Section) bool {
		return a.Tool == b.Tool && a.Family == b.Family && bytes.Equal(a.Text, b.Text)
	}) {
		return nil
	}
	before, after := chains(old), chains(new)
	var out []Chain
	for _, k := range slices.SortedFunc(maps.Keys(union(before, after)), chainKey.compare) {
		a, inOld := before[k]
		b, inNew := after[k]
		if slices.Equal(a, b) && inOld == inNew {
			continue
		}
		c := Chain{Family: k.family, Table: k.table, Chain: k.chain, Kind: Changed}
		from, to := "old/"+k.path(), "new/"+k.path()
		switch {
		case !inOld:
			c.Kind, from = Added, "/dev/null"
		case !inNew:
			c.Kind, to = Removed, "/dev/null"
		}
		c.Diff = append([]string{"--- " + from, "+++ " + to}, unified(a, b)...)
		out = append(out, c)
	}
	return out
}

// Names keeps of chains only which they are, and how they change.
func Names(list []Chain) []Chain {
	for i := range list {
		list[i].Diff = nil
	}
	return list
}

func (k chainKey) path() string {
	p := k.family + "/" + k.table
	if k.chain != "" {
		p += "/" + k.chain
	}
	return p
}

func union(a, b map[chainKey][]string) map[chainKey]bool {
	out := make(map[chainKey]bool, len(a)+len(b))
	for k := range a {
		out[k] = true
	}
	for k := range b {
		out[k] = true
	}
	return out
}

// chains takes sections apart: a chain's lines are its declaration, without
// counters, and its rules.
func chains(sections []emit.Section) map[chainKey][]string {
	out := map[chainKey][]string{}
	for _, s := range sections {
		if s.Tool != "iptables-restore" {
			k := chainKey{family: s.Family.String(), table: s.Tool}
			out[k] = append(out[k], strings.Split(strings.TrimSuffix(string(s.Text), "\n"), "\n")...)
			continue
		}
		table := ""
		for line := range strings.Lines(string(s.Text)) {
			line = strings.TrimRight(line, "\n")
			if name, ok := strings.CutPrefix(line, "*"); ok {
				table = name
			}
			if chain, text := chainOf(line); chain != "" {
				k := chainKey{s.Family.String(), table, chain}
				out[k] = append(out[k], text)
			}
		}
	}
	return out
}

// chainOf gives the chain that a line belongs to, and the line without
// counters; "" if it belongs to none.
func chainOf(line string) (chain, text string) {
	fields := strings.SplitN(line, " ", 3)
	switch {
	case len(fields) > 1 && strings.HasPrefix(line, ":"):
		return fields[0][1:], fields[0] + " " + fields[1]
	case len(fields) > 1 && strings.HasPrefix(line, "["):
		return chainOf(line[len(fields[0])+1:])
	case len(fields) > 1 && strings.HasPrefix(line, "-"):
		return fields[1], line
	}
	return "", ""
}
