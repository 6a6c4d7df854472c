package eval

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"svcc/ir"
)

// State is a packet's connection-tracking state when it arrives.
type State uint8

// The states.
const (
	New         State = iota // first packet of a flow
	Established              // of a flow that is known
	Related                  // such as an ICMP error about a known flow
	Invalid                  // conntrack makes nothing of it; nat is not consulted
	Expected                 // first packet of a flow that another one announced, as of FTP's data; rules call it RELATED
	Untracked                // kept from conntrack (-j CT --notrack); nat is not consulted
)

// States are all of them.
var States = []State{New, Established, Related, Invalid, Expected, Untracked}

// String is the state as svcc trace --state takes it.
func (s State) String() string {
	return [...]string{"new", "established", "related", "invalid", "expected", "untracked"}[s]
}

// Begins says that nat is consulted: the packet is the first of its flow
// (nf_nat_inet_fn in the kernel).
func (s State) Begins() bool { return s == New || s == Expected }

// related says that rules call the packet one of a known flow, or RELATED to one.
func (s State) related() bool { return s == Established || s == Related || s == Expected }

// Packet is a packet as it arrives at the node or leaves one of its sockets.
type Packet struct {
	Src, Dst netip.AddrPort // both of one family
	Protocol ir.Protocol
	// In is the interface it came in by; "" for a packet that the node itself
	// sends, which starts at OUTPUT rather than at PREROUTING.
	In    string
	State State
	Mark  uint32
	// Remembered is the endpoint that session affinity holds for the client,
	// last used so recently that it still counts; the zero value for none.
	Remembered netip.AddrPort
}

// String gives "new tcp 10.0.0.1:40000 -> 10.96.0.1:80 in eth0", with the mark
// and the remembered endpoint where there are any.
func (p Packet) String() string {
	in := "from the node"
	if p.In != "" {
		in = "in " + p.In
	}
	s := fmt.Sprintf("%s %s %s -> %s %s", p.State, p.Protocol, p.Src, p.Dst, in)
	if p.Mark != 0 {
		s += fmt.Sprintf(" mark %#x", p.Mark)
	}
	if p.Remembered.IsValid() {
		s += fmt.Sprintf(" remembered at %s", p.Remembered)
	}
	return s
}

// Host is what the kernel knows beyond the rules.
type Host struct {
	Addrs []netip.Addr // addresses of the node's interfaces; loopback ranges are always local
	// Bears says of further addresses that an interface of the node has them, for
	// the sake of services; nil for none.
	Bears func(netip.Addr) bool
}

// Local says whether the kernel would call an address LOCAL.
func (h Host) Local(a netip.Addr) bool {
	return a.IsLoopback() || slices.Contains(h.Addrs, a) || h.Bears != nil && h.Bears(a)
}

// Verdict is what a filter hook does with a packet.
type Verdict uint8

// The verdicts.
const (
	NotMet Verdict = iota // the packet does not come by this hook
	Policy                // no rule decided: the hook's policy does
	Accept                // a rule accepted
	Drop                  // a rule dropped
	Reject                // a rule refused with port unreachable
)

func (v Verdict) String() string {
	return [...]string{"-", "policy", "accept", "drop", "reject"}[v]
}

// Refused says that the packet ends here.
func (v Verdict) Refused() bool { return v == Drop || v == Reject }

// Branch is one thing that may happen to a packet.
type Branch struct {
	Share Share          // how often, of 1
	To    netip.AddrPort // where it goes: its destination after DNAT
	DNAT  bool           // whether the destination was rewritten
	// Masquerade says that its source is rewritten to an address of the node.
	Masquerade bool
	// Exempt says that a rule of nat accepted it as it is: no later rule there
	// rewrites it, be it another program's. Services never ask for that.
	Exempt bool
	Mark   uint32 // when it leaves the last hook it meets
	// The filter hooks. A packet of the node to itself meets Output and Input.
	Output, Forward, Input Verdict
	// Sticky is for how many seconds the client goes to To again; 0 if the
	// choice is not remembered, -1 if remembering it does not work.
	Sticky int
}

// Verdict is the branch's fate: Drop or Reject if any hook refused, else Accept.
func (b *Branch) Verdict() Verdict {
	for _, v := range [...]Verdict{b.Output, b.Forward, b.Input} {
		if v.Refused() {
			return v
		}
	}
	return Accept
}

// String describes the branch on one line.
func (b Branch) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "%s ", b.Share)
	if v := b.Verdict(); v.Refused() {
		fmt.Fprintf(&s, "%s ", v)
	}
	if b.DNAT {
		fmt.Fprintf(&s, "to %s", b.To)
	} else {
		fmt.Fprintf(&s, "as it is to %s", b.To)
	}
	if b.Masquerade {
		s.WriteString(" masquerade")
	}
	if b.Exempt {
		s.WriteString(" nat=accept")
	}
	if b.Mark != 0 {
		fmt.Fprintf(&s, " mark %#x", b.Mark)
	}
	for _, h := range []struct {
		name string
		v    Verdict
	}{{"output", b.Output}, {"forward", b.Forward}, {"input", b.Input}} {
		if h.v != NotMet {
			fmt.Fprintf(&s, " %s=%s", h.name, h.v)
		}
	}
	if b.Sticky != 0 {
		fmt.Fprintf(&s, " sticky %ds", b.Sticky)
	}
	return s.String()
}

func (b *Branch) compare(c *Branch) int {
	if n := b.To.Compare(c.To); n != 0 {
		return n
	}
	less := func(x, y bool) int {
		switch {
		case x == y:
			return 0
		case y:
			return -1
		}
		return 1
	}
	return cmp.Or(less(b.DNAT, c.DNAT), less(b.Masquerade, c.Masquerade), less(b.Exempt, c.Exempt),
		cmp.Compare(b.Mark, c.Mark), cmp.Compare(b.Output, c.Output), cmp.Compare(b.Forward, c.Forward),
		cmp.Compare(b.Input, c.Input), cmp.Compare(b.Sticky, c.Sticky))
}

// Outcome is everything that may happen to a packet, in normal form: sorted,
// no two branches alike but for their share, shares adding up to 1.
type Outcome []Branch

// Normalize sorts the branches and merges those that differ in share only; the
// mark of a packet that is refused says nothing, so it is cleared, as is Exempt. It reuses the
// slice. An error means that shares could not be added exactly.
func Normalize(bs []Branch) (Outcome, error) {
	for i := range bs {
		if bs[i].Verdict().Refused() {
			bs[i].Mark, bs[i].Exempt = 0, false
		}
	}
	if ascending(bs) {
		return bs, nil
	}
	slices.SortFunc(bs, func(b, c Branch) int { return b.compare(&c) })
	out := bs[:1]
	for _, b := range bs[1:] {
		last := &out[len(out)-1]
		if last.compare(&b) != 0 {
			out = append(out, b)
			continue
		}
		sum, err := last.Share.Add(b.Share)
		if err != nil {
			return nil, err
		}
		last.Share = sum
	}
	return out, nil
}

// ascending says that branches are in normal form as they are.
func ascending(bs []Branch) bool {
	for i := 1; i < len(bs); i++ {
		if bs[i-1].compare(&bs[i]) >= 0 {
			return false
		}
	}
	return true
}

// Equal says whether two outcomes are the same.
func (o Outcome) Equal(p Outcome) bool { return slices.Equal(o, p) }

// String gives one line a branch.
func (o Outcome) String() string {
	var s strings.Builder
	for _, b := range o {
		fmt.Fprintln(&s, b)
	}
	return s.String()
}
