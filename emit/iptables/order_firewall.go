package iptables

import (
	"fmt"

	"svcc/emit/walk"
)

// lateFirewalls finds the jumps to SharedChain that come after other jumps of ours in
// their built-in chain. kubelet and kube-proxy each put theirs on top when they start.
func (rs ruleset) lateFirewalls() (out []walk.LateJump) {
	for _, hook := range []string{"INPUT", "OUTPUT"} {
		c := rs.Builtin("filter", hook)
		if c < 0 {
			continue
		}
		from := int32(-1)
		for i := range rs.RulesOf(c) {
			r := &rs.RulesOf(c)[i]
			if rs.callsFirewall(r) {
				if from >= 0 {
					out = append(out, walk.LateJump{Chain: c, From: from, At: int32(i)})
				}
				break
			}
			if from < 0 && r.Flags&walk.FlagForeign == 0 {
				from = int32(i)
			}
		}
	}
	return out
}

// callsFirewall says that a rule jumps to SharedChain whatever the packet is.
func (rs ruleset) callsFirewall(r *walk.Rule) bool {
	return r.Do == walk.DoJump && r.N == 0 && rs.Chains[r.Target].Name == SharedChain
}

// order tells of a jump to SharedChain that comes late what it leaves open. In
// OUTPUT it leaves nothing open.
func order(rs ruleset) (out []string) {
	for _, l := range rs.Late {
		if rs.Chains[l.Chain].Name != "INPUT" {
			continue
		}
		first := rs.RulesOf(l.Chain)[l.From]
		out = append(out, fmt.Sprintf("INPUT calls %s after %s, as where kubelet started before kube-proxy: ports that kube-proxy opens are open at 127.0.0.0/8 for neighbours too",
			SharedChain, rs.Chains[first.Target].Name))
	}
	return out
}
