package iptables

import (
	"math/bits"
	"slices"

	"svcc/emit/walk"
)

// Furniture is what kubelet and kube-proxy keep in chains of kube-proxy's names
// whatever the Services are. Its rules take part in every walk, but what they
// match is no service's: nobody is blamed for a packet that arrives with
// kubelet's mark, and no probe need be made of it.
//
//	filter KUBE-FIREWALL   -m mark --mark 0x8000/0x8000 -j DROP   kubelet, up to 1.27
//	nat    KUBE-MARK-DROP  -j MARK --or-mark 0x8000               kubelet, up to 1.27
//	KUBE-KUBELET-CANARY, KUBE-IPTABLES-HINT                       kubelet; empty, nothing jumps there
//	KUBE-PROXY-CANARY                                             kube-proxy; likewise
//
// The bit is kubelet's --iptables-drop-bit, 15 unless it was set (KEP-3178): another
// one is kubelet's where KUBE-MARK-DROP sets it.

// ChainMarkDrop, in nat, is kubelet's: kube-proxies up to 1.25 jump to it to have
// a packet dropped later, by kubelet's rule in SharedChain.
const ChainMarkDrop = "KUBE-MARK-DROP"

// emptyFurniture are the chains that mark something by being there.
var emptyFurniture = map[string]bool{Canary: true, "KUBE-KUBELET-CANARY": true, "KUBE-IPTABLES-HINT": true}

// furniture says whether a rule that was just read is part of the furniture.
func (r *ruleParser) furniture(chain string) bool {
	switch {
	case emptyFurniture[chain]:
		return true
	case chain == ChainMarkDrop:
		return r.table == "nat" && r.do == walk.DoMark
	case chain == SharedChain:
		return r.table == "filter" && r.do == walk.DoDrop && r.dropsOneMark()
	}
	return false
}

// dropsOneMark says that one bit of the mark is all that a rule asks.
func (r *ruleParser) dropsOneMark() bool {
	if len(r.plain) > 0 || len(r.conds) != 1 {
		return false
	}
	c := r.conds[0]
	return c.Kind == walk.CondMark && !c.Not && c.X == c.Y && bits.OnesCount32(c.X) == 1
}

// kubeletsBit is the mark that means "drop" unless kubelet was told another.
const kubeletsBit = 1 << 15

// evict has rules that drop by a mark which is not kubelet's be rules like others.
func (rs ruleset) evict() {
	for i := range rs.Rules {
		r := &rs.Rules[i]
		if r.Flags&walk.FlagFurniture != 0 && r.Do == walk.DoDrop && !rs.kubelets(rs.Conds[r.First].X) {
			r.Flags &^= walk.FlagFurniture
		}
	}
}

// kubelets says that a bit of the mark is kubelet's.
func (rs ruleset) kubelets(bit uint32) bool {
	sets := func(r walk.Rule) bool {
		return rs.Chains[r.Chain].Name == ChainMarkDrop && r.Flags&walk.FlagFurniture != 0 && r.Value&bit != 0
	}
	return bit == kubeletsBit || slices.ContainsFunc(rs.Rules, sets)
}
