package iptables

import (
	"math"
	"slices"
	"strings"

	"svcc/ir/eval"
)

// matches asks a rule's conditions in the kernel's order, since some of them
// act: recent enters the client into its list, and statistic parts the ways.
func (k *walk) matches(s *state, r *parsedRule) (bool, error) {
	if k.w.own && r.flags&flagFurniture != 0 && r.do == doDrop {
		return k.dropsMarked(s, r), nil
	}
	conds := k.w.rs.conds[r.first : r.first+int32(r.n)]
	for i := range conds {
		c := &conds[i]
		switch c.kind {
		case condStatistic:
			if ok, err := k.part(s, k.w.rs.shares[c.x-1], k.loses(r, conds[i+1:])); !ok || err != nil {
				return false, err
			}
		case condRecent:
			if ok, err := k.recent(s, c); !ok || err != nil {
				return false, err
			}
		default:
			if k.holds(s, c) == c.not {
				return false, nil
			}
		}
	}
	return true, nil
}

// holds asks a condition that changes nothing, without its negation.
func (k *walk) holds(s *state, c *condition) bool {
	switch c.kind {
	case condSrc:
		return uint32(s.src.lo)&c.y == c.x
	case condDst:
		return uint32(s.dst.lo)&c.y == c.x
	case condSrc6:
		w := &k.w.rs.wide[c.x]
		return s.src.and(w.mask) == w.addr
	case condDst6:
		w := &k.w.rs.wide[c.x]
		return s.dst.and(w.mask) == w.addr
	case condProto:
		return uint32(k.packet.Protocol) == c.x
	case condIn:
		return k.cameBy(s, k.w.rs.names[c.x], c.y == 1)
	case condSport:
		return c.x <= uint32(s.sport) && uint32(s.sport) <= c.y
	case condDport:
		return c.x <= uint32(s.dport) && uint32(s.dport) <= c.y
	case condPorts:
		return k.inPorts(s, c)
	case condState:
		return k.states(s)&c.x != 0
	case condMark:
		return s.mark&c.y == c.x
	case condOrigDst:
		return uint32(ipOf(k.packet.Dst.Addr()).lo)&c.y == c.x
	case condOrigDst6:
		w := &k.w.rs.wide[c.x]
		return ipOf(k.packet.Dst.Addr()).and(w.mask) == w.addr
	case condOrigPort:
		return c.x <= uint32(k.packet.Dst.Port()) && uint32(k.packet.Dst.Port()) <= c.y
	case condSrcLocal:
		return k.srcIsLocal(s)
	case condDstLocal:
		return k.dstIsLocal(s)
	case condSet:
		return k.asks(s, c)
	case condServed, condServedAddr, condServedPort, condServedProto:
		return k.servedBy(s, c)
	}
	return false
}

// cameBy compares the interface of entry. At OUTPUT, and at POSTROUTING for
// the node's own packets, there is none.
func (k *walk) cameBy(s *state, name string, prefix bool) bool {
	if prefix {
		return strings.HasPrefix(s.in, name)
	}
	return s.in == name
}

func (k *walk) inPorts(s *state, c *condition) bool {
	for _, r := range k.w.rs.ranges[c.x : c.x+c.y] {
		if c.sub&sideSrc != 0 && r.lo <= s.sport && s.sport <= r.hi {
			return true
		}
		if c.sub&sideDst != 0 && r.lo <= s.dport && s.dport <= r.hi {
			return true
		}
	}
	return false
}

func (k *walk) states(s *state) uint32 {
	bits := stateBits[k.packet.State]
	if s.dnat && !s.vip.IsValid() { // what a virtual server does is no NAT to conntrack
		bits |= stateDNAT
	}
	if s.masq {
		bits |= stateSNAT
	}
	return bits
}

// loses says that whatever goes on with a rule, of which these conditions have
// yet to be asked, goes where nobody asked about.
func (k *walk) loses(r *parsedRule, rest []condition) bool {
	return k.only.IsValid() && r.do == doDNAT && k.w.rs.dests[r.target].Port() != 0 && k.w.rs.dests[r.target] != k.only && len(rest) == 0
}

// part lets a share of the packets go on with this rule; the rest waits to go
// on with the next. Where the share is lost, the rest goes on at once.
func (k *walk) part(s *state, p eval.Share, lost bool) (bool, error) {
	if p.IsZero() || p == eval.Whole {
		return p == eval.Whole, nil
	}
	if lost {
		var err error
		s.share, err = s.share.Mul(p.Rest())
		return false, err
	}
	rest := *s
	var err error
	if rest.share, err = s.share.Mul(p.Rest()); err != nil {
		return false, err
	}
	if s.share, err = s.share.Mul(p); err != nil {
		return false, err
	}
	k.waiting = append(k.waiting, rest)
	return true, nil
}

// recent asks a list whether it holds the client, which is new to every list
// but those remembered. An update that matches enters the client again.
func (k *walk) recent(s *state, c *condition) (bool, error) {
	known := c.sub == recentSet || s.lists.has(c.x) || slices.Contains(k.remembered, c.x)
	if known && c.sub != recentSet && !c.not {
		seconds := int64(c.y)
		if seconds == 0 {
			seconds = math.MaxInt32
		}
		if s.seconds == 0 || seconds < s.seconds {
			s.seconds = seconds
		}
	}
	ok := known != c.not
	if c.sub == recentSet || c.sub == recentUpdate && ok && known {
		if !s.lists.add(c.x) {
			return false, errLists
		}
		s.near.valid = false
	}
	return ok, nil
}
