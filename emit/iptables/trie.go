package iptables

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
	"slices"
	"sort"
	"strings"

	"svcc/emit/iptables/rule"
	"svcc/ir"
)

// key is a destination as bits: address (none for node ports), protocol, port.
type key string

func newKey(f ir.Frontend, p ir.Protocol) key {
	b := append(f.Addr.AsSlice(), byte(p))
	return key(binary.BigEndian.AppendUint16(b, f.Port))
}

// The parts of a key behind the address, in bits.
const (
	protoBits = 8
	portBits  = 16
)

func (k key) addrBits() int { return 8*len(k) - protoBits - portBits }

// common is how many leading bits two keys of one length share.
func (k key) common(l key) int {
	for i := range len(k) {
		if k[i] != l[i] {
			return 8*i + bits.LeadingZeros8(k[i]^l[i])
		}
	}
	return 8 * len(k)
}

func (k key) addr() netip.Addr {
	a, _ := netip.AddrFromSlice([]byte(k[:len(k)-3]))
	return a
}

func (k key) protocol() ir.Protocol { return ir.Protocol(k[len(k)-3]) }

// ports are those that share the key's first n bits.
func (k key) ports(n int) (low, high uint16) {
	p := binary.BigEndian.Uint16([]byte(k[len(k)-2:]))
	free := uint16(1)<<(8*len(k)-n) - 1
	return p &^ free, p | free
}

// leaf is a destination with what is to be done there.
type leaf struct {
	key   key
	entry *ir.Entry
}

// trie finds a destination in steps that do not grow with their number. It
// splits a set of keys at the borders of blocks of splitBits bits, so that each
// branch is one match: a prefix, a protocol or a range of ports. Where it splits
// is a function of the keys below alone, and borders stay where they are: one
// more destination changes its own way and no other.
type trie struct {
	first    key // any key below
	shared   int // how many leading bits all below share
	depth    int // how many chains may follow this one on a way
	all      []leaf
	branches []branch // the first that matches counts
	leaves   []leaf   // in place of branches
}

// branch holds the keys that agree with the first one below in their first n
// bits, and lie in no branch before it.
type branch struct {
	n    int
	to   *trie
	tier int // of carved branches: see carve; else 0
}

const (
	splitBits = 3 // at most 8 branches in a chain
	leafSize  = 4 // so few destinations are tried in turn
	// levels bounds the chains on a way below the root. With KUBE-SERVICES, the
	// root, FW, EXT, SVC and two splits of it, a way has 14 chains; iptables-nft
	// allows 15.
	levels = 7
)

// newTrie makes the trie of destinations, of which there is at least one, and
// no two the same.
func newTrie(leaves []leaf) *trie { return fit(grow(byKey(leaves)), levels) }

func byKey(leaves []leaf) []leaf {
	return slices.SortedFunc(slices.Values(leaves), func(a, b leaf) int { return strings.Compare(string(a.key), string(b.key)) })
}

// grow makes a trie as deep as it gets.
func grow(sorted []leaf) *trie {
	t := &trie{first: sorted[0].key, all: sorted}
	t.shared = t.first.common(sorted[len(sorted)-1].key)
	if len(sorted) <= leafSize {
		t.leaves = sorted
		return t
	}
	end := t.first.border(t.shared)
	for rest := sorted; len(rest) > 0; {
		n := agreeing(rest, end)
		to := grow(rest[:n])
		t.branches = append(t.branches, branch{n: end, to: to})
		t.depth = max(t.depth, 1+to.depth)
		rest = rest[n:]
	}
	return t
}

// agreeing counts the first of sorted destinations that share so many bits.
func agreeing(sorted []leaf, bits int) int {
	first := sorted[0].key
	return sort.Search(len(sorted), func(i int) bool { return first.common(sorted[i].key) < bits })
}

// border is the first one behind a number of bits. Protocols are told apart as
// a whole.
func (k key) border(shared int) int {
	a := k.addrBits()
	next := func(from, end int) int { return min(end, from+(shared-from)/splitBits*splitBits+splitBits) }
	switch {
	case shared < a:
		return next(0, a)
	case shared < a+protoBits:
		return a + protoBits
	}
	return next(a+protoBits, a+protoBits+portBits)
}

// fit makes a trie no deeper than levels. Where keys are so skewed that blocks
// of bits do not divide them quickly, it divides them by number, as far below
// as it can, so that the rest keeps its place.
func fit(t *trie, levels int) *trie {
	if t.depth <= levels {
		return t
	}
	if levels == 0 {
		return &trie{first: t.first, shared: t.shared, all: t.all, leaves: t.all}
	}
	f := &trie{first: t.first, shared: t.shared, all: t.all}
	if slices.ContainsFunc(t.branches, func(b branch) bool { return b.to.depth >= levels && tiers(len(b.to.all)) >= levels }) {
		f.carve(t.all, levels)
	} else {
		for _, b := range t.branches {
			f.branches = append(f.branches, branch{n: b.n, to: fit(b.to, levels-1)})
		}
	}
	for _, b := range f.branches {
		f.depth = max(f.depth, 1+b.to.depth)
	}
	return f
}

