package walk

import (
	"net/netip"

	"svcc/ir"
)

// shortcut is how far a packet comes by its destination alone: to the first rule
// that asks something else, or does more than lead on. The next packet to the
// same destination begins there; a proof sends many to each.
type shortcut struct {
	to         netip.AddrPort
	proto      ir.Protocol
	known      bool
	chain, pos int32
	top        int32
	frames     []frame
}

// leadsOn says that a rule sends packets on by their destination alone.
func (rs *Ruleset) leadsOn(r *Rule) bool {
	if r.Do != DoJump && r.Do != DoGoto && r.Do != DoReturn {
		return false
	}
	for _, c := range rs.Conds[r.First : r.First+int32(r.N)] {
		switch c.Kind {
		case CondDst, CondDst6, CondProto, CondDport:
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
	c := &k.shortcuts[s.stage]
	if c.known && c.to == k.packet.Dst && c.proto == k.packet.Protocol {
		k.frames = append(k.frames, c.frames...)
		s.top = c.top
		s.enter(c.chain, c.pos)
		return
	}
	*c = shortcut{to: k.packet.Dst, proto: k.packet.Protocol, frames: c.frames[:0]}
	k.noting = c
}

// notes ends noting at a place if the rule that is next from there, nil at the
// chain's end, does not lead on within the hook, or if rules were passed over
// for something else than the destination.
func (k *walk) notes(s *state, from int32, r *Rule) {
	stays := s.top >= 0
	if r != nil {
		stays = r.Flags&flagLeadsOn != 0 && (stays || r.Do != DoReturn)
	}
	if x := k.w.index[s.chain]; stays && (x == nil || !x.keys[keySrc] && !x.keys[keyNet] && !x.keys[keyList]) {
		return
	}
	c := k.noting
	k.noting = nil
	c.known, c.chain, c.pos, c.top = true, s.chain, from, s.top
	c.frames = append(c.frames, k.frames...)
}
