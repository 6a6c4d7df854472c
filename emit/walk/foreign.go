package walk

import "fmt"

// Foreign lists what a walk leaves out, by chain: rules of somebody
// else's that packets may come by and that have no model, and, in tables that
// are not walked, rules that do more than move on. Each is
// "table nat: line 7: -A ...: why".
func (w *Walker) Foreign() []string {
	var out []string
	for c, reached := range w.Reachable() {
		if !reached {
			continue
		}
		walked := w.walked(int32(c))
		rules := w.rs.RulesOf(int32(c))
		for i := range rules {
			if why := w.leftOut(&rules[i], walked); why != "" {
				out = append(out, fmt.Sprintf("table %s: line %d: %s: %s", w.rs.Chains[c].Table, rules[i].Line, rules[i].Text, why))
			}
		}
	}
	return out
}

// leftOut tells why a rule does not take part in a walk, "" if it does or if
// it would change nothing.
func (w *Walker) leftOut(r *Rule, walked bool) string {
	switch {
	case r.Flags&FlagOpaque != 0:
		if w.neverMatches(r) {
			return ""
		}
		return w.rs.Troubles[r.Target]
	case walked, r.Do == DoNothing, r.Do == DoJump, r.Do == DoGoto, r.Do == DoReturn, r.Do == DoAccept:
		return ""
	}
	return "in a table that is not walked"
}

// neverMatches says that a rule is about a protocol that no Service has.
func (w *Walker) neverMatches(r *Rule) bool {
	for _, c := range w.rs.Conds[r.First : r.First+int32(r.N)] {
		if c.Kind == CondProto && !c.Not && c.X != 6 && c.X != 17 && c.X != 132 {
			return true
		}
	}
	return false
}

// walked says whether a chain's table is: nat but for its INPUT, and filter.
func (w *Walker) walked(chain int32) bool {
	c := &w.rs.Chains[chain]
	return c.Table == "filter" || c.Table == "nat" && !(c.Builtin && c.Name == "INPUT")
}

// Reachable tells of each chain whether a built-in one leads to it.
func (w *Walker) Reachable() []bool {
	reached := make([]bool, len(w.rs.Chains))
	var todo []int32
	visit := func(c int32) {
		if !reached[c] {
			reached[c] = true
			todo = append(todo, c)
		}
	}
	for c := range w.rs.Chains {
		if w.rs.Chains[c].Builtin {
			visit(int32(c))
		}
	}
	for len(todo) > 0 {
		c := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		rules := w.rs.RulesOf(c)
		for i := range rules {
			if rules[i].Jumps() {
				visit(rules[i].Target)
			}
		}
	}
	return reached
}
