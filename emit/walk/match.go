package walk

import (
	"math"
	"slices"
	"strings"

	"svcc/ir/eval"
)

// matches asks a rule's conditions in the kernel's order, since some of them
// act: recent enters the client into its list, and statistic parts the ways.
func (k *walk) matches(s *state, r *Rule) (bool, error) {
	if k.w.own && r.Flags&FlagFurniture != 0 && r.Do == DoDrop {
		return k.dropsMarked(s, r), nil
	}
	conds := k.w.rs.Conds[r.First : r.First+int32(r.N)]
	for i := range conds {
		c := &conds[i]
		switch c.Kind {
		case CondStatistic:
			if ok, err := k.part(s, k.w.rs.Shares[c.X-1], k.loses(r, conds[i+1:])); !ok || err != nil {
				return false, err
			}
		case CondRecent:
			if ok, err := k.recent(s, c); !ok || err != nil {
				return false, err
			}
		default:
			if k.holds(s, c) == c.Not {
				return false, nil
			}
		}
	}
	return true, nil
}

// holds asks a condition that changes nothing, without its negation.
func (k *walk) holds(s *state, c *Cond) bool {
	switch c.Kind {
	case CondSrc:
		return uint32(s.src.lo)&c.Y == c.X
	case CondDst:
		return uint32(s.dst.lo)&c.Y == c.X
	case CondSrc6:
		w := &k.w.rs.wide[c.X]
		return s.src.and(w.mask) == w.addr
	case CondDst6:
		w := &k.w.rs.wide[c.X]
		return s.dst.and(w.mask) == w.addr
	case CondProto:
		return uint32(k.packet.Protocol) == c.X
	case CondIn:
		return k.cameBy(s, k.w.rs.names[c.X], c.Y == 1)
	case CondSport:
		return c.X <= uint32(s.sport) && uint32(s.sport) <= c.Y
	case CondDport:
		return c.X <= uint32(s.dport) && uint32(s.dport) <= c.Y
	case CondPorts:
		return k.inPorts(s, c)
	case CondState:
		return k.states(s)&c.X != 0
	case CondMark:
		return s.mark&c.Y == c.X
	case CondOrigDst:
		return uint32(ipOf(k.packet.Dst.Addr()).lo)&c.Y == c.X
	case condOrigDst6:
		w := &k.w.rs.wide[c.X]
		return ipOf(k.packet.Dst.Addr()).and(w.mask) == w.addr
	case CondOrigPort:
		return c.X <= uint32(k.packet.Dst.Port()) && uint32(k.packet.Dst.Port()) <= c.Y
	case CondSrcLocal:
		return k.srcIsLocal(s)
	case CondDstLocal:
		return k.dstIsLocal(s)
	case CondSet:
		return k.asks(s, c)
	case CondServed, CondServedAddr, CondServedPort, CondServedProto:
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

func (k *walk) inPorts(s *state, c *Cond) bool {
	for _, r := range k.w.rs.Ranges[c.X : c.X+c.Y] {
		if c.Sub&SideSrc != 0 && r.Lo <= s.sport && s.sport <= r.Hi {
			return true
		}
		if c.Sub&SideDst != 0 && r.Lo <= s.dport && s.dport <= r.Hi {
			return true
		}
	}
	return false
}

func (k *walk) states(s *state) uint32 {
	bits := stateBits[k.packet.State]
	if s.dnat && !s.vip.IsValid() { // what a virtual server does is no NAT to conntrack
		bits |= StateDNAT
	}
	if s.masq {
		bits |= StateSNAT
	}
	return bits
}

// loses says that whatever goes on with a rule, of which these conditions have
// yet to be asked, goes where nobody asked about.
func (k *walk) loses(r *Rule, rest []Cond) bool {
	return k.only.IsValid() && r.Do == DoDNAT && k.w.rs.Dests[r.Target].Port() != 0 && k.w.rs.Dests[r.Target] != k.only && len(rest) == 0
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
func (k *walk) recent(s *state, c *Cond) (bool, error) {
	known := c.Sub == RecentSet || s.lists.has(c.X) || slices.Contains(k.remembered, c.X)
	if known && c.Sub != RecentSet && !c.Not {
		seconds := int64(c.Y)
		if seconds == 0 {
			seconds = math.MaxInt32
		}
		if s.seconds == 0 || seconds < s.seconds {
			s.seconds = seconds
		}
	}
	ok := known != c.Not
	if c.Sub == RecentSet || c.Sub == RecentUpdate && ok && known {
		if !s.lists.add(c.X) {
			return false, errLists
		}
		s.near.valid = false
	}
	return ok, nil
}

// dropsMarked says whether kubelet's rule of SharedChain drops a packet, when
// the rules of other programs are passed over: only a mark that rules of ours
// gave it counts. What arrives with the mark is between kubelet and the sender.
func (k *walk) dropsMarked(s *state, r *Rule) bool {
	c := &k.w.rs.Conds[r.First]
	return s.marked&c.Y == c.X
}
