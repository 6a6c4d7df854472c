package iptables

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"svcc/emit"
	"svcc/emit/walk"
	"svcc/ir/eval"
)

// What is read of a node's dump is read with more patience than what svcc wrote:
// a rule of ours that is not understood is broken, and stops only the packets
// that meet it; a target that nobody declared is some extension's; and shares
// that a coarse probability stands for are those that its place in a chain asks
// for.

// unread decides what becomes of a rule with a trouble. Of a dump it is opaque in
// a chain of somebody else's, and broken in one of ours. Elsewhere it is an error
// in a chain of ours, and if its target is nowhere.
func (r *ruleParser) unread(line string, foreign bool) (walk.Flags, error) {
	switch {
	case r.undeclared && !r.rs.Dump:
		return 0, errors.New(r.trouble)
	case foreign || r.table != "nat" && r.table != "filter":
		r.do, r.target = walk.DoNothing, r.rs.addTrouble(r.trouble)
		return walk.FlagOpaque, nil
	case r.rs.Dump:
		r.broken()
		return 0, nil
	}
	return 0, fmt.Errorf("%s: %s", emit.Quote(line), r.trouble)
}

// broken has a rule of ours fail the packets that match what is understood of it:
// of a match without its options (--mode nth has none here), nothing is.
func (r *ruleParser) broken() {
	r.conds = slices.DeleteFunc(r.conds, func(c walk.Cond) bool { return incomplete(&c) != "" })
	r.do, r.target = walk.DoBroken, r.rs.addTrouble(r.trouble)
}

// evenTolerance is what a probability in a dump may be off: half of the fifth
// digit, with which kube-proxy wrote it up to 1.16, and what the kernel's
// resolution and printing add; taken twice.
const evenTolerance = 1e-5

// even gives the probabilities of a dump the fractions that they stand for. In a
// chain that shares out among n, the last rule asks nothing, the one before 1/2,
// and so on up to 1/n: near enough is that fraction. Elsewhere it is the nearest
// one out of few.
func (rs ruleset) even() {
	for c := range rs.Chains {
		rules := rs.RulesOf(int32(c))
		left := uint64(0)
		for i := len(rules) - 1; i >= 0; i-- {
			r := &rules[i]
			share := rs.balances(r)
			switch {
			case share == nil && left == 0 && takes(r):
				left = 1
			case share == nil:
				left = 0
			default:
				left++
				rs.evenShare(share, left)
			}
		}
	}
}

// balances is the share of a rule that takes one of the packets that it meets, by
// chance alone; nil if it is none.
func (rs ruleset) balances(r *walk.Rule) *eval.Share {
	if !takes(r) {
		return nil
	}
	for _, c := range rs.Conds[r.First : r.First+int32(r.N)] {
		if c.Kind == walk.CondStatistic {
			return &rs.Shares[c.X-1]
		}
	}
	return nil
}

// takes says that a rule may take the packets that it matches to an endpoint.
func takes(r *walk.Rule) bool { return r.Jumps() || r.Do == walk.DoDNAT || r.Do == walk.DoBroken }

// unitsKnown is how far neighbours among 1/1, 1/2, ... are told apart whatever
// the place: they are further from each other than twice the tolerance.
const unitsKnown = 200

func (rs ruleset) evenShare(s *eval.Share, left uint64) {
	p := s.Float()
	nearest := uint64(math.Round(1 / max(p, 1e-9)))
	for _, n := range []uint64{left, min(nearest, unitsKnown)} {
		if math.Abs(p-1/float64(n)) <= evenTolerance {
			*s = eval.OneIn(n)
			return
		}
	}
}
