package walk

import (
	"cmp"
	"net/netip"
	"slices"

	"svcc/ir/eval"
)

// chances are what WalkTo passes over in one chain: runs of rules that stand one
// behind the other, leave an endpoint to chance and never come back. A packet that
// is looked at on its way to one endpoint goes straight to the rules that lead
// there, with the share that the others leave it.
type chances struct {
	runs []chanceRun
	ways []chanceWay // by destination, then position
}

// chanceRun is the rules from one position to another.
type chanceRun struct {
	from, to int32
	proto    uint32       // that they ask for; 0 for any
	rest     []eval.Share // what comes to each rule, and past the last, of what comes to the first
}

// chanceWay is a rule, by an endpoint that it may lead to.
type chanceWay struct {
	to  netip.AddrPort
	pos int32
}

// Chains with fewer endpoints are followed at less cost than they are prepared,
// and the search in chains that lead to each other is given up at some time.
const (
	chancesFrom  = 16
	deepest      = 16
	visitsPerRun = 64
)

// narrower finds the chances of chains.
type narrower struct {
	rs     *Ruleset
	visits int // rules that may still be looked at
	found  []netip.AddrPort
}

func newNarrower(rs *Ruleset) *narrower {
	return &narrower{rs: rs, visits: visitsPerRun * (len(rs.Rules) + deepest)}
}

// chain gives the chances of a chain; nil if there is nothing to gain.
func (n *narrower) chain(c int32) *chances {
	if n.rs.Chains[c].Table != "nat" || n.rs.Chains[c].N < 2 {
		return nil
	}
	x := &chances{}
	for i := int32(0); i < n.rs.Chains[c].N; {
		run, ok := n.run(c, i, x)
		if !ok {
			i++
			continue
		}
		i = run.to
		x.runs = append(x.runs, run)
	}
	if len(x.ways) < chancesFrom {
		return nil
	}
	slices.SortFunc(x.ways, func(a, b chanceWay) int { return cmp.Or(a.to.Compare(b.to), cmp.Compare(a.pos, b.pos)) })
	return x
}

// run is the longest one that begins at a place; false if there is none of two
// rules. What its rules lead to goes to x.
func (n *narrower) run(c, from int32, x *chances) (chanceRun, bool) {
	r := chanceRun{from: from, to: from, rest: []eval.Share{eval.Whole}}
	rules, before := n.rs.RulesOf(c), len(x.ways)
	for ; r.to < int32(len(rules)); r.to++ {
		n.found = n.found[:0]
		p, proto, ok := n.chance(&rules[r.to])
		if !ok || proto != 0 && r.proto != 0 && proto != r.proto || r.to == from && p == eval.Whole {
			break
		}
		rest, err := r.rest[r.to-from].Mul(p.Rest())
		if err != nil || rest.IsZero() && p != eval.Whole {
			break
		}
		r.proto |= proto
		r.rest = append(r.rest, rest)
		for _, to := range n.found {
			x.ways = append(x.ways, chanceWay{to, r.to})
		}
		if rest.IsZero() {
			r.to++
			break
		}
	}
	if r.to < from+2 {
		x.ways = x.ways[:before]
		return r, false
	}
	return r, true
}

// chance is the share of packets of a protocol, 0 for any, that a rule takes for
// good to endpoints, which it adds to found.
func (n *narrower) chance(r *Rule) (p eval.Share, proto uint32, ok bool) {
	if r.Flags&(FlagForeign|FlagOpaque) != 0 {
		return p, 0, false
	}
	if p, proto, ok = n.rs.left(r); !ok {
		return p, 0, false
	}
	inner, ok := n.ends(r, 0)
	return p, proto | inner, ok && (proto == 0 || inner == 0 || proto == inner)
}

