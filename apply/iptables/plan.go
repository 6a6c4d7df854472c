package iptables

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"svcc/apply"
	"svcc/emit"
	rules "svcc/emit/iptables"
	"svcc/ir"
)

// plan implements apply.Plan.
type plan struct {
	whole    bool
	families []familyPlan
	makes    []string
}

// familyPlan is what one family needs; its tables in the order of writing.
type familyPlan struct {
	family ir.Family
	deltas []*delta
	want   map[string]*table
	input  apply.Input // if there are deltas
}

// Plan implements apply.Target. A family that the ruleset has no section for is
// to hold nothing of ours.
func (t *Target) Plan(desired *emit.Ruleset, from apply.Observed) (apply.Plan, error) {
	have, ok := from.(*observed)
	if !ok {
		return nil, fmt.Errorf("internal error: %T was not observed here", from)
	}
	want, err := wanted(desired)
	if err != nil {
		return nil, err
	}
	p := &plan{}
	for i, f := range ir.Families {
		fp, err := t.planFamily(f, &have.families[i], want[f])
		if err != nil {
			return nil, err
		}
		p.add(t, fp)
	}
	p.whole = !p.Empty() && p.writesAll()
	return p, nil
}

// wanted takes a ruleset apart, by family and table.
func wanted(desired *emit.Ruleset) (map[ir.Family]map[string]*table, error) {
	out := map[ir.Family]map[string]*table{}
	if desired == nil {
		return out, nil
	}
	for _, s := range desired.Sections {
		if out[s.Family] != nil {
			return nil, fmt.Errorf("the ruleset has two sections for %s", s.Family)
		}
		t, err := readSection(s, desired.Head.Hooks)
		if err != nil {
			return nil, err
		}
		out[s.Family] = t
	}
	return out, nil
}

func (t *Target) planFamily(f ir.Family, have *familyState, want map[string]*table) (familyPlan, error) {
	fp := familyPlan{family: f, want: want}
	if have.trouble != "" {
		if want != nil {
			return fp, errors.New(have.trouble)
		}
		return fp, nil
	}
	for _, name := range []string{"filter", "nat", "mangle"} {
		h, w := have.tables[name], want[name]
		if h == nil {
			continue
		}
		if w == nil {
			w = &table{}
		}
		if d := t.planTable(f, name, h, w); !d.none() {
			fp.deltas = append(fp.deltas, d)
		} else {
			t.adopt(tableKey{f, name}, h, w)
		}
	}
	if want == nil {
		slices.Reverse(fp.deltas) // nat first
	}
	return fp, nil
}

func (t *Target) planTable(f ir.Family, name string, have, want *table) *delta {
	d := &delta{family: f, name: name, have: have, want: want}
	d.chainDelta(t.Whole)
	if h := have.chain(rules.SharedChain); h != nil && want.chain(h.name) == nil && slices.Contains(t.Owns, sharedName(f)) {
		d.dropShared(h)
	}
	if t.Canaries && have.canary {
		d.remove = append(d.remove, rules.Canary)
	}
	d.hookDelta()
	return d
}

// sharedName is how Plan.Makes names the shared chain.
func sharedName(f ir.Family) string { return f.String() + " filter " + rules.SharedChain }

// dropShared takes the shared chain away, or only what is ours in it.
func (d *delta) dropShared(h *chain) {
	if h.foreign == 0 && !h.pinned {
		d.remove = append(d.remove, h.name)
		return
	}
	d.unshare = append(d.unshare, d.have.rulesOf(h)...)
}

// add takes a family's deltas in.
func (p *plan) add(t *Target, fp familyPlan) {
	if len(fp.deltas) > 0 {
		fp.input = t.restore(fp.family, t.restoreText(fp.deltas))
	}
	p.families = append(p.families, fp)
	for _, d := range fp.deltas {
		if d.have.unused {
			p.makes = append(p.makes, tableName(fp.family, d.name))
		}
		for _, i := range d.write {
			if d.name == "filter" && d.want.chains[i].name == rules.SharedChain {
				p.makes = append(p.makes, sharedName(fp.family))
			}
		}
	}
}

// Of is the part for one family of a plan that a Target here made. Parts can be
// committed by themselves, in any order.
func Of(p apply.Plan, f ir.Family) apply.Plan {
	out := &plan{}
	if own, ok := p.(*plan); ok {
		out.whole = own.whole
		for _, fp := range own.families {
			if fp.family == f {
				out.families = append(out.families, fp)
			}
		}
	}
	return out
}

// writesAll says that no chain of ours is kept as it is. The shared chain is
// never written as a whole.
func (p *plan) writesAll() bool {
	kept := 0
	for _, fp := range p.families {
		for _, t := range fp.want {
			kept += len(t.chains)
			if t.chain(rules.SharedChain) != nil {
				kept--
			}
		}
		for _, d := range fp.deltas {
			for _, i := range d.write {
				if d.want.chains[i].name != rules.SharedChain {
					kept--
				}
			}
		}
	}
	return kept == 0
}

func (p *plan) Empty() bool     { return len(p.Inputs()) == 0 }
func (p *plan) Whole() bool     { return p.whole }
func (p *plan) Makes() []string { return p.makes }

// Inputs implements apply.Plan. With iptables-legacy, Commit adds the counters
// of the built-in chains' policies; see Target.keepCounters.
func (p *plan) Inputs() []apply.Input {
	var out []apply.Input
	for _, fp := range p.families {
		if len(fp.deltas) > 0 {
			out = append(out, fp.input)
		}
	}
	return out
}

// Rules implements apply.Plan: by family, table and chain; in a chain what goes
// comes before what comes, each in its order.
func (p *plan) Rules() []apply.Change {
	var out []apply.Change
	for _, fp := range p.families {
		for _, d := range fp.deltas {
			out = append(out, d.changes()...)
		}
	}
	slices.SortStableFunc(out, func(a, b apply.Change) int {
		return cmp.Or(cmp.Compare(a.Family, b.Family), cmp.Compare(a.Table, b.Table), cmp.Compare(a.Chain, b.Chain))
	})
	return out
}
