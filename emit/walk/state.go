package walk

import (
	"errors"
	"fmt"
	"net/netip"

	"svcc/ir/eval"
)

// maxSteps bounds how many rules are tried for one packet, since ways can
// double at each rule. A service of 10,000 endpoints with affinity takes about
// 60 an endpoint. maxEnds bounds the memory of their ends.
const (
	maxSteps = 1 << 22
	maxEnds  = 1 << 16
)

var (
	errTooMany   = errors.New("too many ways to follow")
	errElsewhere = errors.New("ends elsewhere")
	errLists     = errors.New("enters the client into more lists than are modelled")
)

// walk is one run of one packet. Its slices are kept for the next.
type walk struct {
	w          *Walker
	packet     eval.Packet
	host       eval.Host
	remembered []uint32       // recent lists that hold the client
	want       *state         // if set, errElsewhere stops the run at any other end
	only       netip.AddrPort // if valid, ways that DNAT sends elsewhere are not followed
	trace      *tracer
	steps      int     // rules tried for this packet, over all runs
	counting   bool    // whether met is wanted
	met        float64 // rules that the kernel would try in this run, on average
	waiting    []state // ways not followed yet
	frames     []frame
	ends       []state
	shortcuts  [stageDone]shortcut // of the packet before
	noting     *shortcut           // the one that is being found; nil for none
}

// frame is where a jump comes back to.
type frame struct {
	chain, pos int32
	below      int32 // frame below, -1 for none
	depth      int32
}

// state is a packet on one way.
type state struct {
	share        eval.Share
	src, dst     ip
	sport, dport uint16
	to           netip.AddrPort // dst and dport
	in           string
	mark         uint32
	marked       uint32 // the bits of mark that rules have set
	stage        stage
	chain, pos   int32
	top          int32 // frame, -1 in a base chain
	near         candidates
	seconds      int64 // least --seconds of the lists that matched; 0 for none
	lists        listSet
	dnat, masq   bool
	exempt       bool           // nat accepted it: see eval.Branch
	vip          netip.AddrPort // of the virtual server that served the packet
	sticky       int            // and for how long it remembers the client
	srcLocal     tri
	dstLocal     tri
	output       eval.Verdict
	forward      eval.Verdict
	input        eval.Verdict
}

// tri is a truth that may not be known yet.
type tri uint8

const (
	unknown tri = iota
	no
	yes
)

func triOf(b bool) tri {
	if b {
		return yes
	}
	return no
}

// listSet holds the few recent lists that one way enters the client into.
type listSet struct {
	ids [4]uint32
	n   uint8
}

func (l *listSet) has(id uint32) bool {
	for _, have := range l.ids[:l.n] {
		if have == id {
			return true
		}
	}
	return false
}

// add says whether there was room.
func (l *listSet) add(id uint32) bool {
	if l.has(id) {
		return true
	}
	if int(l.n) == len(l.ids) {
		return false
	}
	l.ids[l.n] = id
	l.n++
	return true
}

// run follows every way of the packet; k.ends has where they end.
func (k *walk) run(remembered []uint32, t *tracer) error {
	k.remembered, k.trace = remembered, t
	k.waiting, k.frames, k.ends = k.waiting[:0], k.frames[:0], k.ends[:0]
	p := &k.packet
	s := state{
		share: eval.Whole, src: ipOf(p.Src.Addr()), dst: ipOf(p.Dst.Addr()), to: p.Dst,
		sport: p.Src.Port(), dport: p.Dst.Port(), in: p.In, mark: p.Mark,
	}
	start := natPrerouting
	if p.In == "" {
		start = natOutput
	}
	k.enterStage(&s, start)
	k.begin(&s)
	k.waiting = append(k.waiting, s)
	for len(k.waiting) > 0 {
		s = k.waiting[len(k.waiting)-1]
		k.waiting = k.waiting[:len(k.waiting)-1]
		if err := k.through(&s); err != nil {
			return err
		}
	}
	return nil
}

// through follows one way to its end.
func (k *walk) through(s *state) error {
	for s.stage != stageDone {
		if s.stage.servers() {
			if err := k.serve(s); err != nil {
				return err
			}
			continue
		}
		if k.only.IsValid() {
			if lost, err := k.skip(s); lost || err != nil {
				return err
			}
		}
		from := s.pos
		r := k.next(s)
		if k.noting != nil {
			k.notes(s, from, r)
		}
		if r == nil {
			if !k.back(s) {
				k.endStage(s, eval.Policy)
			}
			continue
		}
		if k.steps++; k.steps > k.w.maxSteps {
			return r.error(errTooMany)
		}
		ok, err := k.matches(s, r)
		if err == nil && ok {
			err = k.do(s, r)
		}
		if err != nil {
			return r.error(err)
		}
	}
	return k.end(s)
}

// next is the next rule to try, nil at the chain's end.
func (k *walk) next(s *state) *Rule {
	rs := k.w.rs
	for {
		from := s.pos
		i := from
		if x := k.w.index[s.chain]; x != nil {
			i = x.next(k, s)
		}
		c := &rs.Chains[s.chain]
		if k.counting {
			k.met += s.share.Float() * float64(min(i, c.N-1)+1-from)
		}
		if i >= c.N {
			return nil
		}
		s.pos = i + 1
		r := &rs.Rules[c.first+i]
		if r.Flags&FlagOpaque == 0 && (!k.w.own || r.Flags&FlagForeign == 0) {
			return r
		}
	}
}