// pieces is into how many parts carve divides.
const pieces = 8

// pieceSize is what a part has at least, but for the last; none has twice as
// many. Two halves that are too small make a leaf.
func pieceSize(n int) int { return max(leafSize/2+1, (n+pieces-1)/pieces) }

// tiers is how many levels of carved chains lead to so many destinations.
func tiers(n int) int {
	t := 0
	for ; n > leafSize; t++ {
		n = 2*pieceSize(n) - 2
	}
	return t
}

// carve makes branches of like size, whatever the keys: it cuts off a subtree
// as soon as that holds enough, from the bottom up, so that a branch is a
// prefix but for what branches before it have taken.
func (t *trie) carve(sorted []leaf, levels int) {
	enough := pieceSize(len(sorted))
	cut := func(n int, part []leaf) {
		t.branches = append(t.branches, branch{n: n, to: fit(grow(part), levels-1), tier: levels})
	}
	var visit func(sorted []leaf) (rest []leaf)
	visit = func(sorted []leaf) (rest []leaf) {
		if len(sorted) < enough {
			return sorted
		}
		k := sorted[0].key
		shared := k.common(sorted[len(sorted)-1].key)
		for part := sorted; len(part) > 0; {
			n := agreeing(part, k.fork(shared))
			rest, part = append(rest, visit(part[:n])...), part[n:]
		}
		if len(rest) < enough {
			return rest
		}
		cut(k.whole(shared), rest)
		return nil
	}
	if rest := visit(sorted); len(rest) > 0 {
		first := rest[0].key
		cut(first.whole(first.common(rest[len(rest)-1].key)), rest)
	}
}

// fork is the bit behind which keys that share so many bits go apart.
func (k key) fork(shared int) int {
	if a := k.addrBits(); shared >= a && shared < a+protoBits {
		return a + protoBits
	}
	return shared + 1
}

// whole is how many of the bits shared one match can ask for: half a protocol
// cannot be asked for.
func (k key) whole(shared int) int {
	if a := k.addrBits(); shared < a+protoBits {
		return min(shared, a)
	}
	return shared
}

// match holds for the destinations in a branch, among those of its trie that
// are in no branch before it. Carved branches may differ in what others share.
func (b branch) match() (ms []rule.Match) {
	k := b.to.first
	a := k.addrBits()
	if a > 0 && (b.n <= a || b.tier > 0) {
		p, _ := k.addr().Prefix(min(b.n, a))
		ms = append(ms, rule.Destination(p))
	}
	if b.n <= a {
		return ms
	}
	ms = append(ms, rule.ProtocolOnly(k.protocol()))
	if b.n == a+protoBits {
		return ms
	}
	low, high := k.ports(b.n)
	return append(ms, rule.Ports{Low: low, High: high})
}

// part is a set of destinations with a prefix that holds their addresses.
type part struct {
	prefix netip.Prefix
	leaves []leaf
}

// parts cuts destinations into a few sets whose prefixes hold little else: a
// set is halved as long as that leaves out most of what its prefix holds.
func parts(leaves []leaf) []part {
	sorted := byKey(leaves)
	out := []part{{hull(sorted), sorted}}
	for len(out) < maxGuards {
		i, halves := widest(out)
		if i < 0 {
			break
		}
		out = slices.Replace(out, i, i+1, halves[:]...)
	}
	return out
}

const (
	maxGuards = 8
	// worthwhile is how many bits longer both halves' prefixes must be for a
	// guard more: 4 bits leave out 15 parts of 16.
	worthwhile = 4
)

// widest finds the part with the shortest prefix whose halving is worthwhile;
// -1 if there is none.
func widest(all []part) (at int, halves [2]part) {
	at = -1
	for i, p := range all {
		n := p.prefix.Bits()
		if at >= 0 && n >= all[at].prefix.Bits() || p.prefix.IsSingleIP() {
			continue
		}
		cut := slices.IndexFunc(p.leaves, func(x leaf) bool { return p.leaves[0].key.common(x.key) <= n })
		low, high := part{hull(p.leaves[:cut]), p.leaves[:cut]}, part{hull(p.leaves[cut:]), p.leaves[cut:]}
		if low.prefix.Bits() >= n+worthwhile && high.prefix.Bits() >= n+worthwhile {
			at, halves = i, [2]part{low, high}
		}
	}
	return at, halves
}

// hull is the longest prefix that holds the addresses of sorted destinations.
func hull(sorted []leaf) netip.Prefix {
	first, last := sorted[0].key, sorted[len(sorted)-1].key
	p, _ := first.addr().Prefix(min(first.common(last), first.addrBits()))
	return p
}
