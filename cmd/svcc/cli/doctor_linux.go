package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"svcc/apply"
	"svcc/apply/doctor"
	"svcc/apply/state"
	"svcc/emit"
	"svcc/emit/mode"
	"svcc/ir"
	"svcc/ir/diag"
)

// doctorCommand is svcc doctor.
type doctorCommand struct {
	streams
	stateDir, mode              string
	schedulers                  []string
	tool                        time.Duration
	fix, asJSON, verbose, table bool
	strict                      bool
}

func newDoctor(s streams) *cobra.Command {
	d := &doctorCommand{streams: s}
	cmd := &cobra.Command{
		Use:   "doctor [RULESET]",
		Short: "Say what on this node keeps rules from working, and what to do",
		Long: "Look at this node's tools, kernel, settings and other rules, for what RULESET asks of it, or else the ruleset that was applied last.\n" +
			"Nothing is changed but, with --fix, the settings that were named. Exit code 0: nothing fails;\n" +
			"1: something does, or could not be looked at; with --strict, or there are warnings.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return d.run(cmd, args) },
	}
	f := cmd.Flags()
	f.StringVar(&d.mode, "mode", "", "what the node is to be in: iptables, ipvs (default that of RULESET, or else of the ruleset that was applied last)")
	f.StringSliceVar(&d.schedulers, "scheduler", nil, "in IPVS mode, schedulers that are to be there, beside the ruleset's")
	f.StringVar(&d.stateDir, "state-dir", state.DefaultPath, "where the rulesets, the record and the journal are kept")
	toolFlag(f, &d.tool)
	f.BoolVar(&d.fix, "fix", false, "set the settings (sysctl) that are named, until the next boot")
	f.BoolVar(&d.asJSON, "json", false, "print JSON")
	f.BoolVarP(&d.verbose, "verbose", "v", false, "show what is fine as well")
	f.BoolVar(&d.strict, "strict", false, "exit code 1 for warnings as well")
	f.BoolVar(&d.table, "list", false, "list the checks instead")
	return cmd
}

func (d *doctorCommand) run(cmd *cobra.Command, args []string) error {
	if d.table {
		for _, c := range doctor.Checks {
			fmt.Fprintf(d.out, "%-14s %s\n", c.ID, c.Doc)
		}
		return nil
	}
	if d.fix {
		if err := recoverFirst(cmd.Context(), d.streams, d.stateDir); err != nil {
			return applied(err)
		}
	}
	doc, err := d.doctor(args)
	if err != nil {
		return err
	}
	r := examined{Findings: doc.Examine(cmd.Context())}
	if d.fix {
		if err := r.mend(cmd, doc); err != nil {
			return exit{exitRefused, err}
		}
	}
	if err := d.show(r); err != nil {
		return err
	}
	if !doctor.Works(r.Findings, d.strict) {
		return exit{code: exitFindings}
	}
	return nil
}

// examined is what svcc doctor --json prints.
type examined struct {
	Findings []doctor.Finding `json:"findings"`
	Fixed    []string         `json:"fixed,omitempty"` // "name: old -> new"
}

// mend sets what findings named, and looks again.
func (r *examined) mend(cmd *cobra.Command, doc *doctor.Doctor) error {
	was, err := doc.Fix(r.Findings)
	for _, s := range was {
		for _, f := range r.Findings {
			if f.Sysctl != nil && f.Sysctl.Name == s.Name {
				r.Fixed = append(r.Fixed, fmt.Sprintf("%s: %s -> %s", s.Name, s.Value, f.Sysctl.Value))
				break
			}
		}
	}
	r.Findings = doc.Examine(cmd.Context())
	return err
}

// doctor knows what the node is to do, as far as anything says so.
func (d *doctorCommand) doctor(args []string) (*doctor.Doctor, error) {
	if d.mode != "" {
		if _, err := modeNamed(d.mode); err != nil {
			return nil, err
		}
	}
	for _, s := range d.schedulers {
		if !slices.Contains(ir.Schedulers, s) {
			return nil, fmt.Errorf("--scheduler %s: there are %s", s, strings.Join(ir.Schedulers, ", "))
		}
	}
	out := &doctor.Doctor{Root: "/", Runner: apply.Exec{Limit: d.tool}, StateDir: d.stateDir, Schedulers: d.schedulers}
	dir := state.At(d.stateDir)
	rec, _ := dir.Record() // the check of the state directory tells of errors
	out.InForce = rulesetOfState(dir, rec.Current)
	asked := out.InForce
	if len(args) == 1 {
		var err error
		if asked, err = readRuleset(args[0]); err != nil {
			return nil, err
		}
	}
	name := rec.Mode
	if asked != nil {
		name = asked.Head.Mode
	}
	out.Mode = mode.Named(cmp.Or(d.mode, name))
	if asked == nil || len(asked.Programs) == 0 {
		return out, nil
	}
	var err error
	out.Programs, err = asked.ReadPrograms()
	return out, err
}

// readRuleset reads a file, sealed or not.
func readRuleset(path string) (*emit.Ruleset, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	rs, err := emit.Unmarshal(text)
	if errors.Is(err, emit.ErrSeal) {
		err = nil
	}
	return rs, err
}

func (d *doctorCommand) show(r examined) error {
	if d.asJSON {
		return printDocument(d.out, "doctor", r)
	}
	for _, f := range r.Fixed {
		fmt.Fprintf(d.out, "set %s, until the next boot\n", f)
	}
	fine := 0
	for _, f := range r.Findings {
		if f.State == doctor.OK {
			fine++
		}
		if f.State != doctor.OK || d.verbose {
			showFinding(d.out, f)
		}
	}
	_, err := fmt.Fprintf(d.out, "%d of %d checks are fine\n", fine, len(r.Findings))
	return err
}

func showFinding(w io.Writer, f doctor.Finding) {
	fmt.Fprintf(w, "%-7s  %s: %s\n", f.State, f.ID, diag.Plain(f.Text))
	if f.Todo != "" {
		fmt.Fprintf(w, "         -> %s\n", diag.Plain(f.Todo))
	}
}
