package walk

import (
	"iter"

	"svcc/ir/eval"
)

// Boxes are the packets that the rules ask for: for each rule of ours, and at each
// hook by which packets come to it, those of one way there; and those of each
// further way into a chain. Rules of other programs, and chains that nothing leads
// to, have none. Boxes that are known are left out.
//
// Each rule is looked at once for a way that it can be met by, so the cost is that
// of reading the rules, however many ways there are.
func (w *Walker) Boxes(known func(*eval.Box) bool) iter.Seq[*eval.Box] {
	return func(yield func(*eval.Box) bool) {
		for _, s := range w.starts() {
			d := descent{
				w: w, known: known, yield: yield,
				pending: make([][]int32, len(w.rs.Chains)), entered: make([]bool, len(w.rs.Chains)),
				steps: 64*len(w.rs.Rules) + 1<<16,
			}
			if d.chain(w.base[s.stage], s.box, nil); d.stopped {
				return
			}
		}
		if w.rs.Around == nil || w.rs.Around.Boxes == nil {
			return
		}
		for b := range w.rs.Around.Boxes {
			if !known(b) && !yield(b) {
				return
			}
		}
	}
}

// start is a hook with what comes by it.
type start struct {
	stage stage
	box   eval.Box
}

// starts are the hooks that have rules. Where nat looks at what comes in and at
// what the node sends alike, once is enough.
func (w *Walker) starts() (out []start) {
	const first = eval.FlowNew | eval.FlowExpected
	for _, s := range []start{
		{natPrerouting, eval.Box{Hooks: eval.Prerouting, Flows: first}},
		{natOutput, eval.Box{Hooks: eval.Output, Flows: first}},
		{filterInput, eval.Box{Hooks: eval.Input, Flows: eval.AllFlows}},
		{filterForward, eval.Box{Hooks: eval.Forward, Flows: eval.AllFlows}},
		{filterOutput, eval.Box{Hooks: eval.Output, Flows: eval.AllFlows}},
		{natPostrouting, eval.Box{Hooks: eval.Postrouting, Flows: first | eval.FlowRewritten}},
	} {
		if w.rs.Around != nil { // virtual servers take what begins whatever rules call it
			s.box.Flows &^= eval.FlowExpected | eval.FlowUntracked
		}
		switch {
		case w.base[s.stage] < 0:
		case s.stage == natOutput && len(out) > 0 && w.alike(w.base[natPrerouting], w.base[natOutput]):
			out[0].box.Hooks |= eval.Output
		default:
			out = append(out, s)
		}
	}
	return out
}

// alike says that two chains have one rule of ours each, to the same chain, that
// asks nothing.
func (w *Walker) alike(a, b int32) bool {
	x, y := w.own1(a), w.own1(b)
	return x != nil && y != nil && x.N == 0 && y.N == 0 && x.Do == y.Do && x.Jumps() && x.Target == y.Target
}

// own1 is the one rule of ours that a chain has; nil for none or more.
func (w *Walker) own1(chain int32) (one *Rule) {
	rules := w.rs.RulesOf(chain)
	for i := range rules {
		if rules[i].Flags&notOurs != 0 {
			continue
		}
		if one != nil {
			return nil
		}
		one = &rules[i]
	}
	return one
}

// notOurs are rules that no box is made of: other programs', and those that are
// known to be there whatever the Services are.
const notOurs = FlagForeign | FlagOpaque | FlagFurniture

// descent goes down from one hook.
type descent struct {
	w       *Walker
	known   func(*eval.Box) bool
	yield   func(*eval.Box) bool
	stopped bool
	pending [][]int32 // of each chain, the rules that have no box yet
	entered []bool    // the chains that have been entered
	steps   int       // how many more rules may be tried
}

// chain goes through the rules of a chain that have no box yet, with what comes
// there. It says whether it found any that can be met.
func (d *descent) chain(c int32, box eval.Box, up *way) (met bool) {
	if !d.entered[c] {
		d.entered[c] = true
		d.pending[c] = make([]int32, d.w.rs.Chains[c].N)
		for i := range d.pending[c] {
			d.pending[c][i] = int32(i)
		}
	}
	todo := d.pending[c]
	d.pending[c] = nil // a chain cannot come by itself again
	var left []int32
	rules, next := d.w.rs.RulesOf(c), int32(0)
	for n, i := range todo {
		for ; next < i && box.Flows != 0; next++ {
			box, up = d.past(&rules[next], box, up)
		}
		if d.stopped || box.Flows == 0 || d.steps <= 0 {
			left = append(left, todo[n:]...)
			break
		}
		d.steps--
		if b, ok := d.into(&rules[i], box); ok {
			met = true
			d.rule(&rules[i], b, &way{&rules[i], false, up})
			continue
		}
		left = append(left, i)
	}
	d.pending[c] = left
	return met
}

