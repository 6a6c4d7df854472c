package iptables

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"svcc/apply"
	rules "svcc/emit/iptables"
	"svcc/ir"
)

// Target programs one machine's, or one network namespace's, iptables rules.
// It must not be used by two goroutines at once.
type Target struct {
	Runner apply.Runner
	// Command names the program for a family and a verb: "", "save" or
	// "restore". nil stands for Flavour("").
	Command func(f ir.Family, verb string) string
	// LockTimeout is how long iptables-legacy waits for the xtables lock, in
	// whole seconds, one at least. iptables-nft has no such lock.
	LockTimeout time.Duration
	// Owns are names that Plan.Makes gave, out of the record: what of it is
	// not wanted any more is removed unless others have put something into it.
	// Tables stay; Left tells of those that are empty.
	Owns []string
	// Canaries lets kube-proxy's canary chains go too, in every table that has
	// them: to take over, or to remove.
	Canaries bool
	// Whole makes Plan write every chain, also those that do not differ.
	Whole bool

	// Kernel saves reading by the tool what the kernel tells to be as it was; nil
	// for the tool alone.
	Kernel Kernel

	version *Version
	lacks   map[ir.Family]error // why a family's tools do not answer
	seen    map[tableKey]*seenTable
}

var _ apply.Target = (*Target)(nil)

// tables are those that rulesets have, in the order in which they are written.
var tables = []string{"filter", "nat"}

func (t *Target) tool(f ir.Family, verb string) string {
	if t.Command == nil {
		return Flavour("")(f, verb)
	}
	return t.Command(f, verb)
}

// restore is a run of the restore tool. What is not named in stdin stays.
func (t *Target) restore(f ir.Family, stdin string) apply.Input {
	wait := max(1, int(t.LockTimeout/time.Second))
	return apply.Input{
		Tool:  t.tool(f, "restore"),
		Args:  []string{"-w", strconv.Itoa(wait), "--noflush"},
		Stdin: []byte(stdin),
		Waits: time.Duration(wait) * time.Second,
	}
}

// Observe implements apply.Target. A family that the machine does not have is
// noted as such: Plan refuses to write to it. Any other failure to read is an
// error, as is a machine that has neither: taken for absent, a family would keep
// its rules when all are to go.
func (t *Target) Observe(ctx context.Context) (apply.Observed, error) {
	names := tables
	if t.Canaries {
		names = append(slices.Clone(tables), "mangle")
	}
	o, err := t.observe(ctx, names)
	if err != nil {
		return nil, err
	}
	return o, nil
}

