package walk

import (
	"iter"
	"net/netip"
	"slices"

	"svcc/ir"
	"svcc/ir/eval"
)

// Around is what the kernel has beside rules, in IPVS mode: sets that rules ask,
// addresses that the node bears, and virtual servers. These act on what is for
// the node: behind filter INPUT, and behind nat OUTPUT on the node's own.
type Around struct {
	Sets map[string]Set
	// Bears says of an address, beside those of the host, that the node has it.
	Bears func(netip.Addr) bool
	// Server is the virtual server at a destination; nil for none.
	Server func(at netip.AddrPort, p ir.Protocol) *Server
	// Boxes are the packets that entries of sets, addresses and virtual servers are
	// for, whatever rules ask; nil for none.
	Boxes iter.Seq[*eval.Box]
}

// Set is an ipset as rules ask it.
type Set interface {
	// Dimensions is how many "src" or "dst" a rule gives it.
	Dimensions() int
	// Holds says whether an entry matches: ends are the packet's side for each
	// dimension.
	Holds(p ir.Protocol, ends []netip.AddrPort) bool
	// Entries calls yield for each entry until it returns false.
	Entries(yield func(Entry) bool)
}

// Entry is one of a set, part by part; a part that the set's type has not is zero.
type Entry struct {
	Addr     netip.Addr
	Protocol ir.Protocol // zero in a set of ports, which are any protocol's
	Port     uint16
	Third    netip.Prefix // an address of full length, or a range
}

// Server is a virtual server that sends new connections to one of its choices;
// without any, the kernel refuses them (port unreachable).
type Server struct {
	Text    string   // for traces
	Sticky  int      // for how many seconds a client is remembered; 0 for none
	Choices []Choice // in order of their addresses
}

// Choice is a destination and how often it is chosen.
type Choice struct {
	To    netip.AddrPort
	Share eval.Share
}

// serve lets the virtual server at a new packet's destination part its ways. A
// packet that none serves goes on.
func (k *walk) serve(s *state) error {
	v := k.server(s)
	if v == nil {
		k.enterStage(s, k.after(s))
		return nil
	}
	if s.vip = s.to; len(v.Choices) == 0 {
		err := k.noteServed(s, v, "reject")
		s.output, s.stage = eval.Reject, stageDone
		return err
	}
	before, followed := *s, false
	for i, c := range v.narrowed(k.packet.Remembered, k.only) {
		if followed = true; i > 0 {
			k.waiting = append(k.waiting, *s)
		}
		*s = before
		if err := k.send(s, v, c); err != nil {
			return err
		}
	}
	if !followed { // all go elsewhere
		s.dnat, s.stage = true, stageDone
		s.to = netip.AddrPort{}
	}
	return nil
}

// server is the one that looks at a packet; nil for none.
func (k *walk) server(s *state) *Server {
	if k.packet.State != eval.New || s.vip.IsValid() || !k.dstIsLocal(s) {
		return nil
	}
	return k.w.rs.Around.Server(s.to, k.packet.Protocol)
}

// send takes a way to one of a server's choices.
func (k *walk) send(s *state, v *Server, c Choice) (err error) {
	if s.share, err = s.share.Mul(c.Share); err != nil {
		return err
	}
	if err := k.noteServed(s, v, "dnat "+c.To.String()); err != nil {
		return err
	}
	s.rewriteDestination(c.To)
	s.sticky, s.in = v.Sticky, ""
	k.enterStage(s, k.after(s))
	return nil
}

func (k *walk) noteServed(s *state, v *Server, note string) error {
	if k.trace == nil {
		return nil
	}
	return k.trace.add(metKey{stage: s.stage, note: note, served: v}, s.share)
}

// narrowed are the choices of a client that goes to where it went before, or if
// only one is valid, those to its address.
func (v *Server) narrowed(before, only netip.AddrPort) []Choice {
	if v.Sticky > 0 && before.IsValid() && slices.ContainsFunc(v.at(before.Addr()), func(c Choice) bool { return c.To == before }) {
		return []Choice{{before, eval.Whole}}
	}
	if only.IsValid() {
		return v.at(only.Addr())
	}
	return v.Choices
}

// at are the choices at an address.
func (v *Server) at(a netip.Addr) []Choice {
	i, _ := slices.BinarySearchFunc(v.Choices, a, func(c Choice, a netip.Addr) int { return c.To.Addr().Compare(a) })
	n := i
	for n < len(v.Choices) && v.Choices[n].To.Addr() == a {
		n++
	}
	return v.Choices[i:n]
}

// verdictOnly leaves of a packet that is refused its verdict: which hook gives
// it, and what had become of the packet, says nothing to its sender.
func (k *walk) verdictOnly(b eval.Branch) eval.Branch {
	if v := b.Verdict(); k.w.rs.Around != nil && v.Refused() {
		return eval.Branch{Share: b.Share, To: k.packet.Dst, Output: v}
	}
	return b
}

// asks says whether a set holds the packet. The bits of sub tell of each
// dimension whether it is the source.
func (k *walk) asks(s *state, c *Cond) bool {
	set := k.w.rs.Around.Sets[k.w.rs.names[c.X]]
	src := netip.AddrPortFrom(k.packet.Src.Addr(), k.packet.Src.Port())
	var ends [3]netip.AddrPort
	for i := range c.Y {
		if ends[i] = s.to; c.Sub&(1<<i) != 0 {
			ends[i] = src
		}
	}
	return set.Holds(k.packet.Protocol, ends[:c.Y])
}

// servedBy asks about the virtual server that served a packet.
func (k *walk) servedBy(s *state, c *Cond) bool {
	switch {
	case !s.vip.IsValid():
		return false
	case c.Kind == CondServedAddr:
		return s.vip.Addr() == k.w.rs.Dests[c.X].Addr()
	case c.Kind == CondServedPort:
		return uint32(s.vip.Port()) == c.X
	case c.Kind == CondServedProto:
		return uint32(k.packet.Protocol) == c.X
	}
	return true
}
