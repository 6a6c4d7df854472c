package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"svcc/compiler"
	"svcc/compiler/diff"
	"svcc/emit"
	"svcc/emit/mode"
	"svcc/ir"
	"svcc/ir/diag"
)

// diffCommand is svcc diff.
type diffCommand struct {
	streams
	compileFlags
	diagnosticFlags
	rules    bool
	format   string
	live     bool // and what is of use with it alone:
	stateDir string
	tool     time.Duration
	thisNode func(*compiler.Options) error // has manifests compiled as this node is
}

func newDiff(s streams) *cobra.Command {
	d := &diffCommand{streams: s}
	cmd := &cobra.Command{
		Use:   "diff OLD NEW | --live PATH...|RULESET",
		Short: "Show what an apply would change, by service and by packet",
		Long: "Compare OLD with NEW, each a file or folder of manifests or a ruleset file, or with --live this node's rules with what PATHs\n" +
			"say: which services change and why, and which packets fare differently. Manifests are compiled for the node, the mode and the\n" +
			"layout of the ruleset file beside them unless flags say otherwise. Exit code 0: nothing differs; 1: something does; 2: trouble.",
		RunE: func(cmd *cobra.Command, args []string) error { return d.run(cmd, args) },
	}
	d.compileFlags.register(cmd.Flags())
	d.diagnosticFlags.register(cmd.Flags())
	cmd.Flags().BoolVar(&d.rules, "rules", false, "also show the rules that differ, chain by chain, as a unified diff")
	d.registerLive(cmd.Flags())
	cmd.Flags().StringVar(&d.format, "format", "text", "text, markdown (for a pull request) or json")
	return cmd
}

func (d *diffCommand) run(cmd *cobra.Command, args []string) error {
	write, ok := map[string]func(*diff.Report) error{
		"text":     func(r *diff.Report) error { return r.Text(d.out, d.terminal(d.out)) },
		"markdown": func(r *diff.Report) error { return r.Markdown(d.out) },
		"json":     func(r *diff.Report) error { return printDocument(d.out, "diff", r.Document()) },
	}[d.format]
	if !ok {
		return fmt.Errorf("--format %q is none of text, markdown, json", d.format)
	}
	compare := d.compare
	if d.live {
		compare = d.compareLive
	}
	r, err := compare(cmd, args)
	if err == nil {
		err = write(r)
	}
	if err == nil && d.format == "text" && !d.quiet {
		for _, line := range r.SideLines() {
			fmt.Fprintf(d.err, "svcc: %s\n", line)
		}
	}
	switch {
	case err != nil:
		return exit{exitUsage, err}
	case r.Nothing():
		return exit{code: exitUsage}
	case !r.Same():
		return exit{code: exitFindings}
	}
	return nil
}

// side is one of the two states.
type side struct {
	programs []*ir.Program
	ruleset  *emit.Ruleset
	compiled *diff.Side // nil if the ruleset was read
}

// sidesOf are what became of the manifests of sides, and takes from both what one of
// them lacks.
func sidesOf(sides ...*side) (out []diff.Side) {
	var programs [][]*ir.Program
	for i, s := range sides {
		if s.compiled != nil {
			s.compiled.Side = []string{"old", "new"}[i]
			out = append(out, *s.compiled)
		} else if n := countServices(s.programs); n > 0 {
			out = append(out, diff.Side{Side: []string{"old", "new"}[i], Text: diag.Count(n, "Service") + " in the ruleset file", Compiled: n})
		}
		programs = append(programs, s.programs)
	}
	diff.LeaveOut(out, programs...)
	return out
}

func countServices(programs []*ir.Program) int {
	names := map[string]bool{}
	for _, p := range programs {
		for _, s := range p.Services {
			names[s.Service()] = true
		}
	}
	return len(names)
}

// sideOf is what became of manifests.
func sideOf(s compiler.Summary) *diff.Side {
	out := &diff.Side{Text: s.String(), Compiled: s.Compiled}
	for _, l := range s.LeftOut {
		for _, name := range l.Services {
			if !l.ByDesign {
				out.LeftOut = append(out.LeftOut, diff.Uncompared{Service: name, Reason: l.Reason})
			}
		}
	}
	return out
}

