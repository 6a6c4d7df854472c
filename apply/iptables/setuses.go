package iptables

import (
	"svcc/apply"
	"svcc/ir"
)

// SetUses counts, by the names of sets, how often rules of ours that were
// observed name a set. Each is a reference of the kernel's to the set.
func SetUses(o apply.Observed) map[string]int {
	out := map[string]int{}
	own, ok := o.(*observed)
	if !ok {
		return out
	}
	for i := range ir.Families {
		for _, t := range own.families[i].tables {
			t.countSets(out)
		}
	}
	return out
}

func (t *table) countSets(out map[string]int) {
	if t == nil {
		return
	}
	for _, rule := range t.rules {
		for _, name := range setNames(rule) {
			out[name]++
		}
	}
}
