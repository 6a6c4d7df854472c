package compiler

import (
	"errors"
	"fmt"
	"slices"

	"svcc/compiler/proof"
	"svcc/emit"
	"svcc/emit/mode"
	"svcc/ir"
)

// ErrBare is a ruleset that does not say what its rules promise.
var ErrBare = errors.New("the ruleset was built with --bare: there is no Program in it that its rules could be held against")

// Understand reads every line of a ruleset as a proof would, and nothing more.
// An error names section, line and rule.
func Understand(rs *emit.Ruleset) error {
	_, err := walkers(rs)
	return err
}

// Prove holds a ruleset's rules against the ruleset's own Programs, from both
// sides: what the Programs promise, and what the rules decide beyond that. Where
// before kept its promise, which is for the caller to know, only what differs from
// it is looked at; before may be nil. It is ErrBare where there is no Program. The
// error of a ruleset that does not keep its promise shows the first packet that is
// handled otherwise.
//
// This finds mistakes, of a hand that edited a file or of a program that wrote
// it. Whoever means harm changes the Program as well.
func Prove(before, after *emit.Ruleset) error {
	rules, programs, err := promised(after)
	if err != nil {
		return err
	}
	var old map[ir.Family]emit.Walker
	var was map[ir.Family]*ir.Program
	if before != nil && before.Head.Mode == after.Head.Mode {
		if old, was, err = promised(before); err != nil {
			old, was = nil, nil // then all is looked at
		}
	}
	for _, f := range after.Head.Families {
		if old[f] == nil {
			err = proof.Keeps(programs[f], rules[f])
		} else {
			err = proof.KeepsSince(was[f], old[f], programs[f], rules[f])
		}
		if err != nil {
			return fmt.Errorf("the ruleset does not keep its own promise: %s: %w", f, err)
		}
	}
	return nil
}

// promised reads a ruleset's rules and what they promise, family by family.
func promised(rs *emit.Ruleset) (map[ir.Family]emit.Walker, map[ir.Family]*ir.Program, error) {
	rules, err := walkers(rs)
	if err != nil {
		return nil, nil, err
	}
	list, err := rs.ReadPrograms()
	if err != nil {
		return nil, nil, fmt.Errorf("the ruleset: %w", err)
	}
	programs := map[ir.Family]*ir.Program{}
	for _, p := range list {
		programs[p.Family] = p
	}
	if slices.ContainsFunc(rs.Head.Families, func(f ir.Family) bool { return programs[f] == nil }) {
		return nil, nil, ErrBare
	}
	return rules, programs, nil
}

// walkers parses a ruleset's sections, family by family, with the jumps from the
// built-in chains as a node has them.
func walkers(rs *emit.Ruleset) (map[ir.Family]emit.Walker, error) {
	m := mode.Named(rs.Head.Mode)
	if m == nil {
		return nil, fmt.Errorf("the ruleset is of the mode %.20q, which is none", rs.Head.Mode)
	}
	out := map[ir.Family]emit.Walker{}
	for _, f := range rs.Head.Families {
		own := slices.DeleteFunc(slices.Clone(rs.Sections), func(s emit.Section) bool { return s.Family != f })
		w, err := m.Backend.Parse(f, own, rs.Head.Hooks)
		if err != nil {
			return nil, fmt.Errorf("the ruleset: %w", err)
		}
		out[f] = w
	}
	return out, nil
}
