package iptables

import (
	"cmp"
	"hash/fnv"
	"slices"
	"strings"

	rules "svcc/emit/iptables"
	"svcc/emit/iptables/rule"
	"svcc/ir"
)

// delta is what one table needs.
type delta struct {
	family ir.Family
	name   string
	have   *table // as observed
	want   *table // as it is to be

	write   []int    // chains of want to flush, or make, and fill
	remove  []string // chains to flush and delete
	empty   []string // chains to flush; something of somebody else's jumps to them
	share   []string // rules to append to rules.SharedChain
	unshare []string // rules of rules.SharedChain to delete, as dumped
	hooks   []hookChange
	// canaryBack lets kube-proxy's canary chain be there again.
	canaryBack bool
}

// hookChange is what one built-in chain needs, in this order.
type hookChange struct {
	chain  string
	remove []string // rules as dumped, after "-D CHAIN "
	insert []hook   // at their numbers; 0 for the top
}

func (d *delta) none() bool {
	return len(d.write) == 0 && len(d.remove) == 0 && len(d.empty) == 0 &&
		len(d.share) == 0 && len(d.unshare) == 0 && len(d.hooks) == 0 && !d.canaryBack
}

// comparer compares rules in canonical form.
type comparer struct {
	canon rule.Canonicalizer
	a, b  []byte
}

func (c *comparer) same(x, y string) bool {
	if x == y {
		return true
	}
	c.a, c.b = c.canon.Append(c.a[:0], x), c.canon.Append(c.b[:0], y)
	return string(c.a) == string(c.b)
}

func (c *comparer) sameRules(x, y []string) bool {
	if len(x) != len(y) {
		return false
	}
	for i := range x {
		if !c.same(x[i], y[i]) {
			return false
		}
	}
	return true
}

// chainDelta finds the chains that differ; with whole, all count as differing.
func (d *delta) chainDelta(whole bool) {
	c := &comparer{canon: rule.Canonicalizer{Family: d.family}}
	for i := range d.want.chains {
		w := &d.want.chains[i]
		h := d.have.chain(w.name)
		switch {
		case w.name == rules.SharedChain && d.name == "filter" && h != nil:
			d.shareDelta(c, h, w)
		case h == nil, whole, !c.sameRules(d.have.rulesOf(h), d.want.rulesOf(w)):
			d.write = append(d.write, i)
		}
	}
	for i := range d.have.chains {
		if h := &d.have.chains[i]; d.want.chain(h.name) == nil && h.name != rules.SharedChain {
			d.drop(h)
		}
	}
}

// drop takes a chain away, or what is in it where foreign rules jump to it.
func (d *delta) drop(h *chain) {
	switch {
	case !h.pinned:
		d.remove = append(d.remove, h.name)
	case h.n > 0:
		d.empty = append(d.empty, h.name)
	}
}

// shareDelta sees to our rules in the chain that is not ours alone: never by a
// flush.
func (d *delta) shareDelta(c *comparer, h, w *chain) {
	found := map[int]bool{}
	for _, rule := range d.have.rulesOf(h) {
		at := -1
		for j, wanted := range d.want.rulesOf(w) {
			if !found[j] && c.same(rule, wanted) {
				at = j
				break
			}
		}
		if at < 0 {
			d.unshare = append(d.unshare, rule)
			continue
		}
		found[at] = true
	}
	for j, wanted := range d.want.rulesOf(w) {
		if !found[j] {
			d.share = append(d.share, wanted)
		}
	}
}

// text is the restore input for the table, for iptables-nft or -legacy. Hooks
// come first: where iptables-nft has to make a built-in chain, it must not have
// listed it before (see listAll).
func (d *delta) text(b *strings.Builder, nft bool) {
	b.WriteString("*" + d.name + "\n")
	hooked := d.hookTargets()
	for _, name := range hooked {
		declare(b, name)
	}
	for _, h := range d.hooks {
		h.text(b)
	}
	order := d.write
	if nft && len(d.written())+len(d.remove) > manyRules {
		b.WriteString(listAll)
		order = d.shuffled()
	}
	for _, i := range order {
		if name := d.want.chains[i].name; !slices.Contains(hooked, name) {
			declare(b, name)
		}
	}
	d.body(b)
	b.WriteString("COMMIT\n")
}

// body is what follows the declarations of chains to write.
func (d *delta) body(b *strings.Builder) {
	for _, names := range [][]string{d.remove, d.empty} {
		for _, name := range names {
			declare(b, name)
		}
	}
	if d.canaryBack {
		declare(b, rules.Canary)
	}
	for _, i := range d.write {
		writeLines(b, "", d.want.rulesOf(&d.want.chains[i]))
	}
	for _, r := range d.unshare {
		b.WriteString("-D" + strings.TrimPrefix(r, "-A") + "\n")
	}
	writeLines(b, "", d.share)
	writeLines(b, "-X ", d.remove)
}

// hookTargets are the chains to write that new hooks jump to.
func (d *delta) hookTargets() []string {
	var out []string
	for _, i := range d.write {
		name := d.want.chains[i].name
		jumps := func(h hook) bool { return h.to == name }
		if slices.ContainsFunc(d.hooks, func(h hookChange) bool { return slices.ContainsFunc(h.insert, jumps) }) {
			out = append(out, name)
		}
	}
	return out
}

// iptables-nft 1.8.9 is made for few rules at a time. For each it searches, from
// its start, a sorted list of all the chains that the input names, so that
// 10,000 Services would take it minutes. A command that names no chain makes it
// keep no such list but read all chains: this one changes nothing and prints
// what is there. Built-in chains that the kernel does not have yet it takes for
// made after that. Where there are few rules, reading all would cost more.
const (
	manyRules = 2000
	listAll   = "-S\n"
)

// shuffled gives the chains to write in an order without pattern, always the
// same. The kernel keeps chains in the order in which they came, and
// iptables-nft-save 1.8.9 takes quadratic time, and its stack overflows, to sort
// tens of thousands that are sorted already, in either direction.
func (d *delta) shuffled() []int {
	key := func(i int) uint64 {
		h := fnv.New64a()
		h.Write([]byte(d.want.chains[i].name))
		return h.Sum64() * 0x9e3779b97f4a7c15 // spreads names that differ at the end only
	}
	keys := make(map[int]uint64, len(d.write))
	for _, i := range d.write {
		keys[i] = key(i)
	}
	out := slices.Clone(d.write)
	slices.SortFunc(out, func(a, b int) int { return cmp.Compare(keys[a], keys[b]) })
	return out
}

// written are the rules of the chains that a delta writes.
func (d *delta) written() []string {
	var out []string
	for _, i := range d.write {
		out = append(out, d.want.rulesOf(&d.want.chains[i])...)
	}
	return append(out, d.share...)
}

func declare(b *strings.Builder, chain string) {
	b.WriteString(":")
	b.WriteString(chain)
	b.WriteString(" - [0:0]\n")
}

func writeLines(b *strings.Builder, before string, lines []string) {
	for _, l := range lines {
		b.WriteString(before)
		b.WriteString(l)
		b.WriteString("\n")
	}
}
