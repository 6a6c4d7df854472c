package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"svcc/apply"
	"svcc/compiler"
	"svcc/emit"
)

// applyCommand is svcc apply.
type applyCommand struct {
	streams
	compileFlags
	diagnosticFlags
	engineFlags
	unattended
	unsealed bool
	compiled *compiler.Result // nil where a ruleset was read
}

func newApply(s streams) *cobra.Command {
	a := &applyCommand{streams: s}
	cmd := &cobra.Command{
		Use:   "apply PATH...|RULESET, apply --confirmed [RULESET]",
		Short: "Bring this node to what manifests or a ruleset file say",
		Long: "Compile PATHs, or read RULESET, a file that svcc build wrote, and bring this node's rules there as a whole: check, write, read\n" +
			"back, record. If anything fails, or svcc is told to stop, the old state is put back. What has its place already is not written.",
		Args: func(_ *cobra.Command, args []string) error { return a.needPaths(args) },
		RunE: func(_ *cobra.Command, args []string) error { return a.run(args) },
	}
	f := cmd.Flags()
	a.compileFlags.register(f)
	a.diagnosticFlags.register(f)
	a.registerChange(f)
	a.registerConfirm(f)
	a.registerRetry(f)
	a.unattended.register(f)
	f.BoolVar(&a.allowShrink, "allow-shrink", false, "go on although more than half of the services lose their endpoints")
	f.DurationVar(&a.drain, "drain-timeout", 0, "in ipvs mode, how long to wait for connections to TCP endpoints that are gone; those that are left then are for a later run")
	f.BoolVar(&a.unsealed, "unsealed", false, "take a RULESET that was edited or cut off")
	return cmd
}

func (a *applyCommand) run(args []string) error {
	if err := a.check(a.engineFlags); err != nil {
		return err
	}
	a.mode = a.modeName
	e, err := a.engine(a.streams, a.quiet, a.takeOver)
	if err != nil {
		return err
	}
	ctx, stop := a.interruptible()
	defer stop()
	if a.asked() {
		rs, err := a.choose(ctx, args, e)
		if rs == nil || err != nil {
			return err
		}
		return a.apply(ctx, e, rs)
	}
	rs, err := a.input(args, e)
	if err != nil {
		if mending := e.Recover(ctx); mending != nil {
			return applied(fmt.Errorf("%w; %w", mending, err))
		}
		return err
	}
	return a.apply(ctx, e, rs)
}

func (a *applyCommand) apply(ctx context.Context, e *apply.Engine, rs *emit.Ruleset) error {
	if a.flags.Changed("mode") {
		e.Options.ChangeMode = true
	}
	r, err := e.Apply(ctx, rs)
	if err = a.outcome(a.streams, e, r, err); err != nil {
		return err
	}
	return leftOut(a.compiled)
}

// input gives the ruleset that the arguments mean, and tells the engine whose it
// must be: one that is compiled here is this node's.
func (a *applyCommand) input(args []string, e *apply.Engine) (*emit.Ruleset, error) {
	node, err := nodeName()
	if err != nil && a.node == "" {
		return nil, err
	}
	stdin := a.in
	if len(args) == 1 {
		text, err := peek(args[0], &stdin)
		if err != nil {
			return nil, err
		}
		if emit.IsRules(text) {
			e.Options.Node = node
			if a.node != "" {
				e.Options.Node = a.node
			}
			return a.ruleset(args[0], text, e)
		}
	}
	return a.compile(args, node, stdin)
}

func (a *applyCommand) ruleset(path string, text []byte, e *apply.Engine) (*emit.Ruleset, error) {
	if err := a.compiledAlready(path); err != nil {
		return nil, err
	}
	rs, err := emit.Unmarshal(text)
	if rs != nil && !a.flags.Changed("mode") {
		a.aimAt(e, rs.Head.Mode)
		e.Options.ChangeMode = true
	}
	switch {
	case err == nil, errors.Is(err, emit.ErrSeal) && a.unsealed:
		return rs, a.prove(e, rs, path)
	case errors.Is(err, emit.ErrSeal):
		return nil, exit{exitRefused, fmt.Errorf("%s: %w; if that was on purpose, go on with --unsealed", path, err)}
	}
	return nil, fmt.Errorf("%s: %w", path, err)
}

// prove has the engine hold a ruleset against its own Program before it is
// written, unless --no-proof says that this is not wanted.
func (a *applyCommand) prove(e *apply.Engine, rs *emit.Ruleset, path string) error {
	if a.compileFlags.o.NoProof {
		e.Accept = func(_, rs *emit.Ruleset) error { return compiler.Understand(rs) }
		return nil
	}
	if len(rs.Programs) == 0 && len(rs.Sections) > 0 {
		return exit{exitRefused, fmt.Errorf("%s: %w; to apply it unproved, go on with --no-proof", path, compiler.ErrBare)}
	}
	e.Accept, e.AcceptedBy = compiler.Prove, ownVersion()
	return nil
}

// compiledAlready refuses flags that say how to compile where nothing is.
func (a *applyCommand) compiledAlready(path string) error {
	var all compileFlags
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	all.register(set)
	var wrong error
	set.VisitAll(func(f *pflag.Flag) {
		if !slices.Contains([]string{"node", "mode", "no-proof"}, f.Name) && a.flags.Changed(f.Name) && wrong == nil {
			wrong = fmt.Errorf("--%s says how to compile, and %s is compiled already", f.Name, path)
		}
	})
	return wrong
}

func (a *applyCommand) compile(args []string, node string, stdin io.Reader) (*emit.Ruleset, error) {
	o, err := a.options(args, "")
	if err != nil {
		return nil, err
	}
	o.Stdin, o.DefaultNode = stdin, node
	if err := withInterfaces(&o); err != nil {
		return nil, err
	}
	if a.compiled, err = compile(o, a.diagnosticFlags, a.streams, nil); err != nil {
		return nil, err
	}
	return rulesetOf(a.compiled)
}
