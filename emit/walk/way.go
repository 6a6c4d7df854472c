package walk

import (
	"net/netip"
	"regexp"
	"strings"

	"svcc/ir/eval"
)

// way is the last of the rules by which packets come somewhere: they match it or,
// if it is past, they do not.
type way struct {
	rule *Rule
	past bool
	up   *way // nil at the hook
}

// holds gives what tells whether packets go a way: it asks every rule's conditions
// but those that act, and those about what nat has done.
func (w *Walker) holds(at *way) func(eval.Packet, netip.AddrPort, eval.Host) bool {
	return func(p eval.Packet, to netip.AddrPort, h eval.Host) bool {
		rewritten := p
		rewritten.Dst = to
		a := w.Ask(rewritten, h)
		a.walk.packet = p
		for step := at; step != nil; step = step.up {
			if !a.walk.goes(&a.state, step) {
				return false
			}
		}
		return true
	}
}

// Asked asks single conditions about a packet.
type Asked struct {
	walk  walk
	state state
}

// Ask has conditions asked about a packet as it comes to its first hook.
func (w *Walker) Ask(p eval.Packet, h eval.Host) *Asked {
	return &Asked{walk{w: w, packet: p, host: w.on(h)}, state{
		src: ipOf(p.Src.Addr()), dst: ipOf(p.Dst.Addr()), to: p.Dst,
		sport: p.Src.Port(), dport: p.Dst.Port(), in: p.In, mark: p.Mark, top: -1,
	}}
}

// Holds asks a condition that changes nothing, without its negation.
func (a *Asked) Holds(c *Cond) bool { return a.walk.holds(&a.state, c) }

// Mark does what a rule does to the packet's mark.
func (a *Asked) Mark(r *Rule) { a.state.setMark(r.Value, r.Mask) }

// goes says whether a packet takes one step of a way.
func (k *walk) goes(s *state, at *way) bool {
	conds := k.w.rs.condsOf(at.rule)
	for i := range conds {
		c := &conds[i]
		switch c.Kind {
		case CondStatistic, CondRecent, CondState, CondOrigDst, condOrigDst6, CondOrigPort, CondIn,
			CondServed, CondServedAddr, CondServedPort, CondServedProto:
			continue
		}
		if k.holds(s, c) == c.Not {
			return at.past
		}
	}
	return !at.past || len(conds) == 0 || !conds[0].tells() || conds[0].Kind == CondState || conds[0].Kind == CondIn
}

// serviceName finds the name of a service port as kube-proxy's comments have it.
var serviceName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]*/[a-z0-9][a-z0-9.-]*(:[a-z0-9][a-z0-9-]*)?$`)

// service is what the comments on a way call the service port, the nearest first.
func (w *way) service() string {
	for ; w != nil; w = w.up {
		_, rest, ok := strings.Cut(w.rule.Text, "--comment ")
		if !ok || w.past {
			continue
		}
		comment, _, _ := strings.Cut(rest, " -")
		if quoted, ok := strings.CutPrefix(rest, `"`); ok {
			comment, _, _ = strings.Cut(quoted, `"`)
		}
		for word := range strings.FieldsSeq(comment) {
			if len(word) < 512 && serviceName.MatchString(word) {
				return word
			}
		}
	}
	return ""
}

// sets are the conditions on a way that ask sets for an entry.
func (w *way) sets(rs *Ruleset) (out []*Cond) {
	if rs.Around == nil {
		return nil
	}
	for ; w != nil; w = w.up {
		conds := rs.condsOf(w.rule)
		for i := range conds {
			if c := &conds[i]; c.Kind == CondSet && !c.Not && !w.past {
				out = append(out, c)
			}
		}
	}
	return out
}

// mostMembers is how many entries of a set are given for a rule that asks it, and
// triedMembers how many are tried for that.
const (
	mostMembers  = 2
	triedMembers = 4096
)

// members gives a box of a way that asks sets: for each of a few entries of the
// last one.
func (d *descent) members(box eval.Box, w *way, sets []*Cond) {
	set := d.w.rs.Around.Sets[d.w.rs.names[sets[0].X]]
	given, tries := 0, 0
	for e := range set.Entries {
		if tries++; tries > triedMembers || given == mostMembers || d.stopped {
			return
		}
		if b, ok := e.narrow(box, sets[0]); ok && d.inSets(&b, sets[1:]) {
			d.send(b, w)
			given++
		}
	}
}

// inSets says whether what a box has come down to is in sets, as far as it is one
// destination.
func (d *descent) inSets(b *eval.Box, sets []*Cond) bool {
	dst, one := b.Dst.Single(d.w.rs.Family)
	if !one || b.DstPort.First != b.DstPort.Last {
		return true
	}
	src, _ := b.Src.Single(d.w.rs.Family)
	k := walk{w: d.w, packet: eval.Packet{Protocol: b.Protocol, Src: netip.AddrPortFrom(src, eval.ClientPort)}}
	s := state{to: netip.AddrPortFrom(dst, b.DstPort.First)}
	for _, c := range sets {
		if !k.asks(&s, c) {
			return false
		}
	}
	return true
}

// narrow leaves of a box what an entry lets through, by the sides that a condition
// gives its parts.
func (e *Entry) narrow(b eval.Box, c *Cond) (_ eval.Box, ok bool) {
	part := 0
	src := func() bool {
		part++
		return c.Sub&(1<<(part-1)) != 0
	}
	ok = true
	and := func(p netip.Prefix) {
		if bits, fits := eval.BitsOf(p), false; src() {
			b.Src, fits = b.Src.And(bits)
			ok = ok && fits
		} else {
			b.Dst, fits = b.Dst.And(bits)
			ok = ok && fits
		}
	}
	if e.Addr.IsValid() {
		and(netip.PrefixFrom(e.Addr, e.Addr.BitLen()))
	}
	if e.Port != 0 {
		ok = ok && (e.Protocol == 0 || b.Protocol == 0 || b.Protocol == e.Protocol)
		if e.Protocol != 0 {
			b.Protocol = e.Protocol
		}
		ports, fits := eval.Ports{First: e.Port, Last: e.Port}, false
		if src() {
			b.SrcPort, fits = b.SrcPort.And(ports)
		} else {
			b.DstPort, fits = b.DstPort.And(ports)
		}
		ok = ok && fits
	}
	if e.Third.IsValid() {
		and(e.Third)
	}
	return b, ok
}
