package iptables

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
func (w *walker) Boxes(known func(*eval.Box) bool) iter.Seq[*eval.Box] {
	return func(yield func(*eval.Box) bool) {
		for _, s := range w.starts() {
			d := descent{
				w: w, known: known, yield: yield,
				pending: make([][]int32, len(w.rs.chains)), entered: make([]bool, len(w.rs.chains)),
				steps: 64*len(w.rs.rules) + 1<<16,
			}
			if d.chain(w.base[s.stage], s.box, nil); d.stopped {
				return
			}
		}
		if w.rs.around == nil || w.rs.around.Boxes == nil {
			return
		}
		for b := range w.rs.around.Boxes {
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
func (w *walker) starts() (out []start) {
	const first = eval.FlowNew | eval.FlowExpected
	for _, s := range []start{
		{natPrerouting, eval.Box{Hooks: eval.Prerouting, Flows: first}},
		{natOutput, eval.Box{Hooks: eval.Output, Flows: first}},
		{filterInput, eval.Box{Hooks: eval.Input, Flows: eval.AllFlows}},
		{filterForward, eval.Box{Hooks: eval.Forward, Flows: eval.AllFlows}},
		{filterOutput, eval.Box{Hooks: eval.Output, Flows: eval.AllFlows}},
		{natPostrouting, eval.Box{Hooks: eval.Postrouting, Flows: first | eval.FlowRewritten}},
	} {
		if w.rs.around != nil { // virtual servers take what begins whatever rules call it
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
func (w *walker) alike(a, b int32) bool {
	x, y := w.own1(a), w.own1(b)
	return x != nil && y != nil && x.n == 0 && y.n == 0 && x.do == y.do && x.jumps() && x.target == y.target
}

// own1 is the one rule of ours that a chain has; nil for none or more.
func (w *walker) own1(chain int32) (one *parsedRule) {
	rules := w.rs.rulesOf(chain)
	for i := range rules {
		if rules[i].flags&notOurs != 0 {
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
const notOurs = flagForeign | flagOpaque | flagFurniture

// descent goes down from one hook.
type descent struct {
	w       *walker
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
		d.pending[c] = make([]int32, d.w.rs.chains[c].n)
		for i := range d.pending[c] {
			d.pending[c][i] = int32(i)
		}
	}
	todo := d.pending[c]
	d.pending[c] = nil // a chain cannot come by itself again
	var left []int32
	rules, next := d.w.rs.rulesOf(c), int32(0)
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
func (d *descent) into(r *parsedRule, box eval.Box) (eval.Box, bool) {
	if r.flags&notOurs != 0 {
		return box, false
	}
	conds := d.w.rs.condsOf(r)
	for i := range conds {
		if !d.w.rs.narrow(&box, &conds[i]) {
			return box, false
		}
	}
	if d.w.rs.around == nil && targetChain(d.w.rs, r) == chainNodePorts && d.w.rs.chains[r.chain].table == "nat" {
		_, single := box.Dst.Single(d.w.rs.family)
		box.Own = box.Own || single
	}
	return box, true
}

func targetChain(rs *ruleset, r *parsedRule) string {
	if !r.jumps() {
		return ""
	}
	return rs.chains[r.target].name
}

func (rs *ruleset) condsOf(r *parsedRule) []condition {
	return rs.conds[r.first : r.first+int32(r.n)]
}

// past is what of a box gets past a rule: what it does not match, if it decides
// and asks for one thing alone. What a rule with more conditions leaves is no box.
func (d *descent) past(r *parsedRule, box eval.Box, up *way) (eval.Box, *way) {
	if !r.decides() || r.flags&notOurs != 0 {
		return box, up
	}
	if r.n > 1 {
		return d.beside(r, box), up
	}
	if r.n == 0 {
		box.Flows = 0
		return box, up
	}
	c := d.w.rs.conds[r.first]
	if !c.tells() {
		return box, up
	}
	c.not = !c.not
	if !d.w.rs.narrow(&box, &c) {
		box.Flows = 0
	}
	return box, &way{r, true, up}
}

// mostTries is how many ports a box has tried beside the ends of its range.
const mostTries = 16

// beside has the port tried that follows a range of ports of a rule: what gets past
// one branch may get past all.
func (d *descent) beside(r *parsedRule, box eval.Box) eval.Box {
	for _, c := range d.w.rs.condsOf(r) {
		if c.kind == condDport && !c.not && c.x < c.y && len(box.Try) < mostTries {
			box.Try = append(box.Try[:len(box.Try):len(box.Try)], uint16(c.y)+1)
		}
	}
	return box
}

// decides says that what a rule matches does not meet the next one.
func (r *parsedRule) decides() bool {
	return r.do != doNothing && r.do != doMark && r.do != doJump
}

// tells says that a condition splits what comes to a chain in few parts, as those
// of fixed chains do.
func (c *condition) tells() bool {
	switch c.kind {
	case condState, condMark, condSrcLocal, condDstLocal, condIn, condProto:
		return true
	case condSrc, condSrc6, condDst, condDst6, condDport:
		return c.not
	}
	return false
}

// rule gives a rule's box, and goes on where it leads.
func (d *descent) rule(r *parsedRule, box eval.Box, w *way) {
	if !r.jumps() {
		if r.do != doNothing {
			d.give(box, w)
		}
		return
	}
	again := d.entered[r.target]
	met := d.chain(r.target, box, w)
	if met && r.flags&flagLeadsOn != 0 && r.do != doReturn {
		return // what is asked on the way is asked by each rule behind it
	}
	d.give(box, w)
	if again && !d.known(&box) {
		d.again(r.target, box, w)
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
	box.Rule, box.Service = w.rule.text, w.service()
	box.Holds = d.w.holds(w)
	d.stopped = !d.yield(&box)
}

// clears are the bits of the mark that a rule clears, or turns round.
func (r *parsedRule) clears() uint32 {
	if r.do != doMark {
		return 0
	}
	return r.mask&^r.value | r.value&^r.mask
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
	rules := d.w.rs.rulesOf(c)
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
		case !ok || r.do == doNothing:
		case r.jumps():
			n += d.leaves(r.target, b, w, tries, most-n, last)
		case r.n > 0 || up.rule.n > 0:
			d.give(b, w)
			n++
		}
	}
	return n
}
