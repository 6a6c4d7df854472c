package iptables

import "fmt"

// Foreign lists what a walk leaves out, by chain: rules of somebody
// else's that packets may come by and that have no model, and, in tables that
// are not walked, rules that do more than move on. Each is
// "table nat: line 7: -A ...: why".
func (w *walker) Foreign() []string {
	var out []string
	for c, reached := range w.reachable() {
		if !reached {
			continue
		}
		walked := w.walked(int32(c))
		rules := w.rs.rulesOf(int32(c))
		for i := range rules {
			if why := w.leftOut(&rules[i], walked); why != "" {
				out = append(out, fmt.Sprintf("table %s: line %d: %s: %s", w.rs.chains[c].table, rules[i].line, rules[i].text, why))
			}
		}
	}
	return out
}

// leftOut tells why a rule does not take part in a walk, "" if it does or if
// it would change nothing.
func (w *walker) leftOut(r *parsedRule, walked bool) string {
	switch {
	case r.flags&flagOpaque != 0:
		if w.neverMatches(r) {
			return ""
		}
		return w.rs.troubles[r.target]
	case walked, r.do == doNothing, r.do == doJump, r.do == doGoto, r.do == doReturn, r.do == doAccept:
		return ""
	}
	return "in a table that is not walked"
}

// neverMatches says that a rule is about a protocol that no Service has.
func (w *walker) neverMatches(r *parsedRule) bool {
	for _, c := range w.rs.conds[r.first : r.first+int32(r.n)] {
		if c.kind == condProto && !c.not && c.x != 6 && c.x != 17 && c.x != 132 {
			return true
		}
	}
	return false
}

// walked says whether a chain's table is: nat but for its INPUT, and filter.
func (w *walker) walked(chain int32) bool {
	c := &w.rs.chains[chain]
	return c.table == "filter" || c.table == "nat" && !(c.builtin && c.name == "INPUT")
}

// reachable tells of each chain whether a built-in one leads to it.
func (w *walker) reachable() []bool {
	reached := make([]bool, len(w.rs.chains))
	var todo []int32
	visit := func(c int32) {
		if !reached[c] {
			reached[c] = true
			todo = append(todo, c)
		}
	}
	for c := range w.rs.chains {
		if w.rs.chains[c].builtin {
			visit(int32(c))
		}
	}
	for len(todo) > 0 {
		c := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		rules := w.rs.rulesOf(c)
		for i := range rules {
			if rules[i].jumps() {
				visit(rules[i].target)
			}
		}
	}
	return reached
}

// adopt takes for ours the rules of chains to which chains of ours lead, whatever
// their names: what they decide is decided for packets of ours.
func (rs *ruleset) adopt() {
	var todo []int32
	for c := range rs.chains {
		if ours(rs.chains[c].name) {
			todo = append(todo, int32(c))
		}
	}
	adopted := make([]bool, len(rs.chains))
	for len(todo) > 0 {
		c := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		rules := rs.rulesOf(c)
		for i := range rules {
			rules[i].flags &^= flagForeign
			if r := &rules[i]; r.jumps() && !adopted[r.target] && !ours(rs.chains[r.target].name) {
				adopted[r.target] = true
				todo = append(todo, r.target)
			}
		}
	}
}
