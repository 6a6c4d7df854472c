package ipvs

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"svcc/apply"
	"svcc/apply/iptables"
	"svcc/emit"
	spec "svcc/emit/ipvs"
	"svcc/ir"
)

// plan implements apply.Plan.
type plan struct {
	glue     apply.Plan
	route    *route
	steps    []step
	whole    bool
	aim      *aim
	newSets  bool       // whether there are sets to come that glue may refer to
	draining []drainage // for Tidy
}

// Plan implements apply.Target.
func (t *Target) Plan(desired *emit.Ruleset, from apply.Observed) (apply.Plan, error) {
	have, ok := from.(*observed)
	if !ok || have.state == nil {
		return nil, fmt.Errorf("internal error: %T was not observed here", from)
	}
	a, err := t.read(desired)
	if err != nil {
		return nil, err
	}
	want := a.state
	if t.TakeOver {
		have.takeOver(want)
	}
	if err := have.allows(want); err != nil {
		return nil, err
	}
	own := have.spared(append(slices.Clone(t.Exclude), a.exclude...), want)
	p := &plan{aim: a, route: lead(own, want), draining: drainages(own, want)}
	if p.glue, err = t.Glue.Plan(a.glue, have.glue); err != nil {
		return nil, err
	}
	times, err := t.glueTimes(a, have)
	if err != nil {
		return nil, err
	}
	p.steps = p.route.steps(p.glueSteps(times))
	p.whole = !p.Empty() && p.writesAll()
	for _, e := range p.route.edits {
		p.newSets = p.newSets || e.have == nil
	}
	return p, nil
}

// glueTimes says when to write the glue, by family. Where rules are in force and
// no filled sets are there, these are iptables mode's: they serve until the virtual
// servers do. Where none are to be, servers still need those that there are.
func (t *Target) glueTimes(a *aim, have *observed) (at [2]glueAt, err error) {
	for i, f := range ir.Families {
		switch {
		case !a.hasGlue(f):
			at[i] = glueLate
		case len(a.state.Families[i].Sets) > 0 && !have.state.Families[i].filled():
			there, err := t.Glue.Plan(nil, have.glue)
			if err != nil {
				return at, err
			}
			if !iptables.Of(there, f).Empty() {
				at[i] = glueMid
			}
		}
	}
	return at, nil
}

// glueSteps are one for both families, where their time is the same.
func (p *plan) glueSteps(at [2]glueAt) []timedStep {
	if p.glue.Empty() {
		return nil
	}
	if at[0] == at[1] {
		return []timedStep{{at[0], glueStep{p.glue}}}
	}
	var out []timedStep
	for i, f := range ir.Families {
		if part := iptables.Of(p.glue, f); !part.Empty() {
			out = append(out, timedStep{at[i], glueStep{part}})
		}
	}
	return out
}

// spared is a state without the virtual servers that are to be left alone: they
// are excluded, and not wanted.
func (o *observed) spared(exclude []netip.Prefix, want *state) *state {
	if len(exclude)+len(o.excluded) == 0 {
		return o.state
	}
	out := *o.state
	for i := range ir.Families {
		out.Families[i].Servers = slices.DeleteFunc(slices.Clone(out.Families[i].Servers), func(v *Server) bool {
			return (within(exclude, v.Key) || slices.Contains(o.excluded, v.Key)) && want.Families[i].server(v.Key) == nil
		})
	}
	return &out
}

// server gives one by its key; nil if there is none.
func (f *familyState) server(k spec.Key) *Server {
	i, ok := slices.BinarySearchFunc(f.Servers, k, func(s *Server, k spec.Key) int { return s.Key.Compare(k) })
	if !ok {
		return nil
	}
	return f.Servers[i]
}

// allows says whether the kernel can hold what is wanted, beside what is
// somebody else's there.
func (o *observed) allows(want *state) error {
	if want.Link && o.noLink != "" {
		return fmt.Errorf("%s; delete it or give it another name (ip link set %s name NAME)", o.noLink, spec.Link)
	}
	if n := len(o.unseen); n > 0 {
		return fmt.Errorf("the kernel has %d sets of svcc's (%s), which can be neither read nor taken away without ipset: %s; install it and run this again; until then nothing is written",
			n, strings.Join(o.unseen[:min(n, 3)], ", "), o.noSets)
	}
	for i := range ir.Families {
		w := &want.Families[i]
		if len(w.Servers) > 0 && o.noIPVS != "" {
			return errors.New(o.noIPVS)
		}
		if len(w.Sets) > 0 && o.noSets != "" {
			return fmt.Errorf("the kernel has no sets, or there is no ipset: modprobe ip_set (%s)", o.noSets)
		}
		for _, set := range w.Sets {
			if err := o.replaceable(i, set); err != nil {
				return err
			}
		}
		if list := o.inTheWay(i, w); len(list) > 0 {
			const fault = "virtual server %s is there and is not svcc's; delete it (ipvsadm -D %[1]s) or the Service that wants its place, or go on with --take-over"
			return fmt.Errorf(fault, list[0].Key)
		}
	}
	return nil
}

// replaceable says whether a set can get the place of the one that is there. The
// kernel swaps sets of one type and family; another it lets go only when nothing
// refers to it.
func (o *observed) replaceable(i int, set *spec.Set) error {
	own, f := &o.state.Families[i], ir.Families[i]
	h := own.set(set.Name)
	if h == nil || h.Swaps(set, f) || !own.Used[set.Name] {
		return nil
	}
	who := "svcc's own rules use it: take it away with svcc remove"
	if own.Busy[set.Name] {
		who = fmt.Sprintf("rules or sets that are not svcc's use it: find them (iptables-save | grep %[1]s; ip6tables-save | grep %[1]s; ipset list), take them away, and then it (ipset destroy %[1]s)", set.Name)
	}
	return fmt.Errorf("set %s is there already, \"%s\", and must be \"%s\"; it cannot be replaced while %s", set.Name, h.Create(f), set.Create(f), who)
}

// writesAll says that nothing of ours is kept as it is.
func (p *plan) writesAll() bool {
	if !p.glue.Empty() && !p.glue.Whole() {
		return false
	}
	for i := range ir.Families {
		for _, s := range p.route.want.Families[i].Sets {
			if p.route.have.Families[i].set(s.Name) != nil {
				return false
			}
		}
		if len(p.route.have.Families[i].Servers) > 0 {
			return false
		}
	}
	return true
}

func (p *plan) Empty() bool           { return len(p.steps) == 0 }
func (p *plan) Whole() bool           { return p.whole }
func (p *plan) Makes() []string       { return p.glue.Makes() }
func (p *plan) Inputs() []apply.Input { return inputs(p.steps) }
