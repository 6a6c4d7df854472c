package iptables

import (
	"fmt"
	"slices"
	"strings"

	"svcc/emit"
	rules "svcc/emit/iptables"
	"svcc/ir"
)

// builtins are the built-in chains of the tables that are read.
var builtins = map[string][]string{
	"filter": {"INPUT", "FORWARD", "OUTPUT"},
	"nat":    {"PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"},
	"mangle": {"PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"},
}

// readDump takes from what a save tool printed of one table what is ours.
func readDump(name string, f ir.Family, dump []byte) *table {
	r := newTableReader(name, f)
	for line := range strings.Lines(string(dump)) {
		if line = strings.TrimRight(line, "\r\n"); line != "" {
			r.dumpLine(line)
		}
	}
	return r.finish()
}

func (r *tableReader) dumpLine(line string) {
	switch line[0] {
	case ':':
		name, _, _ := strings.Cut(line[1:], " ")
		r.out.canary = r.out.canary || name == rules.Canary
		if rules.Owned(r.name, name) {
			r.declare(name)
		}
	case '-':
		chain := ruleChain(line)
		switch {
		case chain == rules.SharedChain && r.name == "filter" && !rules.OwnShared(r.family, line):
			r.out.chain(chain).foreign++
			r.other(chain, line, false)
		case !r.keep(chain, line):
			r.other(chain, line, slices.Contains(builtins[r.name], chain))
		}
	}
}

// readSection takes a ruleset's section apart into its tables. Whatever is not
// ours is an error: nothing else may be written. hooked says that the hooks are
// in the text already.
func readSection(s emit.Section, hooked bool) (map[string]*table, error) {
	if s.Tool != rules.Tool {
		return nil, fmt.Errorf("a section for %s is not for this mode", s.Tool)
	}
	out := map[string]*table{}
	var r *tableReader
	for line := range strings.Lines(string(s.Text)) {
		line = strings.TrimRight(line, "\r\n")
		var err error
		switch {
		case line == "" || line[0] == '#':
		case line == "COMMIT" && r != nil:
			if !hooked {
				err = r.hook()
			}
			out[r.name], r = r.finish(), nil
		case line[0] == '*' && r == nil:
			r, err = openTable(line[1:], s.Family, out)
		case r == nil:
			err = fmt.Errorf("outside a table")
		default:
			err = r.sectionLine(line)
		}
		if err != nil {
			return nil, fmt.Errorf("%s section: %.120q: %w", s.Family, line, err)
		}
	}
	if r != nil {
		return nil, fmt.Errorf("%s section: table %s ends without COMMIT", s.Family, r.name)
	}
	return out, nil
}

// hook adds the jumps from built-in chains to a table that has none.
func (r *tableReader) hook() error {
	var chains []string
	for _, c := range r.out.chains {
		chains = append(chains, c.name)
	}
	for _, line := range rules.Jumps(r.name, chains) {
		if err := r.sectionLine(line); err != nil {
			return err
		}
	}
	return nil
}

func openTable(name string, f ir.Family, seen map[string]*table) (*tableReader, error) {
	if name != "filter" && name != "nat" || seen[name] != nil {
		return nil, fmt.Errorf("not a table of ours, or a second time")
	}
	return newTableReader(name, f), nil
}

func (r *tableReader) sectionLine(line string) error {
	switch {
	case line[0] == ':':
		name, _, _ := strings.Cut(line[1:], " ")
		if !rules.Owned(r.name, name) {
			return fmt.Errorf("chain %s is not one of svcc's", name)
		}
		r.declare(name)
		return nil
	case !strings.HasPrefix(line, "-A "):
		return fmt.Errorf("neither a chain nor a rule")
	}
	chain := ruleChain(line)
	if r.keep(chain, line) {
		return nil
	}
	if !slices.Contains(builtins[r.name], chain) || !r.other(chain, line, true) {
		return fmt.Errorf("chain %s is not one of svcc's, or not declared", chain)
	}
	return nil
}
