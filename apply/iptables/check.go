package iptables

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"svcc/apply"
	rules "svcc/emit/iptables"
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
		if err := t.run(ctx, t.restore(fp.family, restoreText(fp.deltas), "--test")); err != nil {
			return nil, err
		}
		note, err := t.rehearse(ctx, fp)
		if err != nil {
			return nil, err
		}
		if note != "" {
			notes = append(notes, note)
		}
	}
	return notes, nil
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
		d.rehearsal(&b)
	}
	in := t.restore(fp.family, b.String())
	in.Isolated = true
	err = t.run(ctx, in)
	if errors.Is(err, syscall.EPERM) {
		return fmt.Sprintf("%s: not tried in a network namespace of its own: that needs CAP_SYS_ADMIN", fp.family), nil
	}
	if err != nil {
		return "", fmt.Errorf("tried in a network namespace of its own: %w", err)
	}
	return "", nil
}

// rehearsal is what a delta writes, for a table that holds nothing yet: the
// chains that it jumps to are empty, and there is nothing to delete.
func (d *delta) rehearsal(b *strings.Builder) {
	b.WriteString("*" + d.name + "\n")
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
	for _, i := range d.write {
		for _, line := range d.want.rulesOf(&d.want.chains[i]) {
			say(rules.JumpsTo(line))
		}
	}
	if len(d.share) > 0 {
		say(rules.SharedChain)
	}
	for i := range d.hooks {
		for _, h := range d.hooks[i].insert {
			say(h.to)
		}
	}
	for _, i := range d.write {
		writeLines(b, "", d.want.rulesOf(&d.want.chains[i]))
	}
	writeLines(b, "", d.share)
	for i := range d.hooks {
		h := hookChange{chain: d.hooks[i].chain, insert: d.hooks[i].insert}
		h.text(b)
	}
	b.WriteString("COMMIT\n")
}