// do does what a matching rule says.
func (k *walk) do(s *state, r *Rule) error {
	if why := misplaced(r.Do, s.stage); why != "" {
		return errors.New(why)
	}
	if k.trace != nil {
		if err := k.trace.hop(k, s, r); err != nil {
			return err
		}
	}
	switch r.Do {
	case DoJump:
		depth := k.depth(s) + 1
		k.frames = append(k.frames, frame{s.chain, s.pos, s.top, depth})
		s.top = int32(len(k.frames) - 1)
		s.enter(r.Target, 0)
	case DoGoto:
		s.enter(r.Target, 0)
	case DoReturn:
		if !k.back(s) {
			k.endStage(s, eval.Policy)
		}
	case DoMark:
		s.setMark(r.Value, r.Mask)
	case DoAccept:
		s.exempt = s.exempt || k.exempts(s)
		k.endStage(s, eval.Accept)
	case DoDrop:
		k.endStage(s, eval.Drop)
	case DoReject:
		k.endStage(s, eval.Reject)
	case DoDNAT:
		s.rewriteDestination(k.w.rs.Dests[r.Target])
		if k.leaves(s) {
			s.stage = stageDone
			return nil
		}
		k.endStage(s, eval.Accept)
	case DoMasquerade:
		k.rewriteSource(s)
		k.endStage(s, eval.Accept)
	case DoBroken:
		return k.w.rs.errBroken(r)
	}
	return nil
}

// exempts says that to accept a packet at this hook keeps it from the rules of nat
// that are still to come, other programs' among them. In IPVS mode that is what
// is wanted at destinations with a virtual server.
func (k *walk) exempts(s *state) bool {
	around := k.w.rs.Around
	return s.stage.nat() && (around == nil || around.Server(s.to, k.packet.Protocol) == nil)
}

// misplaced tells why the kernel would refuse an action at a hook.
func misplaced(do Verb, at stage) string {
	switch {
	case do == DoDNAT && at != natPrerouting && at != natOutput:
		return "DNAT outside nat PREROUTING and OUTPUT"
	case do == DoMasquerade && at != natPostrouting:
		return "MASQUERADE outside nat POSTROUTING"
	case (do == DoDrop || do == DoReject) && at.nat():
		return "a refusal in table nat"
	}
	return ""
}

// depth is how many jumps a packet is below the built-in chain.
func (k *walk) depth(s *state) int32 {
	if s.top < 0 {
		return 0
	}
	return k.frames[s.top].depth
}

func (s *state) enter(chain, pos int32) {
	s.chain, s.pos, s.near.valid = chain, pos, false
}

// back returns from a chain that ends; false from the base chain.
func (k *walk) back(s *state) bool {
	if s.top < 0 {
		return false
	}
	f := k.frames[s.top]
	s.enter(f.chain, f.pos)
	s.top = f.below
	return true
}

func (s *state) setMark(value, mask uint32) {
	s.mark = s.mark&^mask ^ value
	s.marked = s.marked&^(mask|value) | s.mark&(mask|value)
}

func (s *state) rewriteDestination(to netip.AddrPort) {
	if to.Port() == 0 {
		to = netip.AddrPortFrom(to.Addr(), s.dport)
	}
	s.to, s.dst, s.dport = to, ipOf(to.Addr()), to.Port()
	s.dnat, s.dstLocal = true, unknown
}

// rewriteSource gives the packet the node's first address of the family, if it
// is known to have any.
func (k *walk) rewriteSource(s *state) {
	s.masq = true
	for _, a := range k.host.Addrs {
		if k.w.rs.Family.Of(a) {
			s.src, s.srcLocal = ipOf(a), yes
			return
		}
	}
}

func (k *walk) dstIsLocal(s *state) bool {
	if s.dstLocal == unknown {
		s.dstLocal = triOf(k.host.Local(s.to.Addr()))
	}
	return s.dstLocal == yes
}

// srcIsLocal is asked about the packet's own source: rewriteSource answers
// for any other.
func (k *walk) srcIsLocal(s *state) bool {
	if s.srcLocal == unknown {
		s.srcLocal = triOf(k.host.Local(k.packet.Src.Addr()))
	}
	return s.srcLocal == yes
}

// leaves says that nobody asked about where a way leads.
func (k *walk) leaves(s *state) bool { return s.dnat && k.only.IsValid() && s.to != k.only }

// end notes where a way ended.
func (k *walk) end(s *state) error {
	if k.leaves(s) {
		return nil
	}
	if k.want != nil && (s.to != k.want.to || s.masq != k.want.masq) {
		return errElsewhere
	}
	if len(k.ends) == maxEnds {
		return fmt.Errorf("packet %s: %w", k.packet, errTooMany)
	}
	k.ends = append(k.ends, *s)
	return nil
}

func (s *state) branch() eval.Branch {
	return eval.Branch{
		Share: s.share, To: s.to, DNAT: s.dnat, Masquerade: s.masq, Exempt: s.exempt, Mark: s.mark,
		Output: s.output, Forward: s.forward, Input: s.input, Sticky: s.sticky,
	}
}
