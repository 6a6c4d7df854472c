package walk

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"svcc/ir"
)

// indexFrom is the length from which a chain is worth an index.
const indexFrom = 16

// chainIndex finds the rules of a long chain that a packet may match. A rule
// stands under the most telling of its conditions that ask for one exact
// value; a rule without such stands under none and is always tried. Keys are
// hashes: a clash costs a try.
type chainIndex struct {
	keys  [keyKinds]bool // the kinds of key that the chain has
	spans map[uint64]span
	nets  []uint8 // the lengths of source prefixes by which rules stand
	rules []int32 // positions in the chain; ascending within each span
	all   span    // the rules without a key
	lists span    // the rules that ask a recent list
}

// span is a part of chainIndex.rules.
type span struct{ from, to int32 }

// keyKind says what a key is made of, best first.
type keyKind uint8

const (
	keyService keyKind = iota // destination, protocol, port
	keyList                   // a recent list that must hold the client
	keyPort                   // protocol, port
	keySrc                    // source
	keyDst                    // destination
	keyNet                    // source prefix
	keyKinds
	keyNone = keyKinds
)

// candidates are the rules of a chain that a packet may match, not yet tried.
type candidates struct {
	valid bool
	n     int8
	spans [keyKinds + 1]span
}

// ruleKey collects the exact values that a rule asks for.
type ruleKey struct {
	src, dst       ip
	proto, port    uint32
	list           uint32
	hasSrc, hasDst bool
	hasPort        bool
	bits           uint8 // of the prefix that src is, if not 0
}

func (rs *Ruleset) keyOf(r *Rule) ruleKey {
	var key ruleKey
	for _, c := range rs.Conds[r.First : r.First+int32(r.N)] {
		if c.Not {
			continue
		}
		switch c.Kind {
		case CondSrc, CondSrc6:
			key.src, key.bits = rs.prefix(&c)
			key.hasSrc = key.bits == rs.width()
		case CondDst, CondDst6:
			var bits uint8
			key.dst, bits = rs.prefix(&c)
			key.hasDst = bits == rs.width()
		case CondProto:
			key.proto = c.X
		case CondDport:
			key.port, key.hasPort = c.X, c.X == c.Y
		case CondRecent:
			if c.Sub != RecentSet {
				key.list = c.X
			}
		}
	}
	return key
}

// prefix is a condition's address and how many bits of it are asked for; none if
// they are not its first.
func (rs *Ruleset) prefix(c *Cond) (ip, uint8) {
	w := wideMask{ip{lo: uint64(c.X)}, ip{lo: uint64(c.Y)}}
	if rs.Family == ir.IPv6 {
		w = rs.wide[c.X]
	}
	n := uint8(bits.OnesCount64(w.mask.hi) + bits.OnesCount64(w.mask.lo))
	if w.mask != rs.mask(n) {
		return w.addr, 0
	}
	return w.addr, n
}

// width is how many bits an address has.
func (rs *Ruleset) width() uint8 {
	if rs.Family == ir.IPv4 {
		return 32
	}
	return 128
}

// mask has the first n bits of an address set.
func (rs *Ruleset) mask(n uint8) ip {
	if rs.Family == ir.IPv4 {
		return ip{lo: uint64(^uint32(0) << (32 - n))}
	}
	if n <= 64 {
		return ip{hi: ^uint64(0) << (64 - n)}
	}
	return ip{^uint64(0), ^uint64(0) << (128 - n)}
}

// kind chooses the key that a rule stands under.
func (key *ruleKey) kind() keyKind {
	ports := key.hasPort && key.proto != 0
	switch {
	case ports && key.hasDst:
		return keyService
	case key.list != 0:
		return keyList
	case ports:
		return keyPort
	case key.hasSrc:
		return keySrc
	case key.hasDst:
		return keyDst
	case key.bits > 0:
		return keyNet
	}
	return keyNone
}

func (key *ruleKey) hash(k keyKind) uint64 {
	h := uint64(k) + 1
	switch k {
	case keyService:
		h = mix(mix(mix(h, key.dst.hi), key.dst.lo), uint64(key.proto)<<32|uint64(key.port))
	case keyList:
		h = mix(h, uint64(key.list))
	case keyPort:
		h = mix(h, uint64(key.proto)<<32|uint64(key.port))
	case keySrc:
		h = mix(mix(h, key.src.hi), key.src.lo)
	case keyDst:
		h = mix(mix(h, key.dst.hi), key.dst.lo)
	case keyNet:
		h = mix(mix(mix(h, key.src.hi), key.src.lo), uint64(key.bits))
	}
	return h<<3 | uint64(k) // kinds never clash: a span is of one kind
}

