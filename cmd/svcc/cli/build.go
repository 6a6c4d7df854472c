package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"svcc/compiler"
	"svcc/compiler/passes"
	"svcc/emit"
	"svcc/emit/mode"
	"svcc/ir"
	"svcc/ir/diag"
)

func newBuild(s streams) *cobra.Command {
	var c compileFlags
	var d diagnosticFlags
	var out, printAfter string
	var bare, stats bool
	cmd := &cobra.Command{
		Use:   "build PATH...",
		Short: "Compile manifests to rules",
		Long:  "Compile the Services and EndpointSlices in files, directories (.yaml, .yml, .json) or standard input (-) to rules for one node.",
		Args:  needPaths,
		RunE: func(_ *cobra.Command, args []string) error {
			o, err := c.options(args, "")
			if err != nil {
				return err
			}
			if !hasStage(printAfter) {
				return fmt.Errorf("--print-after %q: no pass has this name", printAfter)
			}
			o.Stdin = s.in
			var st compiler.Stats
			r, err := compileOnly(o, d, s, both(printer(s.err, printAfter), st.Observe))
			if err != nil {
				return err
			}
			if stats || d.verbose {
				if err := st.Print(s.err, r); err != nil {
					return exit{exitRefused, err}
				}
			}
			if err := writeRuleset(r, bare, out, s.out); err != nil {
				return err
			}
			d.closing(s.err, r, wrote(r, out))
			return leftOut(r)
		},
	}
	c.register(cmd.Flags())
	d.register(cmd.Flags())
	cmd.Flags().StringVarP(&out, "output", "o", "-", "FILE, DIR/ (a file a tool, and the whole) or - for standard output")
	cmd.Flags().BoolVar(&bare, "bare", false, "leave the Program out of the ruleset file")
	cmd.Flags().BoolVar(&stats, "stats", false, "tell what passes did and how many rules a packet meets (so does -v)")
	cmd.Flags().StringVar(&printAfter, "print-after", "", "show the IR on standard error after a pass, after \"resolve\", or after \"all\"")
	return cmd
}

func needPaths(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return errors.New("no PATH is given: files, directories or - are needed")
	}
	return nil
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s takes no argument: %q", cmd.CommandPath(), args[0])
	}
	return nil
}

// wrote says what was written, and what proved it.
func wrote(r *compiler.Result, to string) string {
	n := 0
	for _, u := range r.Units {
		n += u.Probes
	}
	proved := "not proved"
	if n > 0 {
		proved = fmt.Sprintf("proved with %d packets", n)
	}
	if to == "-" {
		to = "standard output"
	}
	return fmt.Sprintf("; %s, written to %s", proved, diag.PlainLine(to))
}

// leftOut is the exit code of what was done without Services that have errors: 0
// would hide that they are missing.
func leftOut(r *compiler.Result) error {
	if r != nil && len(r.Diagnostics.Errors()) > 0 {
		return exit{code: exitFindings}
	}
	return nil
}

// compile is compileOnly with a last line that says what was compiled.
func compile(o compiler.Options, d diagnosticFlags, s streams, observe compiler.Observer) (*compiler.Result, error) {
	r, err := compileOnly(o, d, s, observe)
	if err == nil {
		d.closing(s.err, r, "")
	}
	return r, err
}

// compileOnly runs the compiler and shows what it found. Its error knows the code.
func compileOnly(o compiler.Options, d diagnosticFlags, s streams, observe compiler.Observer) (*compiler.Result, error) {
	if err := refuseRules(o.Paths); err != nil {
		return nil, err
	}
	if o.Flags.Scheduler != nil && !o.Mode.Facts.Schedules {
		return nil, fmt.Errorf("--scheduler is of virtual servers, which mode %s has none of: --mode %s has", o.Mode, mode.IPVS)
	}
	r, err := compiler.Compile(o, observe)
	if err != nil {
		return nil, exit{exitRefused, err}
	}
	d.show(s.err, r.Diagnostics)
	d.stages(s.err, r)
	if r.Units == nil {
		return nil, exit{failure(r.Diagnostics), fmt.Errorf("nothing is done: %s", tally(r.Diagnostics))}
	}
	return r, nil
}

// rulesetOf is a result as one file has it, Programs and all.
func rulesetOf(r *compiler.Result) (*emit.Ruleset, error) {
	rs, err := r.Ruleset(false)
	if err != nil {
		return nil, exit{exitRefused, err}
	}
	return rs, nil
}

// refuseRules tells a file of rules that stands where manifests belong; as YAML
// it would only be called broken.
func refuseRules(paths []string) error {
	if i := slices.IndexFunc(paths, holdsRules); i >= 0 {
		return fmt.Errorf("%s holds rules, where manifests are expected; a ruleset stands alone", paths[i])
	}
	return nil
}

// holdsRules says that a path is a file of rules; - is not looked into.
func holdsRules(path string) bool {
	i, err := os.Stat(path)
	if err != nil || !i.Mode().IsRegular() {
		return false
	}
	head, err := readHead(path)
	return err == nil && emit.IsRules(head)
}

func readHead(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, 4096))
}

// hasStage says whether there is a stage after which the IR can be shown.
func hasStage(name string) bool {
	return name == "" || name == "all" || name == "resolve" ||
		slices.ContainsFunc(passes.Table, func(p passes.Pass) bool { return p.Name == name })
}

// both observes with one and the other; the first may be nil.
func both(a, b compiler.Observer) compiler.Observer {
	if a == nil {
		return b
	}
	return func(stage string, p *ir.Program, g *ir.Graph) error {
		return errors.Join(a(stage, p, g), b(stage, p, g))
	}
}

// printer shows the IR after the stage asked for.
func printer(w io.Writer, stage string) compiler.Observer {
	if stage == "" {
		return nil
	}
	return func(name string, p *ir.Program, g *ir.Graph) error {
		if stage != "all" && stage != name {
			return nil
		}
		fmt.Fprintf(w, "--- after %s\n", name)
		if g != nil {
			return g.Print(w)
		}
		return p.Print(w, true)
	}
}