// left is the share of packets of a protocol that a rule takes, if it asks for
// nothing else.
func (rs *Ruleset) left(r *Rule) (p eval.Share, proto uint32, ok bool) {
	p = eval.Whole
	for _, c := range rs.Conds[r.First : r.First+int32(r.N)] {
		switch {
		case c.Not:
			return p, 0, false
		case c.Kind == CondProto:
			proto = c.X
		case c.Kind == CondStatistic && p == eval.Whole:
			p = rs.Shares[c.X-1]
		case c.Kind == CondRecent && c.Sub == RecentSet:
		default:
			return p, 0, false
		}
	}
	return p, proto, true
}

// ends says that whatever of a protocol, 0 for any, meets a rule's target goes to
// an endpoint, which is added to found.
func (n *narrower) ends(r *Rule, depth int) (proto uint32, ok bool) {
	switch r.Do {
	case DoDNAT:
		to := n.rs.Dests[r.Target]
		n.found = append(n.found, to)
		return 0, to.IsValid() && to.Port() != 0
	case DoJump, DoGoto:
		return n.closed(r.Target, depth+1)
	}
	return 0, false
}

// closed says so of a chain: a rule of it takes all that come to it, and none
// before sends packets elsewhere than to an endpoint.
func (n *narrower) closed(chain int32, depth int) (proto uint32, ok bool) {
	rules := n.rs.RulesOf(chain)
	if n.visits -= len(rules); n.visits < 0 || depth > deepest {
		return 0, false
	}
	for i := range rules {
		r := &rules[i]
		if r.Flags&FlagOpaque != 0 || n.rs.marks(r) {
			continue
		}
		inner, ok := n.ends(r, depth)
		if !ok || r.Flags&FlagForeign != 0 || proto != 0 && inner != 0 && proto != inner {
			return 0, false
		}
		proto |= inner
		if p, asked, all := n.rs.left(r); all && p == eval.Whole {
			return proto | asked, proto == 0 || asked == 0 || proto == asked
		}
	}
	return 0, false
}

// marks says that a rule does nothing but mark packets, in a chain of its own as
// KUBE-MARK-MASQ is or itself.
func (rs *Ruleset) marks(r *Rule) bool {
	if r.Do != DoJump {
		return r.Do == DoMark
	}
	return !slices.ContainsFunc(rs.RulesOf(r.Target), func(x Rule) bool { return x.Do != DoMark })
}

// skip takes a packet that is looked at on its way to one endpoint over the rules
// that lead it to others. It says whether the packet is lost by that.
func (k *walk) skip(s *state) (lost bool, err error) {
	x := k.w.chances[s.chain]
	if x == nil || k.noting != nil {
		return false, nil
	}
	i, _ := slices.BinarySearchFunc(x.runs, s.pos, func(r chanceRun, pos int32) int { return cmp.Compare(r.to-1, pos) })
	if i == len(x.runs) || s.pos < x.runs[i].from {
		return false, nil
	}
	r := &x.runs[i]
	if r.proto != 0 && r.proto != uint32(k.packet.Protocol) {
		return false, nil
	}
	at := min(x.next(k.only, s.pos), r.to)
	if at == s.pos {
		return false, nil
	}
	left := r.rest[at-r.from]
	if left.IsZero() {
		return true, nil
	}
	if left, err = left.Over(r.rest[s.pos-r.from]); err == nil {
		s.share, err = s.share.Mul(left)
	}
	if err != nil {
		return false, err
	}
	s.enter(s.chain, at)
	return false, nil
}

// next is the first rule from a place on that may lead to an endpoint.
func (x *chances) next(to netip.AddrPort, pos int32) int32 {
	i, _ := slices.BinarySearchFunc(x.ways, chanceWay{to, pos}, func(a, b chanceWay) int { return cmp.Or(a.to.Compare(b.to), cmp.Compare(a.pos, b.pos)) })
	if i == len(x.ways) || x.ways[i].to != to {
		return 1<<31 - 1
	}
	return x.ways[i].pos
}
