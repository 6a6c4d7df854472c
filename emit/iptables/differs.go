package iptables

import (
	"cmp"
	"net/netip"
	"slices"

	"svcc/emit"
	"svcc/ir"
	"svcc/ir/eval"
)

// Differs gives the destinations of the packets that may meet a rule in which the
// walker and before differ; false if that may be any packet.
//
// A rule that only one of them has, which asks for one address and port, concerns
// that destination. One that asks for less concerns whatever is led to its chain:
// the destinations of the rules that jump there and, where those ask for less as
// well, of the rules that jump to their chains, up to the built-in ones.
func (w *walker) Differs(before emit.Walker) ([]emit.Destination, bool) {
	old, ok := before.(*walker)
	if !ok || old.rs.family != w.rs.family || w.rs.around != nil || old.rs.around != nil {
		return nil, false // what virtual servers do is not told from rules
	}
	if !slices.EqualFunc(w.fixed(), old.fixed(), func(a, b parsedChain) bool { return a.name == b.name && a.policy == b.policy }) {
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
func (w *walker) fixed() []parsedChain {
	return slices.DeleteFunc(slices.Clone(w.rs.chains), func(c parsedChain) bool { return !c.builtin })
}

// texts counts the rules of each text.
func (w *walker) texts() map[ruleText]int {
	out := make(map[ruleText]int, len(w.rs.rules))
	for i := range w.rs.rules {
		out[w.textOf(&w.rs.rules[i])]++
	}
	return out
}

// ruleText is a rule as it is written, in its table.
type ruleText struct{ table, text string }

func (w *walker) textOf(r *parsedRule) ruleText {
	return ruleText{w.rs.chains[r.chain].table, r.text}
}

// sameOrder says that the rules that both have stand in the same order, in each
// chain.
func (w *walker) sameOrder(old *walker) bool {
	return slices.Equal(w.common(old.texts()), old.common(w.texts()))
}

// common are the rules that are in a count as well, chain by chain.
func (w *walker) common(count map[ruleText]int) (out []ruleText) {
	for _, c := range w.byName() {
		rules := w.rs.rulesOf(c)
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
func (w *walker) byName() []int32 {
	out := make([]int32, len(w.rs.chains))
	for i := range out {
		out[i] = int32(i)
	}
	slices.SortFunc(out, func(i, j int32) int {
		a, b := w.rs.chains[i], w.rs.chains[j]
		return cmp.Or(cmp.Compare(a.table, b.table), cmp.Compare(a.name, b.name))
	})
	return out
}

// differing collects destinations.
type differing struct{ found map[emit.Destination]bool }

// side adds what the rules that the other side lacks concern; false if that may be
// anything.
func (d differing) side(u *upward, other map[ruleText]int) bool {
	for i := range u.w.rs.rules {
		r := &u.w.rs.rules[i]
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
	w     *walker
	from  [][]int32 // of each chain, the rules that jump there
	asked []bool    // of each chain, whether it was asked about before
}

func newUpward(w *walker) *upward {
	u := &upward{w: w, from: make([][]int32, len(w.rs.chains)), asked: make([]bool, len(w.rs.chains))}
	for i := range w.rs.rules {
		if r := &w.rs.rules[i]; r.jumps() {
			u.from[r.target] = append(u.from[r.target], int32(i))
		}
	}
	return u
}

// rule adds the destinations of the packets that may meet a rule.
func (u *upward) rule(r *parsedRule, found map[emit.Destination]bool) bool {
	if to, ok := u.w.rs.destination(r); ok {
		found[to] = true
		return true
	}
	return u.chain(r.chain, found)
}

func (u *upward) chain(c int32, found map[emit.Destination]bool) bool {
	if u.w.rs.chains[c].builtin {
		return false
	}
	if u.asked[c] {
		return true
	}
	u.asked[c] = true
	for _, i := range u.from[c] {
		if !u.rule(&u.w.rs.rules[i], found) {
			return false
		}
	}
	return true
}

// destination is the one that a rule asks for: a port and a protocol, with an
// address or, for node ports, without.
func (rs *ruleset) destination(r *parsedRule) (to emit.Destination, ok bool) {
	if r.flags&flagOpaque != 0 {
		return to, false
	}
	key := rs.keyOf(r)
	if !key.hasPort || key.proto == 0 {
		return to, false
	}
	to = emit.Destination{Port: uint16(key.port), Protocol: ir.Protocol(key.proto)}
	if key.hasDst {
		to.Addr = key.dst.addr(rs.family)
	}
	return to, true
}

// addr is an address of a family.
func (a ip) addr(f ir.Family) netip.Addr {
	at, _ := eval.Bits{Hi: a.hi, Lo: a.lo, HiMask: ^uint64(0), LoMask: ^uint64(0)}.Single(f)
	return at
}
