package iptables

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"syscall"

	"svcc/apply"
	rules "svcc/emit/iptables"
	"svcc/ir"
)

// Check implements apply.Target. It asks whether every jump leads to a chain of
// the ruleset; then the restore tool's own test; then it writes what is to be
// written in a network namespace of its own, where only the chains that it
// builds on are stubs: that finds what the tool's test lets pass, a jump of a
// table's chains in a circle, say, or a module that the kernel does not have.
func (t *Target) Check(ctx context.Context, p apply.Plan) (notes []string, err error) {
	own, ok := p.(*plan)
	if !ok {
		return nil, fmt.Errorf("internal error: %T was not planned here", p)
	}
	for i := range own.families {
		if err := closed(&own.families[i]); err != nil {
			return nil, err
		}
	}
	for i := range own.families {
		fp := &own.families[i]
		if len(fp.deltas) == 0 {
			continue
		}
		if err := t.test(ctx, fp); err != nil {
			return nil, err
		}
		note, err := t.rehearse(ctx, fp)
		if err == nil && note == "" && slices.ContainsFunc(fp.deltas, func(d *delta) bool { return d.have.unused }) {
			err = t.tryReading(ctx, fp.family)
		}
		if err != nil {
			return nil, err
		}
		if note != "" {
			notes = append(notes, note)
		}
	}
	return notes, nil
}

// test is the tool's own test of a family's input. Of iptables-legacy it leaves out
// tables that the kernel does not have yet, as the test would make them; nothing in
// them could matter to it.
func (t *Target) test(ctx context.Context, fp *familyPlan) error {
	deltas := fp.deltas
	if t.version != nil && !t.version.NFT {
		deltas = slices.DeleteFunc(slices.Clone(deltas), func(d *delta) bool { return d.have.unused })
	}
	if len(deltas) == 0 {
		return nil
	}
	in := t.restore(fp.family, t.restoreText(deltas))
	in.Args = append(in.Args, "--test")
	return t.run(ctx, in)
}

// closed says whether every jump of a family's rules leads to a chain there.
func closed(fp *familyPlan) error {
	for name, t := range fp.want {
		for _, line := range t.rules {
			to := rules.JumpsTo(line)
			if to == "" || t.chain(to) != nil {
				continue
			}
			return fmt.Errorf("%s, table %s: a rule jumps to %s, which the ruleset does not have%s: %s",
				fp.family, name, to, forService(serviceOf(line, servicesOf(t.rules))), line)
		}
	}
	return nil
}

func forService(name string) string {
	if name == "" {
		return ""
	}
	return " (Service " + name + ")"
}

// rehearse writes a family's plan in a namespace of its own. A kernel that does
// not allow one is a note.
func (t *Target) rehearse(ctx context.Context, fp *familyPlan) (note string, err error) {
	var b strings.Builder
	for _, d := range fp.deltas {
		d.rehearsal(&b, len(d.want.rules), true)
	}
	err = t.runIsolated(ctx, fp.family, b.String())
	if errors.Is(err, syscall.EPERM) {
		return fmt.Sprintf("%s: not tried in a network namespace of its own: that needs CAP_SYS_ADMIN", fp.family), nil
	}
	var refused *RefusedError
	if errors.As(err, &refused) && refused.Text == "COMMIT" {
		err = t.culprit(ctx, fp, refused)
	}
	if err != nil {
		return "", fmt.Errorf("tried in a network namespace of its own: %w", err)
	}
	return "", nil
}

// tryReading runs the save tool in a namespace of its own, which has no rules. Of
// tables that the kernel does not have it was asked nothing so far, and what will be
// written must be read back.
func (t *Target) tryReading(ctx context.Context, f ir.Family) error {
	in := apply.Input{Tool: t.tool(f, "save"), Isolated: true}
	dump, err := t.Runner.Run(ctx, in)
	if err == nil {
		err = likeDump(dump)
	}
	if err != nil {
		return fmt.Errorf("%s, tried in a network namespace of its own: %w", in.Tool, err)
	}
	return nil
}

// likeDump says what in a text is no line of a dump.
func likeDump(text []byte) error {
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line != "" && line != "COMMIT" && !strings.ContainsRune("#*:-", rune(line[0])) {
			return answer("%q is no line of a dump", line)
		}
	}
	return nil
}

func (t *Target) runIsolated(ctx context.Context, f ir.Family, text string) error {
	in := t.restore(f, text)
	in.Args = in.Args[:len(in.Args)-1] // all of it is new
	in.Isolated = true
	return t.run(ctx, in)
}

// culprit finds the rule without which, and without those after it, a table is
// taken that was refused as a whole: iptables-legacy does not say which it was.
func (t *Target) culprit(ctx context.Context, fp *familyPlan, refused *RefusedError) error {
	for _, d := range fp.deltas {
		refuses := func(n int) bool {
			var b strings.Builder
			d.rehearsal(&b, n, false)
			return t.runIsolated(ctx, fp.family, b.String()) != nil
		}
		lines := d.written()
		n := sort.Search(len(lines)+1, refuses)
		if ctx.Err() != nil || n == 0 || n > len(lines) {
			continue
		}
		line := lines[n-1]
		return &RefusedError{Text: line, Service: serviceOf(line, servicesOf(d.want.rules)), Err: refused.Err}
	}
	return refused
}

// rehearsal is what a delta writes, for a table that holds nothing yet: the
// chains that it jumps to are empty, and there is nothing to delete. Of the
// rules only the first so many are in it.
func (d *delta) rehearsal(b *strings.Builder, limit int, hooks bool) {
	lines := d.written()
	lines = lines[:min(limit, len(lines))]
	b.WriteString("*" + d.name + "\n")
	d.stubs(b, lines)
	writeLines(b, "", lines)
	for i := range d.hooks {
		if hooks {
			h := hookChange{chain: d.hooks[i].chain, insert: d.hooks[i].insert}
			h.text(b)
		}
	}
	b.WriteString("COMMIT\n")
}

// stubs declares the chains of these rules and of the hooks, and those that
// they jump to.
func (d *delta) stubs(b *strings.Builder, lines []string) {
	declared := map[string]bool{}
	say := func(chain string) {
		if chain != "" && !declared[chain] {
			declared[chain] = true
			declare(b, chain)
		}
	}
	for _, i := range d.write {
		say(d.want.chains[i].name)
	}
	for _, line := range lines {
		say(ruleChain(line))
		say(rules.JumpsTo(line))
	}
	for i := range d.hooks {
		for _, h := range d.hooks[i].insert {
			say(h.to)
		}
	}
}
