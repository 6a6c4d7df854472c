package iptables

import (
	"fmt"
	"strings"

	"svcc/emit"
	"svcc/ir/eval"
)

// captures are the targets without a model by which a packet never gets to rules
// of ours, by table: nat is not asked about what is not tracked.
var captures = map[string]map[string]bool{
	"raw":    {"CT": true, "NOTRACK": true},
	"mangle": {"TPROXY": true},
	"nat":    {"REDIRECT": true, "NETMAP": true},
}

// earlyTables are those that see a new packet up to nat.
var earlyTables = [...]string{"raw", "mangle", "nat"}

// earlyChains are their built-in chains at PREROUTING, and those at OUTPUT; -1 for
// no such table.
func earlyChains(rs *ruleset) (out [2][len(earlyTables)]int32) {
	for i, table := range earlyTables {
		out[0][i], out[1][i] = rs.builtin(table, "PREROUTING"), rs.builtin(table, "OUTPUT")
	}
	return out
}

// certainty is whether a rule of somebody else's matches.
type certainty uint8

const (
	never certainty = iota
	maybe           // it asks something that the packet does not tell
	surely
)

// Captured is the first rule of another program that takes a new packet away
// before a rule of ours sees it; ok says whether there is one.
func (w *walker) Captured(p eval.Packet, h eval.Host) (c emit.Capture, ok bool) {
	k := w.pool.Get().(*walk)
	defer w.pool.Put(k)
	k.packet, k.host = p, w.on(h)
	s := state{src: ipOf(p.Src.Addr()), dst: ipOf(p.Dst.Addr()), to: p.Dst, sport: p.Src.Port(), dport: p.Dst.Port(), in: p.In, mark: p.Mark, top: -1}
	bases := &w.early[0]
	if p.In == "" {
		bases = &w.early[1]
	}
	for i, table := range earlyTables {
		v := capture{walk: k, s: &s, table: table}
		base := bases[i]
		if base < 0 {
			continue
		}
		if v.chain(base, surely); v.rule != nil {
			return emit.Capture{Rule: fmt.Sprintf("table %s: line %d: %s", table, v.rule.line, v.rule.text), Sure: v.sure}, true
		}
	}
	return emit.Capture{}, false
}

// capture looks for the rule in one table.
type capture struct {
	*walk
	s     *state
	table string
	rule  *parsedRule // what was found
	sure  bool
}

// chain walks a chain that the packet surely, or maybe, comes to; true says that
// there is no more to find in the table.
func (v *capture) chain(id int32, comes certainty) bool {
	rules := v.w.rs.rulesOf(id)
	for i := range rules {
		r := &rules[i]
		m := min(v.matching(r), comes)
		if m == never {
			continue
		}
		switch {
		case v.takes(r, id) && (m == surely || v.names(r)):
			v.rule, v.sure = r, m == surely
			return true
		case v.reachesUs(r):
			return true // what a capture behind it may take, ours have seen
		case r.jumps() && v.chain(r.target, m):
			return true
		case m == maybe:
		case r.do == doGoto, r.do == doReturn:
			return false
		case r.do == doAccept:
			return true
		case r.do == doMark:
			v.s.setMark(r.value, r.mask)
		}
	}
	return false
}

// reachesUs says that a rule jumps to a chain in which ours look at packets.
func (v *capture) reachesUs(r *parsedRule) bool {
	return r.jumps() && Hooked(v.table, v.w.rs.chains[r.target].name)
}

// takes says that a packet which a rule of a chain matches is gone for ours.
func (v *capture) takes(r *parsedRule, chain int32) bool {
	switch {
	case r.flags&flagOpaque != 0:
		return captures[v.table][v.targetName(r)] || v.table == "nat" && v.targetName(r) == "DNAT"
	case v.table == "nat":
		return r.do == doDNAT || r.do == doAccept || r.do == doReturn && v.w.rs.chains[chain].builtin
	}
	return r.do == doDrop
}

// targetName is the target of an opaque rule.
func (v *capture) targetName(r *parsedRule) string {
	toks, _ := tokenize(nil, r.text)
	_, name := targetWords(toks)
	return name
}

// names says that a rule asks for the packet's destination, its address or its
// port: one that may match for another reason alone says nothing of a service.
func (v *capture) names(r *parsedRule) bool {
	for _, c := range v.w.rs.conds[r.first : r.first+int32(r.n)] {
		switch c.kind {
		case condDst, condDst6, condDport, condPorts:
			if !c.not {
				return true
			}
		}
	}
	return false
}

// matching asks what a packet tells; who sends it, by which interface, is one of
// many that might.
func (v *capture) matching(r *parsedRule) certainty {
	out := surely
	if r.flags&flagOpaque != 0 && !strings.HasPrefix(v.w.rs.troubles[r.target], "target ") {
		out = maybe
	}
	for i := int32(0); i < int32(r.n); i++ {
		c := &v.w.rs.conds[r.first+i]
		switch c.kind {
		case condStatistic, condRecent:
			out = maybe
			continue
		}
		if v.holds(v.s, c) != c.not {
			continue
		}
		if c.not || c.kind != condSrc && c.kind != condSrc6 && c.kind != condIn {
			return never
		}
		out = maybe
	}
	return out
}