// into is what of a box a rule matches.
func (d *descent) into(r *Rule, box eval.Box) (eval.Box, bool) {
	if r.Flags&notOurs != 0 {
		return box, false
	}
	conds := d.w.rs.condsOf(r)
	for i := range conds {
		if !d.w.rs.narrow(&box, &conds[i]) {
			return box, false
		}
	}
	if d.w.rs.Around == nil && r.Flags&FlagNodePorts != 0 {
		_, single := box.Dst.Single(d.w.rs.Family)
		box.Own = box.Own || single
	}
	return box, true
}

// past is what of a box gets past a rule: what it does not match, if it decides
// and asks for one thing alone. What a rule with more conditions leaves is no box.
func (d *descent) past(r *Rule, box eval.Box, up *way) (eval.Box, *way) {
	if !r.decides() || r.Flags&notOurs != 0 {
		return box, up
	}
	if r.N > 1 {
		return d.beside(r, box), up
	}
	if r.N == 0 {
		box.Flows = 0
		return box, up
	}
	c := d.w.rs.Conds[r.First]
	if !c.tells() {
		return box, up
	}
	c.Not = !c.Not
	if !d.w.rs.narrow(&box, &c) {
		box.Flows = 0
	}
	return box, &way{r, true, up}
}

// mostTries is how many ports a box has tried beside the ends of its range.
const mostTries = 16

// beside has the port tried that follows a range of ports of a rule: what gets past
// one branch may get past all.
func (d *descent) beside(r *Rule, box eval.Box) eval.Box {
	for _, c := range d.w.rs.condsOf(r) {
		if c.Kind == CondDport && !c.Not && c.X < c.Y && len(box.Try) < mostTries {
			box.Try = append(box.Try[:len(box.Try):len(box.Try)], uint16(c.Y)+1)
		}
	}
	return box
}

// decides says that what a rule matches does not meet the next one.
func (r *Rule) decides() bool {
	return r.Do != DoNothing && r.Do != DoMark && r.Do != DoJump
}

// tells says that a condition splits what comes to a chain in few parts, as those
// of fixed chains do.
func (c *Cond) tells() bool {
	switch c.Kind {
	case CondState, CondMark, CondSrcLocal, CondDstLocal, CondIn, CondProto:
		return true
	case CondSrc, CondSrc6, CondDst, CondDst6, CondDport:
		return c.Not
	}
	return false
}

// rule gives a rule's box, and goes on where it leads.
func (d *descent) rule(r *Rule, box eval.Box, w *way) {
	if !r.Jumps() {
		if r.Do != DoNothing {
			d.give(box, w)
		}
		return
	}
	again := d.entered[r.Target]
	met := d.chain(r.Target, box, w)
	if met && r.Flags&flagLeadsOn != 0 && r.Do != DoReturn {
		return // what is asked on the way is asked by each rule behind it
	}
	d.give(box, w)
	if again && !d.known(&box) {
		d.again(r.Target, box, w)
	}
}

// give hands a box out.
func (d *descent) give(box eval.Box, w *way) {
	if sets := w.sets(d.w.rs); len(sets) > 0 {
		d.members(box, w, sets)
		return
	}
	d.send(box, w)
}

func (d *descent) send(box eval.Box, w *way) {
	box.Clears = w.rule.clears()
	if d.stopped || d.known(&box) {
		return
	}
	box.Rule, box.Service = w.rule.Text, w.service()
	box.Holds = d.w.holds(w)
	d.stopped = !d.yield(&box)
}

// clears are the bits of the mark that a rule clears, or turns round.
func (r *Rule) clears() uint32 {
	if r.Do != DoMark {
		return 0
	}
	return r.Mask&^r.Value | r.Value&^r.Mask
}

// mostAgain is how many rules of a chain are given once more for a further way
// into it, and triedAgain how many are tried for that.
const (
	mostAgain  = 3
	triedAgain = 64
)

// again gives some of what a further way into a chain leads to, where that asks
// for more than the way itself.
func (d *descent) again(c int32, box eval.Box, up *way) {
	tries := triedAgain
	given := d.leaves(c, box, up, &tries, mostAgain-1, false)
	tries = triedAgain
	d.leaves(c, box, up, &tries, mostAgain-given, true)
}

// leaves gives at most so many boxes of rules that do not lead further, the first
// or the last of a chain and those below it, and says how many.
func (d *descent) leaves(c int32, box eval.Box, up *way, tries *int, most int, last bool) (n int) {
	rules := d.w.rs.RulesOf(c)
	for i := range rules {
		r := &rules[i]
		if last {
			r = &rules[len(rules)-1-i]
		}
		if *tries--; *tries < 0 || d.steps <= 0 || n >= most {
			break
		}
		d.steps--
		b, ok := d.into(r, box)
		switch w := (&way{r, false, up}); {
		case !ok || r.Do == DoNothing:
		case r.Jumps():
			n += d.leaves(r.Target, b, w, tries, most-n, last)
		case r.N > 0 || up.rule.N > 0:
			d.give(b, w)
			n++
		}
	}
	return n
}
