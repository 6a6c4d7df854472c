package compiler

import (
	"errors"
	"fmt"
	"slices"

	"svcc/compiler/proof"
	"svcc/emit"
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
// sides: what the Programs promise, and what the rules decide beyond that. It is
// ErrBare where there is no Program. The error of a ruleset that does not keep
// its promise shows the first packet that is handled otherwise.
//
// This finds mistakes, of a hand that edited a file or of a program that wrote
// it. Whoever means harm changes the Program as well.
func Prove(before, after *emit.Ruleset) error {
	rules, err := walkers(after)
	if err != nil {
		return err
	}
	programs, err := after.ReadPrograms()
	if err != nil {
		return fmt.Errorf("the ruleset: %w", err)
	}
	for _, f := range after.Head.Families {
		i := slices.IndexFunc(programs, func(p *ir.Program) bool { return p.Family == f })
		if i < 0 {
			return ErrBare
		}
		if err := proof.Keeps(programs[i], rules[f]); err != nil {
			return fmt.Errorf("the ruleset does not keep its own promise: %s: %w", f, err)
		}
	}
	return nil
}

// walkers parses a ruleset's sections, family by family, with the jumps from the
// built-in chains as a node has them.
func walkers(rs *emit.Ruleset) (map[ir.Family]emit.Walker, error) {
	backend, ok := Backends[rs.Head.Mode]
	if !ok {
		return nil, fmt.Errorf("the ruleset is of the mode %.20q, which is none", rs.Head.Mode)
	}
	out := map[ir.Family]emit.Walker{}
	for _, f := range rs.Head.Families {
		own := slices.DeleteFunc(slices.Clone(rs.Sections), func(s emit.Section) bool { return s.Family != f })
		w, err := emit.ParseHooked(backend, f, own, rs.Head.Hooks)
		if err != nil {
			return nil, fmt.Errorf("the ruleset: %w", err)
		}
		out[f] = w
	}
	return out, nil
}