func mix(h, v uint64) uint64 {
	h = (h ^ v) * 0x9e3779b97f4a7c15
	return h ^ h>>29
}

// newIndex is nil for a chain that is short.
func newIndex(rs *Ruleset, chain int32) *chainIndex {
	rules := rs.RulesOf(chain)
	if len(rules) < indexFrom {
		return nil
	}
	var lists []int32
	x := &chainIndex{spans: make(map[uint64]span, len(rules)), rules: make([]int32, 0, len(rules))}
	for i, e := range rs.entries(rules) {
		x.rules = append(x.rules, e.pos)
		at := span{int32(i), int32(i) + 1}
		if e.kind == keyNone {
			x.all = x.all.with(at)
			continue
		}
		x.keys[e.kind] = true
		if e.kind == keyNet && !slices.Contains(x.nets, e.bits) {
			x.nets = append(x.nets, e.bits)
		}
		x.spans[e.hash] = x.spans[e.hash].with(at)
		if e.kind == keyList {
			lists = append(lists, e.pos)
		}
	}
	slices.Sort(lists)
	x.lists = span{int32(len(x.rules)), int32(len(x.rules) + len(lists))}
	x.rules = append(x.rules, lists...)
	return x
}

// entry is a rule under its key.
type entry struct {
	kind keyKind
	hash uint64
	pos  int32
	bits uint8
}

// entries are sorted by key, and by position under one key.
func (rs *Ruleset) entries(rules []Rule) []entry {
	entries := make([]entry, len(rules))
	for i := range rules {
		key := rs.keyOf(&rules[i])
		k := key.kind()
		entries[i] = entry{k, key.hash(k), int32(i), key.bits}
	}
	slices.SortFunc(entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.hash, b.hash), cmp.Compare(a.pos, b.pos))
	})
	return entries
}

// next is the position, from the packet's on, of the next rule to try;
// MaxInt32 if there is none.
func (x *chainIndex) next(k *walk, s *state) int32 {
	if !s.near.valid {
		x.find(k, s)
	}
	best := int32(math.MaxInt32)
	for i := range s.near.spans[:s.near.n] {
		c := &s.near.spans[i]
		for c.from < c.to && x.rules[c.from] < s.pos {
			c.from++
		}
		if c.from < c.to {
			best = min(best, x.rules[c.from])
		}
	}
	for _, n := range x.nets {
		c := x.spans[(&ruleKey{src: s.src.and(k.w.rs.mask(n)), bits: n}).hash(keyNet)]
		if at, _ := slices.BinarySearch(x.rules[c.from:c.to], s.pos); c.from+int32(at) < c.to {
			best = min(best, x.rules[c.from+int32(at)])
		}
	}
	return best
}

// find looks the packet up.
func (x *chainIndex) find(k *walk, s *state) {
	s.near.valid, s.near.n = true, 0
	key := ruleKey{src: s.src, dst: s.dst, proto: uint32(k.packet.Protocol), port: uint32(s.dport)}
	for kind := range keyKinds {
		switch {
		case !x.keys[kind], kind == keyNet: // next asks for each prefix
		case kind == keyList:
			x.near(s, x.known(k, s))
		default:
			x.near(s, x.spans[key.hash(kind)])
		}
	}
	x.near(s, x.all)
}

// near adds the part of a span that the packet has not passed.
func (x *chainIndex) near(s *state, c span) {
	if c.from < c.to && x.rules[c.from] < s.pos {
		n, _ := slices.BinarySearch(x.rules[c.from:c.to], s.pos)
		c.from += int32(n)
	}
	if c.from < c.to {
		s.near.spans[s.near.n] = c
		s.near.n++
	}
}

// known are the rules that ask for a list which holds the client.
func (x *chainIndex) known(k *walk, s *state) span {
	var key ruleKey
	switch {
	case len(k.remembered) == 0 && s.lists.n == 0:
		return span{}
	case len(k.remembered) == 1 && s.lists.n == 0:
		key.list = k.remembered[0]
	case len(k.remembered) == 0 && s.lists.n == 1:
		key.list = s.lists.ids[0]
	default:
		return x.lists
	}
	return x.spans[key.hash(keyList)]
}

// with extends a span by the one that follows it.
func (s span) with(t span) span {
	if s.from == s.to {
		return t
	}
	return span{s.from, t.to}
}
