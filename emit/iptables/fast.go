package iptables

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"svcc/emit/iptables/rule"
	"svcc/ir"
)

// fast lays a Graph out so that no list grows with the number of services:
// KUBE-SERVICES jumps, behind a guard, to a tree of chains that finds the
// destination; inside it rules go rather than jump, so that what no service
// wants comes back to KUBE-SERVICES and meets the node ports. Endpoints are
// rules of their service's chain.
type fast struct {
	g       *ir.Graph
	plain   bool // no comments
	filter  *builder
	nat     *builder
	started map[ir.Step]string // the chain of each step that has one
}

// layoutFast makes the tables of levels 1 and 2.
func layoutFast(g *ir.Graph, level int, hooks bool) (filter, nat *rule.Table, err error) {
	l := &fast{g: g, plain: level > 1, filter: newBuilder(), nat: newBuilder(), started: map[ir.Step]string{}}
	l.natFixed()
	if err := l.dispatch(); err != nil {
		return nil, nil, err
	}
	l.filterFixed()
	filter, nat = l.filter.table("filter", hooks), l.nat.table("nat", hooks)
	if level > 1 {
		inOrder(nat, ChainServices)
		inOrder(filter, ChainForward, chainExternalServices, ChainServices)
	}
	return filter, nat, nil
}

// builder collects the rules of one table by chain.
type builder struct {
	names []string
	place map[string]int // of a chain in names and in rules
	rules [][]rule.Rule
}

func newBuilder() *builder { return &builder{place: map[string]int{}} }

// declare makes a chain known; false if it was.
func (b *builder) declare(chain string) bool {
	if _, known := b.place[chain]; known {
		return false
	}
	b.place[chain] = len(b.names)
	b.names = append(b.names, chain)
	b.rules = append(b.rules, nil)
	return true
}

func (b *builder) add(chain, comment string, a rule.Action, ms ...rule.Match) {
	at := &b.rules[b.place[chain]]
	*at = append(*at, rule.Rule{Chain: chain, Comment: comment, Matches: ms, Action: a})
}

// table has the rules in their chains' order, for readers, behind the jumps from
// built-in chains if those are wanted.
func (b *builder) table(name string, hooks bool) *rule.Table {
	t := &rule.Table{Name: name, Brief: true, Chains: unseen(b.names)}
	if hooks {
		t.Rules = Hooks(name, b.names)
	}
	n := 0
	for _, rules := range b.rules {
		n += len(rules)
	}
	t.Rules = slices.Grow(t.Rules, n)
	slices.Sort(b.names)
	for _, c := range b.names {
		t.Rules = append(t.Rules, b.rules[b.place[c]]...)
	}
	return t
}

