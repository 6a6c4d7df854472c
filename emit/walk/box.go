package walk

import (
	"svcc/ir"
	"svcc/ir/eval"
)

// narrow leaves of a box what a condition lets through, as far as a box's fields
// can say it; way.holds knows the rest. It is false if nothing is left.
func (rs *Ruleset) narrow(b *eval.Box, c *Cond) (ok bool) {
	switch c.Kind {
	case CondDport, CondPorts, CondSport:
		return rs.narrowPorts(b, c)
	case CondState:
		b.Flows &= flowsOf(c.X, c.Not)
		return b.Flows != 0
	case CondMark:
		return narrowMark(b, c)
	case CondSrcLocal:
		b.SrcLocal, ok = b.SrcLocal.And(truthOf(!c.Not))
		return ok
	case CondDstLocal:
		b.DstLocal, ok = b.DstLocal.And(truthOf(!c.Not))
		return ok
	case CondNever:
		return c.Not
	}
	if c.Not {
		return true
	}
	ok = true
	switch c.Kind {
	case CondSrc, CondSrc6:
		b.Src, ok = b.Src.And(rs.bits(c))
	case CondDst, CondDst6:
		b.Dst, ok = b.Dst.And(rs.bits(c))
	case CondOrigDst, condOrigDst6:
		b.Orig, ok = b.Orig.And(rs.bits(c))
	case CondOrigPort:
		b.OrigPort, ok = b.OrigPort.And(eval.Ports{First: uint16(c.X), Last: uint16(c.Y)})
	case CondProto:
		ok = b.Protocol == 0 || b.Protocol == ir.Protocol(c.X)
		b.Protocol = ir.Protocol(c.X)
	case CondIn:
		return rs.narrowIn(b, c)
	case CondServed, CondServedAddr, CondServedPort, CondServedProto:
		return rs.narrowServed(b, c)
	}
	return ok
}

func truthOf(yes bool) eval.Truth {
	if yes {
		return eval.Yes
	}
	return eval.No
}

// bits are the addresses that a condition asks for.
func (rs *Ruleset) bits(c *Cond) eval.Bits {
	switch c.Kind {
	case CondSrc6, CondDst6, condOrigDst6:
		w := rs.wide[c.X]
		return eval.Bits{Hi: w.addr.hi, Lo: w.addr.lo, HiMask: w.mask.hi, LoMask: w.mask.lo}
	}
	return eval.Bits{Lo: uint64(c.X), LoMask: uint64(c.Y)}
}

// narrowPorts takes of a list of ports the range from its first to its last, and
// has the ends of each entry tried.
func (rs *Ruleset) narrowPorts(b *eval.Box, c *Cond) (ok bool) {
	ends := []PortRange{{uint16(c.X), uint16(c.Y)}}
	src, dst := c.Kind == CondSport, c.Kind == CondDport
	if c.Kind == CondPorts {
		ends = rs.Ranges[c.X : c.X+c.Y]
		src, dst = c.Sub == SideSrc, c.Sub == SideDst
	}
	all := eval.Ports{First: ends[0].Lo, Last: ends[0].Hi}
	for _, r := range ends {
		all = eval.Ports{First: min(all.First, r.Lo), Last: max(all.Last, r.Hi)}
	}
	b.Odd = b.Odd || !dst
	if len(ends) > 1 || c.Not || !dst {
		b.Try = rs.tries(b.Try, ends, c.Not)
	}
	switch {
	case c.Not:
		return true
	case src:
		b.SrcPort, ok = b.SrcPort.And(all)
		return ok
	case dst:
		b.DstPort, ok = b.DstPort.And(all)
		return ok
	}
	return true
}

// tries are the ends of ranges of ports, or what lies beside them.
func (rs *Ruleset) tries(have []uint16, ends []PortRange, beside bool) []uint16 {
	have = have[:len(have):len(have)]
	for _, r := range ends {
		if beside {
			have = append(have, r.Lo-1, r.Hi+1)
			continue
		}
		have = append(have, r.Lo, r.Hi)
	}
	return have
}

// flowsOf are the kinds of packets that a list of states lets through.
func flowsOf(states uint32, not bool) (out eval.Flows) {
	for s, bit := range stateBits {
		if states&bit != 0 {
			out |= 1 << s
		}
	}
	if states&(StateNew|StateDNAT) != 0 {
		out |= eval.FlowRewritten
	}
	if not {
		return eval.AllFlows &^ out
	}
	return out
}

// narrowMark takes a mark that must be, or if one must not be and a packet without
// any would have it, its lowest bit turned round.
func narrowMark(b *eval.Box, c *Cond) bool {
	value, mask := c.X, c.Y
	if c.Not {
		if b.MarkMask&mask == mask {
			return b.Mark&mask != value
		}
		bit := mask &^ b.MarkMask & -(mask &^ b.MarkMask)
		if value != 0 && b.Mark&mask != value {
			return true
		}
		value, mask = ^value&bit, bit
	}
	if (b.Mark^value)&b.MarkMask&mask != 0 {
		return false
	}
	b.Mark, b.MarkMask = b.Mark|value, b.MarkMask|mask
	b.Odd = b.Odd || value != 0
	return true
}

// narrowIn takes an interface. What the node sends came by none.
func (rs *Ruleset) narrowIn(b *eval.Box, c *Cond) bool {
	name := rs.names[c.X]
	if c.Y == 1 {
		name += "0"
	}
	if b.In != "" && b.In != name {
		return false
	}
	b.In = name
	b.Hooks &^= eval.Output
	return b.Hooks != 0
}

// narrowServed takes what a virtual server has sent on, and which.
func (rs *Ruleset) narrowServed(b *eval.Box, c *Cond) (ok bool) {
	b.Flows &= eval.FlowRewritten
	ok = true
	switch c.Kind {
	case CondServedAddr:
		a := ipOf(rs.Dests[c.X].Addr())
		all := maskOf(rs.Family, rs.Dests[c.X].Addr().BitLen())
		b.Orig, ok = b.Orig.And(eval.Bits{Hi: a.hi, Lo: a.lo, HiMask: all.hi, LoMask: all.lo})
	case CondServedPort:
		b.OrigPort, ok = b.OrigPort.And(eval.Ports{First: uint16(c.X), Last: uint16(c.X)})
	case CondServedProto:
		ok = b.Protocol == 0 || b.Protocol == ir.Protocol(c.X)
		b.Protocol = ir.Protocol(c.X)
	}
	return ok && b.Flows != 0
}
