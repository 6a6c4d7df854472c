package walk

import (
	"cmp"
	"slices"

	"svcc/emit"
	"svcc/ir"
)

// Differs gives the destinations of the packets that may meet a rule in which the
// walker and before differ; false if that may be any packet.
//
// A rule that only one of them has, which asks for one address and port, concerns
// that destination. One that asks for less concerns whatever is led to its chain:
// the destinations of the rules that jump there and, where those ask for less as
// well, of the rules that jump to their chains, up to the built-in ones.
func (w *Walker) Differs(before emit.Walker) ([]emit.Destination, bool) {
	old, ok := before.(*Walker)
	if !ok || old.rs.Family != w.rs.Family || w.rs.Around != nil || old.rs.Around != nil {
		return nil, false // what virtual servers do is not told from rules
	}
	if !slices.EqualFunc(w.fixed(), old.fixed(), func(a, b Chain) bool { return a.Name == b.Name && a.Policy == b.Policy }) {
		return nil, false
	}
	d := differing{found: map[emit.Destination]bool{}}
	for _, side := range []*upward{newUpward(w), newUpward(old)} {
		other := old
		if side.w == old {
			other = w
		}
		if !d.side(side, other.texts()) {
			return nil, false
		}
	}
	return d.sorted(), w.sameOrder(old)
}

// fixed are the built-in chains.
func (w *Walker) fixed() []Chain {
	return slices.DeleteFunc(slices.Clone(w.rs.Chains), func(c Chain) bool { return !c.Builtin })
}

// texts counts the rules of each text.
func (w *Walker) texts() map[ruleText]int {
	out := make(map[ruleText]int, len(w.rs.Rules))
	for i := range w.rs.Rules {
		out[w.textOf(&w.rs.Rules[i])]++
	}
	return out
}

// ruleText is a rule as it is written, in its table.
type ruleText struct{ table, text string }

func (w *Walker) textOf(r *Rule) ruleText {
	return ruleText{w.rs.Chains[r.Chain].Table, r.Text}
}

// sameOrder says that the rules that both have stand in the same order, in each
// chain.
func (w *Walker) sameOrder(old *Walker) bool {
	return slices.Equal(w.common(old.texts()), old.common(w.texts()))
}

// common are the rules that are in a count as well, chain by chain.
func (w *Walker) common(count map[ruleText]int) (out []ruleText) {
	for _, c := range w.byName() {
		rules := w.rs.RulesOf(c)
		for i := range rules {
			if t := w.textOf(&rules[i]); count[t] > 0 {
				count[t]--
				out = append(out, t)
			}
		}
	}
	return out
}

// byName are the chains, sorted by table and name.
func (w *Walker) byName() []int32 {
	out := make([]int32, len(w.rs.Chains))
	for i := range out {
		out[i] = int32(i)
	}
	slices.SortFunc(out, func(i, j int32) int {
		a, b := w.rs.Chains[i], w.rs.Chains[j]
		return cmp.Or(cmp.Compare(a.Table, b.Table), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// differing collects destinations.
type differing struct{ found map[emit.Destination]bool }

// side adds what the rules that the other side lacks concern; false if that may be
// anything.
func (d differing) side(u *upward, other map[ruleText]int) bool {
	for i := range u.w.rs.Rules {
		r := &u.w.rs.Rules[i]
		if t := u.w.textOf(r); other[t] > 0 {
			other[t]--
			continue
		}
		if !u.rule(r, d.found) {
			return false
		}
	}
	return true
}

func (d differing) sorted() []emit.Destination {
	out := make([]emit.Destination, 0, len(d.found))
	for x := range d.found {
		out = append(out, x)
	}
	slices.SortFunc(out, emit.Destination.Compare)
	return out
}

// upward finds whom rules concern, against the direction of jumps.
type upward struct {
	w     *Walker
	from  [][]int32 // of each chain, the rules that jump there
	asked []bool    // of each chain, whether it was asked about before
}

func newUpward(w *Walker) *upward {
	u := &upward{w: w, from: make([][]int32, len(w.rs.Chains)), asked: make([]bool, len(w.rs.Chains))}
	for i := range w.rs.Rules {
		if r := &w.rs.Rules[i]; r.Jumps() {
			u.from[r.Target] = append(u.from[r.Target], int32(i))
		}
	}
	return u
}

// rule adds the destinations of the packets that may meet a rule.
func (u *upward) rule(r *Rule, found map[emit.Destination]bool) bool {
	if to, ok := u.w.rs.destination(r); ok {
		found[to] = true
		return true
	}
	return u.chain(r.Chain, found)
}

func (u *upward) chain(c int32, found map[emit.Destination]bool) bool {
	if u.w.rs.Chains[c].Builtin {
		return false
	}
	if u.asked[c] {
		return true
	}
	u.asked[c] = true
	for _, i := range u.from[c] {
		if !u.rule(&u.w.rs.Rules[i], found) {
			return false
		}
	}
	return true
}

// destination is the one that a rule asks for: a port and a protocol, with an
// address or, for node ports, without.
func (rs *Ruleset) destination(r *Rule) (to emit.Destination, ok bool) {
	if r.Flags&FlagOpaque != 0 {
		return to, false
	}
	key := rs.keyOf(r)
	if !key.hasPort || key.proto == 0 {
		return to, false
	}
	to = emit.Destination{Port: uint16(key.port), Protocol: ir.Protocol(key.proto)}
	if key.hasDst {
		to.Addr = key.dst.addr(rs.Family)
	}
	return to, true
}
