package iptables

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
	"slices"
	"strings"

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
// splits a set of keys behind the bits that all share, splitBits at a time and
// never across the border of two parts, so that each branch is one match: a
// prefix, a protocol or a range of ports. Where it splits is a function of the
// keys below alone: one more destination changes its own way and no other.
type trie struct {
	first    key // any key below
	shared   int // how many leading bits all below share
	branches []branch
	leaves   []leaf // in place of branches
}

// branch holds the keys that agree with the first one below in their first n
// bits.
type branch struct {
	n  int
	to *trie
}

const (
	splitBits = 3 // at most 8 branches in a chain
	leafSize  = 4 // so few destinations are tried in turn
	// levels bounds the chains on a way below the root; what is left when they
	// are used up is tried in turn. With KUBE-SERVICES, the root, FW, EXT, SVC
	// and two splits of it, a way has 14 chains; iptables-nft allows 15.
	levels = 7
)

// newTrie makes the trie of destinations, of which there is at least one, and
// no two the same.
func newTrie(leaves []leaf) *trie {
	sorted := slices.SortedFunc(slices.Values(leaves), func(a, b leaf) int { return strings.Compare(string(a.key), string(b.key)) })
	return grow(sorted, levels)
}

func grow(leaves []leaf, levels int) *trie {
	first := leaves[0].key
	t := &trie{first: first, shared: first.common(leaves[len(leaves)-1].key)}
	if len(leaves) <= leafSize || levels == 0 {
		t.leaves = leaves
		return t
	}
	end := t.split()
	for rest := leaves; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[0].key.common(rest[n].key) >= end {
			n++
		}
		t.branches = append(t.branches, branch{n: end, to: grow(rest[:n], levels-1)})
		rest = rest[n:]
	}
	return t
}

// split is the bit before which the branches of a trie agree with themselves.
// Protocols are told apart as a whole.
func (t *trie) split() int {
	a := t.first.addrBits()
	switch {
	case t.shared < a:
		return min(t.shared+splitBits, a)
	case t.shared < a+protoBits:
		return a + protoBits
	}
	return min(t.shared+splitBits, a+protoBits+portBits)
}

// match holds for the destinations in a branch, among those of its trie.
func (b branch) match() []match {
	k := b.to.first
	a := k.addrBits()
	switch {
	case b.n <= a:
		p, _ := k.addr().Prefix(b.n)
		return []match{destination(p)}
	case b.n == a+protoBits:
		return []match{protocolOnly(k.protocol())}
	}
	low, high := k.ports(b.n)
	return []match{protocolOnly(k.protocol()), ports{low, high}}
}

// part is a set of destinations with a prefix that holds their addresses.
type part struct {
	prefix netip.Prefix
	leaves []leaf
}

// parts cuts destinations into a few sets whose prefixes hold little else: a
// set is halved as long as that leaves out most of what its prefix holds.
func parts(leaves []leaf) []part {
	sorted := slices.SortedFunc(slices.Values(leaves), func(a, b leaf) int { return strings.Compare(string(a.key), string(b.key)) })
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