// unseen gives names in no order that can be seen: iptables-nft 1.8.9 takes four
// times as long to load chains that are declared in ascending order, and its
// save tool is quadratic in descending ones.
func unseen(names []string) []string {
	sums := make([][2]string, len(names))
	for i, c := range names {
		sums[i] = [2]string{hash(c), c}
	}
	slices.SortFunc(sums, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
	out := make([]string, len(sums))
	for i := range sums {
		out[i] = sums[i][1]
	}
	return out
}

// say is a comment that names a service, where this level has comments. Rules
// that every packet meets have none: each costs a call.
func (l *fast) say(format string, n ir.PortName) string {
	if l.plain {
		return ""
	}
	return fmt.Sprintf(format, n.Display())
}

func (l *fast) mark() rule.Action { return rule.SetMark{Op: "or", Bit: l.g.Options.MasqueradeMark} }

func (l *fast) natFixed() {
	bit := l.g.Options.MasqueradeMark
	for _, c := range []string{ChainServices, ChainPostrouting, ChainMarkMasq} {
		l.nat.declare(c)
	}
	l.nat.add(ChainPostrouting, "", rule.Return, rule.Marked{Not: true, Bit: bit})
	l.nat.add(ChainPostrouting, "", rule.SetMark{Op: "xor", Bit: bit})
	l.nat.add(ChainPostrouting, "", rule.Masquerade{})
	// No rule of ours jumps here; other programs' rules may.
	l.nat.add(ChainMarkMasq, "", rule.SetMark{Op: "or", Bit: bit})
}

// dispatch writes the nat table's way from KUBE-SERVICES to the endpoints.
func (l *fast) dispatch() error {
	var addrs, ports []leaf
	for _, e := range l.g.Deciding() {
		if !ir.Delivers(e.Next) {
			continue
		}
		if e.Kind == ir.NodePort {
			ports = append(ports, leaf{newKey(e.Frontend, e.Service.Protocol), e})
		} else {
			addrs = append(addrs, leaf{newKey(e.Frontend, e.Service.Protocol), e})
		}
	}
	d := &natTree{fast: l}
	for _, r := range guarded(l.nat, addrs, natTreePrefix, d.destination) {
		l.nat.add(ChainServices, "", r.Action, r.Matches...)
	}
	if at := l.nodePortAddresses(); len(ports) > 0 && len(at) > 0 {
		l.nodePorts(ports, at, d)
	}
	return d.err
}

// nodePorts come last in KUBE-SERVICES. Only packets to a port between the
// lowest and the highest are asked the slower question whether they are for
// this node.
func (l *fast) nodePorts(leaves []leaf, addresses [][]rule.Match, d *natTree) {
	l.nat.declare(chainNodePorts)
	plantAt(l.nat, newTrie(leaves), chainNodePorts, natPortsPrefix, d.destination)
	for _, between := range spans(leaves) {
		for _, at := range addresses {
			l.nat.add(ChainServices, "", rule.Jump(chainNodePorts), append(slices.Clone(between), at...)...)
		}
	}
}

// nodePortAddresses are the conditions of which one must hold for a node port.
func (l *fast) nodePortAddresses() [][]rule.Match {
	o := &l.g.Options
	if o.NodePorts.All {
		ms := []rule.Match{rule.DestinationLocal}
		if !o.LocalhostNodePorts {
			ms = append([]rule.Match{rule.DestinationNot(l.g.Family.Loopback())}, ms...)
		}
		return [][]rule.Match{ms}
	}
	var out [][]rule.Match
	for _, a := range o.NodePorts.Addrs {
		out = append(out, []rule.Match{rule.DestinationHost(a)})
	}
	for _, p := range o.NodePorts.Prefixes {
		out = append(out, []rule.Match{rule.Destination(p), rule.DestinationLocal})
	}
	return out
}

// spans matches, for each protocol, the ports from the lowest to the highest.
func spans(leaves []leaf) [][]rule.Match {
	lowest, highest := map[ir.Protocol]uint16{}, map[ir.Protocol]uint16{}
	for _, x := range leaves {
		p, n := x.key.protocol(), x.entry.Port
		if lowest[p] == 0 || n < lowest[p] {
			lowest[p] = n
		}
		highest[p] = max(highest[p], n)
	}
	var out [][]rule.Match
	for _, p := range []ir.Protocol{ir.TCP, ir.UDP, ir.SCTP} {
		if lowest[p] != 0 {
			out = append(out, []rule.Match{rule.ProtocolOnly(p), rule.Ports{Low: lowest[p], High: highest[p]}})
		}
	}
	return out
}

// guarded plants a tree for each part of the destinations, and gives the jumps
// to them, each behind a guard on its part's addresses.
func guarded(b *builder, leaves []leaf, prefix string, write func(chain string, x leaf)) []rule.Rule {
	if len(leaves) == 0 {
		return nil
	}
	var out []rule.Rule
	for _, p := range parts(leaves) {
		t := newTrie(p.leaves)
		root := treeChain(prefix, branch{n: p.prefix.Bits() / splitBits * splitBits, to: t})
		b.declare(root)
		plantAt(b, t, root, prefix, write)
		out = append(out, rule.Rule{Matches: []rule.Match{rule.Destination(p.prefix)}, Action: rule.Jump(root)})
	}
	return out
}

// plantAt writes a trie whose root is a chain that is declared already.
func plantAt(b *builder, t *trie, chain, prefix string, write func(chain string, x leaf)) {
	for _, x := range t.leaves {
		write(chain, x)
	}
	for _, br := range t.branches {
		to := treeChain(prefix, br)
		b.declare(to)
		b.add(chain, "", rule.GoTo(to), br.match()...)
		plantAt(b, br.to, to, prefix, write)
	}
}

// treeChain names a chain of a tree by the bits that lead to it, so that it
// keeps its name whatever else comes and goes.
func treeChain(prefix string, br branch) string {
	bits := []byte(br.to.first)
	for i := br.n; i < 8*len(bits); i++ {
		bits[i/8] &^= 0x80 >> (i % 8)
	}
	name := fmt.Sprintf("%x/%d", bits, br.n)
	if br.tier > 0 {
		name += fmt.Sprint(" ", br.tier)
	}
	return prefix + shortHash(name)
}

// hairpinChain asks, bit by bit from the lowest, whether source and destination
// are the same address; most pairs differ early. It marks what is.
func (l *fast) hairpinChain() {
	bit := netip.IPv4Unspecified().AsSlice()
	if l.g.Family == ir.IPv6 {
		bit = netip.IPv6Unspecified().AsSlice()
	}
	l.filter.declare(chainHairpin)
	zero, _ := netip.AddrFromSlice(bit)
	for i := 8*len(bit) - 1; i >= 0; i-- {
		one := slices.Clone(bit)
		one[i/8] = 0x80 >> (i % 8)
		m, _ := netip.AddrFromSlice(one)
		l.filter.add(chainHairpin, "", rule.Return, rule.Masked{Flag: "-s", Value: m, Mask: m}, rule.Masked{Flag: "-d", Value: zero, Mask: m})
		l.filter.add(chainHairpin, "", rule.Return, rule.Masked{Flag: "-s", Value: zero, Mask: m}, rule.Masked{Flag: "-d", Value: m, Mask: m})
	}
	l.filter.add(chainHairpin, "", l.mark())
}