func (t *Target) observe(ctx context.Context, names []string) (*observed, error) {
	if _, err := t.Version(ctx); err != nil {
		return nil, err
	}
	o := &observed{}
	var errs []error
	for i, f := range ir.Families {
		var err error
		if o.families[i], err = t.readFamily(ctx, f, names); err != nil {
			return nil, err
		}
		if why := o.families[i].trouble; why != "" {
			if err := t.unread(f, why); err != nil {
				return nil, err
			}
			errs = append(errs, errors.New(why))
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(errs) == len(ir.Families) {
		return nil, errors.Join(errs...)
	}
	return o, nil
}

// unread is an error where the kernel has rules of ours of a family that cannot be
// read: they would stay whatever is done, and nothing would tell.
func (t *Target) unread(f ir.Family, why string) error {
	if t.Kernel == nil {
		return nil
	}
	for _, name := range tables {
		chains, err := t.Kernel.Chains(f, name, t.version.NFT)
		chains = slices.DeleteFunc(chains, func(c string) bool { return !OnlyServices(name, c) })
		if err == nil && len(chains) > 0 {
			return fmt.Errorf("%s; the kernel has chains of Services of that family, such as %s, which could be neither compared nor taken away", why, chains[0])
		}
	}
	return nil
}

func (t *Target) readFamily(ctx context.Context, f ir.Family, names []string) (familyState, error) {
	s := familyState{tables: map[string]*table{}}
	if err := t.lacks[f]; absent(err) {
		return familyState{trouble: fmt.Sprintf("%s cannot be read: %v", f, err)}, nil
	}
	for _, name := range names {
		var err error
		s.tables[name], err = t.readTable(ctx, f, name)
		switch {
		case absent(err):
			return familyState{trouble: fmt.Sprintf("%s cannot be read: %v", f, err)}, nil
		case err != nil:
			return familyState{}, fmt.Errorf("%s cannot be read: %w", f, err)
		}
	}
	return s, nil
}

// absent says that a tool failed because the machine has no such family: the
// tool is not there, or the kernel has no such tables (libiptc's and the socket's
// words for it).
func absent(err error) bool {
	var tool *apply.ToolError
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return true
	}
	return errors.As(err, &tool) && slices.ContainsFunc(
		[]string{"Table does not exist", "tables who?", "not supported", "Protocol not available"},
		func(words string) bool { return strings.Contains(tool.Stderr, words) })
}

// Commit implements apply.Target: it runs the plan's inputs in order, up to the
// first that fails. The error names the Service of the line that was refused.
func (t *Target) Commit(ctx context.Context, p apply.Plan) error {
	own, ok := p.(*plan)
	if !ok {
		return fmt.Errorf("internal error: %T was not planned here", p)
	}
	for _, fp := range own.families {
		if len(fp.deltas) == 0 {
			continue
		}
		if err := t.write(ctx, fp.family, fp.input); err != nil {
			return err
		}
	}
	return nil
}

// write runs a restore that changes the node.
func (t *Target) write(ctx context.Context, f ir.Family, in apply.Input) error {
	v, err := t.Version(ctx)
	if err != nil {
		return err
	}
	if !v.NFT {
		if in, err = t.keepCounters(ctx, f, in); err != nil {
			return err
		}
	}
	return t.run(ctx, in)
}

func (t *Target) run(ctx context.Context, in apply.Input) error {
	_, err := t.Runner.Run(ctx, in)
	return explain(err, in)
}

// Restore implements apply.Target. If the tool refuses the way back from what
// is there, everything ours is written anew.
func (t *Target) Restore(ctx context.Context, to apply.Observed) error {
	return t.RestoreOnly(ctx, to, ir.Families...)
}

// RestoreOnly is Restore of some families alone.
func (t *Target) RestoreOnly(ctx context.Context, to apply.Observed, of ...ir.Family) error {
	want, ok := to.(*observed)
	if !ok {
		return fmt.Errorf("internal error: %T was not observed here", to)
	}
	err := t.back(ctx, want, of, false)
	if err == nil || errors.Is(err, apply.ErrLocked) || errors.Is(err, apply.ErrToolTimeout) || ctx.Err() != nil {
		return err
	}
	return t.back(ctx, want, of, true)
}

func (t *Target) back(ctx context.Context, want *observed, of []ir.Family, whole bool) error {
	names := tables
	if want.hasTable("mangle") {
		names = append(slices.Clone(tables), "mangle")
	}
	have, err := t.observe(ctx, names)
	if err != nil {
		return err
	}
	var errs []error
	for i, f := range ir.Families {
		if !slices.Contains(of, f) {
			continue
		}
		deltas := backDeltas(f, &have.families[i], &want.families[i], whole)
		if len(deltas) > 0 {
			errs = append(errs, t.write(ctx, f, t.restore(f, t.restoreText(deltas))))
		}
	}
	return errors.Join(errs...)
}

// backDeltas are the ways from one state to another that was observed. A family
// that could not be read then was not written either.
func backDeltas(f ir.Family, have, want *familyState, whole bool) []*delta {
	var out []*delta
	for _, name := range append(slices.Clone(tables), "mangle") {
		h, w := have.tables[name], want.tables[name]
		if h == nil || w == nil {
			continue
		}
		d := &delta{family: f, name: name, have: h, want: w}
		d.chainDelta(whole)
		if shared := h.chain(rules.SharedChain); shared != nil && w.chain(rules.SharedChain) == nil {
			d.dropShared(shared)
		}
		d.canaryBack = w.canary && !h.canary
		d.hooksBack()
		if !d.none() {
			out = append(out, d)
		}
	}
	return out
}

func (t *Target) restoreText(deltas []*delta) string {
	var b strings.Builder
	for _, d := range deltas {
		d.text(&b, t.version != nil && t.version.NFT)
	}
	return b.String()
}

// Load implements apply.Target.
func (t *Target) Load(b []byte) (apply.Observed, error) {
	o, err := loadObserved(string(b))
	if err != nil {
		return nil, err
	}
	return o, nil
}
