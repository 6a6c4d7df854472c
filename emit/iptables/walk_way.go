package iptables

import (
	"net/netip"

	"svcc/ir"
)

// way is how far a packet comes by its destination alone: to the first rule
// that asks something else, or does more than lead on. The next packet to the
// same destination begins there; a proof sends many to each.
type way struct {
	to         netip.AddrPort
	proto      ir.Protocol
	known      bool
	chain, pos int32
	top        int32
	frames     []frame
}

// leadsOn says that a rule sends packets on by their destination alone.
func (rs *ruleset) leadsOn(r *parsedRule) bool {
	if r.do != doJump && r.do != doGoto && r.do != doReturn {
		return false
	}
	for _, c := range rs.conds[r.first : r.first+int32(r.n)] {
		switch c.kind {
		case condDst, condDst6, condProto, condDport:
		default:
			return false
		}
	}
	return true
}

// begin lets the packet begin where one to its destination came to, or starts to
// note where it comes to.
func (k *walk) begin(s *state) {
	k.noting = nil
	if k.trace != nil || k.counting || !s.stage.nat() {
		return
	}
	w := &k.ways[s.stage]
	if w.known && w.to == k.packet.Dst && w.proto == k.packet.Protocol {
		k.frames = append(k.frames, w.frames...)
		s.top = w.top
		s.enter(w.chain, w.pos)
		return
	}
	*w = way{to: k.packet.Dst, proto: k.packet.Protocol, frames: w.frames[:0]}
	k.noting = w
}

// notes ends noting at a place if the rule that is next from there, nil at the
// chain's end, does not lead on within the hook, or if rules were passed over
// for something else than the destination.
func (k *walk) notes(s *state, from int32, r *parsedRule) {
	stays := s.top >= 0
	if r != nil {
		stays = r.flags&flagLeadsOn != 0 && (stays || r.do != doReturn)
	}
	if x := k.w.index[s.chain]; stays && (x == nil || !x.keys[keySrc] && !x.keys[keyList]) {
		return
	}
	w := k.noting
	k.noting = nil
	w.known, w.chain, w.pos, w.top = true, s.chain, from, s.top
	w.frames = append(w.frames, k.frames...)
}