func (d *diffCommand) compare(_ *cobra.Command, args []string) (*diff.Report, error) {
	if len(args) != 2 {
		return nil, errors.New("OLD and NEW are needed, or --live and PATHs")
	}
	if args[0] == "-" && args[1] == "-" {
		return nil, errors.New("only one of OLD and NEW can be standard input")
	}
	old, new, err := d.sides(args[0], args[1])
	if err != nil {
		return nil, err
	}
	sides := sidesOf(old, new)
	r, err := diff.Compare(old.programs, new.programs)
	if err != nil {
		return nil, err
	}
	r.Sides = sides
	if d.rules || r.Same() && r.Whole() {
		r.Rules = diff.CompareRules(old.ruleset.Sections, new.ruleset.Sections)
	}
	d.onlyNames(r)
	return r, nil
}

// onlyNames leaves rules out unless they are asked for: where nothing else
// differs, their chains are named.
func (d *diffCommand) onlyNames(r *diff.Report) {
	switch {
	case d.rules:
	case len(r.Changes) > 0:
		r.Rules = nil
	default:
		r.Rules = diff.Names(r.Rules)
	}
}

// sides reads both; a ruleset file comes first, since its head tells how
// manifests are to be compiled.
func (d *diffCommand) sides(oldPath, newPath string) (old, new *side, err error) {
	var like *side
	if old, err = d.readRuleset(oldPath); err != nil {
		return nil, nil, err
	}
	if new, err = d.readRuleset(newPath); err != nil {
		return nil, nil, err
	}
	for _, s := range []*side{new, old} {
		if s.ruleset != nil {
			like = s
		}
	}
	if err = d.compile(old, like, oldPath); err != nil {
		return nil, nil, err
	}
	return old, new, d.compile(new, like, newPath)
}

// readRuleset reads a ruleset file. What is none gives a side without ruleset.
func (d *diffCommand) readRuleset(path string) (*side, error) {
	text, err := peek(path, &d.in)
	if err != nil {
		return nil, err
	}
	if !emit.IsRules(text) {
		return &side{}, nil
	}
	s := &side{}
	if s.ruleset, err = emit.Unmarshal(text); err != nil {
		if errors.Is(err, emit.ErrNotRuleset) {
			err = errors.New("rules that svcc did not write say nothing of services: compare them by svcc verify")
		}
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(s.ruleset.Programs) < len(s.ruleset.Head.Families) {
		return nil, fmt.Errorf("%s: built with --bare, so it does not tell of services", path)
	}
	if s.programs, err = s.ruleset.ReadPrograms(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// compile gives a side that is no ruleset its Programs and rules.
func (d *diffCommand) compile(s, like *side, paths ...string) error {
	if s.ruleset != nil {
		return nil
	}
	o, err := d.options(paths, "")
	if err != nil {
		return err
	}
	o.Stdin, o.NoProof, o.KeepGoing = d.in, true, true
	if like != nil {
		if err := d.like(&o, like); err != nil {
			return err
		}
	}
	if d.thisNode != nil {
		if err := d.thisNode(&o); err != nil {
			return err
		}
	}
	quiet := d.diagnosticFlags
	quiet.quiet = !d.verbose
	r, err := compile(o, quiet, d.streams, nil)
	if e := (exit{}); errors.As(err, &e) && e.code != exitRefused {
		return fmt.Errorf("%s: there are errors: nothing can be compared", strings.Join(paths, " "))
	}
	if err != nil {
		return err
	}
	s.compiled = sideOf(r.Summary)
	s.programs = r.Programs()
	s.ruleset, err = rulesetOf(r)
	return err
}

// like takes from a ruleset file what no flag says: its head, how it tells pods
// from others where a range does, and the addresses that the node has.
func (d *diffCommand) like(o *compiler.Options, s *side) error {
	h := &s.ruleset.Head
	o.DefaultNode = h.Node
	podsAs(o, s.programs)
	for _, p := range s.programs {
		o.LocalAddrs = append(o.LocalAddrs, p.Options.Own()...)
	}
	if !d.flags.Changed("mode") {
		if o.Mode, o.ModeGiven = mode.Named(h.Mode), true; o.Mode == nil {
			return fmt.Errorf("the ruleset is of the mode %.20q, which is none", h.Mode)
		}
	}
	if !d.flags.Changed("optimize") {
		o.Level = h.Level
	}
	if !d.flags.Changed("hooks") {
		o.Hooks = h.Hooks
	}
	return nil
}

// peek reads an argument that may be a ruleset; nothing if it is a folder. What
// it reads of standard input can be read again.
func peek(path string, stdin *io.Reader) ([]byte, error) {
	if path != "-" {
		if isDir(path) {
			return nil, nil
		}
		return os.ReadFile(path)
	}
	text, err := io.ReadAll(*stdin)
	*stdin = bytes.NewReader(text)
	return text, err
}
