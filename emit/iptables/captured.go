package iptables

import (
	"fmt"
	"strings"

	"svcc/emit"
	"svcc/emit/iptables/rule"
	"svcc/emit/walk"
	"svcc/ir/eval"
)

// audited is a walker over what a node has, which can say more of it.
type audited struct {
	*walk.Walker
	rs    ruleset
	early [2][len(earlyTables)]int32 // see earlyChains
}

var _ emit.Auditor = (*audited)(nil)

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
func earlyChains(rs ruleset) (out [2][len(earlyTables)]int32) {
	for i, table := range earlyTables {
		out[0][i], out[1][i] = rs.Builtin(table, "PREROUTING"), rs.Builtin(table, "OUTPUT")
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
func (a *audited) Captured(p eval.Packet, h eval.Host) (c emit.Capture, ok bool) {
	bases := &a.early[0]
	if p.In == "" {
		bases = &a.early[1]
	}
	asked := a.Ask(p, h)
	for i, table := range earlyTables {
		v := capture{rs: a.rs, asked: asked, table: table}
		base := bases[i]
		if base < 0 {
			continue
		}
		if v.chain(base, surely); v.rule != nil {
			return emit.Capture{Rule: fmt.Sprintf("table %s: line %d: %s", table, v.rule.Line, v.rule.Text), Sure: v.sure}, true
		}
	}
	return emit.Capture{}, false
}

// capture looks for the rule in one table.
type capture struct {
	rs    ruleset
	asked *walk.Asked
	table string
	rule  *walk.Rule // what was found
	sure  bool
}

// chain walks a chain that the packet surely, or maybe, comes to; true says that
// there is no more to find in the table.
func (v *capture) chain(id int32, comes certainty) bool {
	rules := v.rs.RulesOf(id)
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
		case r.Jumps() && v.chain(r.Target, m):
			return true
		case m == maybe:
		case r.Do == walk.DoGoto, r.Do == walk.DoReturn:
			return false
		case r.Do == walk.DoAccept:
			return true
		case r.Do == walk.DoMark:
			v.asked.Mark(r)
		}
	}
	return false
}

// reachesUs says that a rule jumps to a chain in which ours look at packets.
func (v *capture) reachesUs(r *walk.Rule) bool {
	return r.Jumps() && Hooked(v.table, v.rs.Chains[r.Target].Name)
}

// takes says that a packet which a rule of a chain matches is gone for ours.
func (v *capture) takes(r *walk.Rule, chain int32) bool {
	switch {
	case r.Flags&walk.FlagOpaque != 0:
		return captures[v.table][v.targetName(r)] || v.table == "nat" && v.targetName(r) == "DNAT"
	case v.table == "nat":
		return r.Do == walk.DoDNAT || r.Do == walk.DoAccept || r.Do == walk.DoReturn && v.rs.Chains[chain].Builtin
	}
	return r.Do == walk.DoDrop
}

// targetName is the target of an opaque rule.
func (v *capture) targetName(r *walk.Rule) string {
	toks, _ := rule.Tokenize(nil, r.Text)
	_, name := targetWords(toks)
	return name
}

// names says that a rule asks for the packet's destination, its address or its
// port: one that may match for another reason alone says nothing of a service.
func (v *capture) names(r *walk.Rule) bool {
	for _, c := range v.rs.Conds[r.First : r.First+int32(r.N)] {
		switch c.Kind {
		case walk.CondDst, walk.CondDst6, walk.CondDport, walk.CondPorts:
			if !c.Not {
				return true
			}
		}
	}
	return false
}

// matching asks what a packet tells; who sends it, by which interface, is one of
// many that might.
func (v *capture) matching(r *walk.Rule) certainty {
	out := surely
	if r.Flags&walk.FlagOpaque != 0 && !strings.HasPrefix(v.rs.Troubles[r.Target], "target ") {
		out = maybe
	}
	for i := int32(0); i < int32(r.N); i++ {
		c := &v.rs.Conds[r.First+i]
		switch c.Kind {
		case walk.CondStatistic, walk.CondRecent:
			out = maybe
			continue
		}
		if v.asked.Holds(c) != c.Not {
			continue
		}
		if c.Not || c.Kind != walk.CondSrc && c.Kind != walk.CondSrc6 && c.Kind != walk.CondIn {
			return never
		}
		out = maybe
	}
	return out
}
