package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"svcc/apply"
	"svcc/apply/iptables"
	"svcc/apply/ipvs"
	"svcc/apply/state"
	"svcc/apply/sums"
	"svcc/compiler/diff"
	"svcc/emit"
	"svcc/emit/mode"
	"svcc/ir"
)

// registerLive registers --live and the flags that are of use with it alone.
func (d *diffCommand) registerLive(f *pflag.FlagSet) {
	f.BoolVar(&d.live, "live", false, "compare with the rules in this node's kernel")
	toolFlag(f, &d.tool)
	f.StringVar(&d.stateDir, "state-dir", state.DefaultPath, "with --live, where svcc apply keeps its record")
}

// compareLive compares this node's kernel with manifests or a ruleset file.
func (d *diffCommand) compareLive(cmd *cobra.Command, args []string) (*diff.Report, error) {
	if len(args) == 0 {
		return nil, errors.New("--live needs PATHs, or a ruleset file")
	}
	d.thisNode = withInterfaces
	wanted, err := d.wanted(args)
	if err != nil {
		return nil, err
	}
	ctx := cmd.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	var sides []diff.Side
	if wanted.compiled != nil {
		wanted.compiled.Side = "new"
		sides = append(sides, *wanted.compiled)
	}
	if r := (&diff.Report{Changes: []diff.Change{}, Sides: sides}); r.Nothing() {
		return r, nil
	}
	live, rules, err := liveRules(ctx, wanted.ruleset, state.At(d.stateDir), apply.Exec{Limit: d.tool})
	if err != nil {
		return nil, needsRoot(err)
	}
	r, err := diff.CompareLive(wanted.programs, live, rules, sides)
	if err == nil {
		d.onlyNames(r)
	}
	return r, err
}

// wanted reads or compiles what the node should have, by default as this node.
func (d *diffCommand) wanted(args []string) (*side, error) {
	s := &side{}
	if len(args) == 1 {
		var err error
		if s, err = d.readRuleset(args[0]); err != nil || s.ruleset != nil {
			return s, err
		}
	}
	node, err := nodeName()
	if err != nil && d.node == "" {
		return nil, err
	}
	head := emit.Head{Mode: d.liveMode(), Node: node, Level: d.compileFlags.o.Level, Hooks: true}
	return s, d.compile(s, &side{ruleset: &emit.Ruleset{Head: head}}, args...)
}

// liveMode is the mode to compile in, where no flag says: what the record says to
// be in force.
func (d *diffCommand) liveMode() string {
	rec, err := state.At(d.stateDir).Record()
	if err != nil || rec.Current == "" {
		return d.modeName
	}
	return cmp.Or(rec.Mode, d.modeName)
}

// liveRules reads the kernel: each family's rules, to send packets through, and
// which of ours an apply would add and remove.
func liveRules(ctx context.Context, wanted *emit.Ruleset, dir *state.Dir, runner apply.Runner) (map[ir.Family]emit.Walker, []diff.Rule, error) {
	glue := &iptables.Target{Runner: runner, LockTimeout: 10 * time.Second, Kernel: sums.Kernel{}}
	var target apply.Target = glue
	switch wanted.Head.Mode {
	case mode.IPTables.Name:
	case mode.IPVS.Name:
		t := &ipvs.Target{Glue: glue, Runner: runner, Kernel: &ipvs.Netlink{}}
		t.Recognize(apply.Rulesets(dir))
		target = t
	default:
		return nil, nil, fmt.Errorf("mode %q cannot be compared with the kernel", wanted.Head.Mode)
	}
	observed, err := target.Observe(ctx)
	if err != nil {
		return nil, nil, err
	}
	plan, err := target.Plan(wanted, observed)
	if err != nil {
		return nil, nil, err
	}
	var rules []diff.Rule
	for _, c := range plan.Rules() {
		rules = append(rules, diff.Rule(c))
	}
	live := map[ir.Family]emit.Walker{}
	for _, f := range wanted.Head.Families {
		if live[f], err = liveWalker(ctx, target, wanted.Head.Mode, f); err != nil {
			return nil, nil, err
		}
	}
	return live, rules, nil
}

// liveWalker reads all that decides about a family's packets.
func liveWalker(ctx context.Context, target apply.Target, name string, f ir.Family) (emit.Walker, error) {
	sections, err := target.Live(ctx, f)
	if err != nil {
		return nil, err
	}
	m := mode.Named(name)
	w, err := m.Backend.Parse(f, sections, true)
	if err != nil && !m.Facts.BindsAddresses && bearsLink() {
		return nil, fmt.Errorf("the node's rules of %s: %w; this node seems to be in IPVS mode: say --mode %s", f, err, mode.IPVS)
	}
	if err != nil {
		return nil, fmt.Errorf("the node's rules of %s: %w", f, err)
	}
	return w, nil
}
