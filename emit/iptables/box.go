package iptables

import (
	"svcc/ir"
	"svcc/ir/eval"
)

// narrow leaves of a box what a condition lets through, as far as a box's fields
// can say it; way.holds knows the rest. It is false if nothing is left.
func (rs *ruleset) narrow(b *eval.Box, c *condition) (ok bool) {
	switch c.kind {
	case condDport, condPorts, condSport:
		return rs.narrowPorts(b, c)
	case condState:
		b.Flows &= flowsOf(c.x, c.not)
		return b.Flows != 0
	case condMark:
		return narrowMark(b, c)
	case condSrcLocal:
		b.SrcLocal, ok = b.SrcLocal.And(truthOf(!c.not))
		return ok
	case condDstLocal:
		b.DstLocal, ok = b.DstLocal.And(truthOf(!c.not))
		return ok
	case condNever:
		return c.not
	}
	if c.not {
		return true
	}
	ok = true
	switch c.kind {
	case condSrc, condSrc6:
		b.Src, ok = b.Src.And(rs.bits(c))
	case condDst, condDst6:
		b.Dst, ok = b.Dst.And(rs.bits(c))
	case condOrigDst, condOrigDst6:
		b.Orig, ok = b.Orig.And(rs.bits(c))
	case condOrigPort:
		b.OrigPort, ok = b.OrigPort.And(eval.Ports{First: uint16(c.x), Last: uint16(c.y)})
	case condProto:
		ok = b.Protocol == 0 || b.Protocol == ir.Protocol(c.x)
		b.Protocol = ir.Protocol(c.x)
	case condIn:
		return rs.narrowIn(b, c)
	case condServed, condServedAddr, condServedPort, condServedProto:
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
func (rs *ruleset) bits(c *condition) eval.Bits {
	switch c.kind {
	case condSrc6, condDst6, condOrigDst6:
		w := rs.wide[c.x]
		return eval.Bits{Hi: w.addr.hi, Lo: w.addr.lo, HiMask: w.mask.hi, LoMask: w.mask.lo}
	}
	return eval.Bits{Lo: uint64(c.x), LoMask: uint64(c.y)}
}

// narrowPorts takes of a list of ports the range from its first to its last, and
// has the ends of each entry tried.
func (rs *ruleset) narrowPorts(b *eval.Box, c *condition) (ok bool) {
	ends := []portRange{{uint16(c.x), uint16(c.y)}}
	src, dst := c.kind == condSport, c.kind == condDport
	if c.kind == condPorts {
		ends = rs.ranges[c.x : c.x+c.y]
		src, dst = c.sub == sideSrc, c.sub == sideDst
	}
	all := eval.Ports{First: ends[0].lo, Last: ends[0].hi}
	for _, r := range ends {
		all = eval.Ports{First: min(all.First, r.lo), Last: max(all.Last, r.hi)}
	}
	b.Odd = b.Odd || !dst
	if len(ends) > 1 || c.not || !dst {
		b.Try = rs.tries(b.Try, ends, c.not)
	}
	switch {
	case c.not:
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
func (rs *ruleset) tries(have []uint16, ends []portRange, beside bool) []uint16 {
	have = have[:len(have):len(have)]
	for _, r := range ends {
		if beside {
			have = append(have, r.lo-1, r.hi+1)
			continue
		}
		have = append(have, r.lo, r.hi)
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
	if states&(stateNew|stateDNAT) != 0 {
		out |= eval.FlowRewritten
	}
	if not {
		return eval.AllFlows &^ out
	}
	return out
}

// narrowMark takes a mark that must be, or if one must not be and a packet without
// any would have it, its lowest bit turned round.
func narrowMark(b *eval.Box, c *condition) bool {
	value, mask := c.x, c.y
	if c.not {
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
func (rs *ruleset) narrowIn(b *eval.Box, c *condition) bool {
	name := rs.names[c.x]
	if c.y == 1 {
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
func (rs *ruleset) narrowServed(b *eval.Box, c *condition) (ok bool) {
	b.Flows &= eval.FlowRewritten
	ok = true
	switch c.kind {
	case condServedAddr:
		a := ipOf(rs.dests[c.x].Addr())
		all := maskOf(rs.family, rs.dests[c.x].Addr().BitLen())
		b.Orig, ok = b.Orig.And(eval.Bits{Hi: a.hi, Lo: a.lo, HiMask: all.hi, LoMask: all.lo})
	case condServedPort:
		b.OrigPort, ok = b.OrigPort.And(eval.Ports{First: uint16(c.x), Last: uint16(c.x)})
	case condServedProto:
		ok = b.Protocol == 0 || b.Protocol == ir.Protocol(c.x)
		b.Protocol = ir.Protocol(c.x)
	}
	return ok && b.Flows != 0
}
