package iptables

import (
	"fmt"
	"slices"
)

// lateJump is a jump to SharedChain that comes after other jumps of ours in its
// built-in chain. kubelet and kube-proxy each put theirs on top when they start,
// so either order is an ordinary node's.
type lateJump struct {
	chain    int32
	from, at int32 // in the chain: our first jump, and the one to SharedChain
}

// lateFirewalls finds them.
func (rs *ruleset) lateFirewalls() (out []lateJump) {
	for _, hook := range []string{"INPUT", "OUTPUT"} {
		c := rs.builtin("filter", hook)
		if c < 0 {
			continue
		}
		from := int32(-1)
		for i := range rs.rulesOf(c) {
			r := &rs.rulesOf(c)[i]
			if rs.callsFirewall(r) {
				if from >= 0 {
					out = append(out, lateJump{c, from, int32(i)})
				}
				break
			}
			if from < 0 && r.flags&flagForeign == 0 {
				from = int32(i)
			}
		}
	}
	return out
}

// callsFirewall says that a rule jumps to SharedChain whatever the packet is.
func (rs *ruleset) callsFirewall(r *parsedRule) bool {
	return r.do == doJump && r.n == 0 && rs.chains[r.target].name == SharedChain
}

// firewallFirst is the walker with SharedChain called before our other chains.
func (w *walker) firewallFirst() *walker {
	late := w.rs.lateFirewalls()
	o := *w
	if len(late) == 0 {
		return &o
	}
	rs := *w.rs
	rs.rules = slices.Clone(rs.rules)
	o.rs, o.index = &rs, slices.Clone(w.index)
	for _, l := range late {
		rules := rs.rulesOf(l.chain)
		jump := rules[l.at]
		copy(rules[l.from+1:l.at+1], rules[l.from:l.at])
		rules[l.from] = jump
		o.index[l.chain] = newIndex(&rs, l.chain)
	}
	return &o
}

// order tells of a jump to SharedChain that comes late what it leaves open. In
// OUTPUT it leaves nothing open.
func (w *walker) order() (out []string) {
	for _, l := range w.rs.lateFirewalls() {
		if w.rs.chains[l.chain].name != "INPUT" {
			continue
		}
		first := w.rs.rulesOf(l.chain)[l.from]
		out = append(out, fmt.Sprintf("INPUT calls %s after %s, as where kubelet started before kube-proxy: ports that kube-proxy opens are open at 127.0.0.0/8 for neighbours too",
			SharedChain, w.rs.chains[first.target].name))
	}
	return out
}
