package eval

import (
	"net/netip"
	"slices"

	"svcc/ir"
)

// Looks are how closely packets were looked at. A packet whose probe says One is
// looked at narrowly, at one endpoint, once enough others have shown all of them:
// packets to the same destination, with the same endpoints to choose from, that
// are masqueraded alike. So the cost of many clients does not multiply with that
// of many endpoints, and each endpoint's share is seen nevertheless.
type Looks struct {
	seen map[choice]int // branches
	most int
}

// choice is what packets have in common that meet the same endpoints.
type choice struct {
	dst        netip.AddrPort
	proto      ir.Protocol
	first      *ir.Endpoint
	n          int
	masquerade bool
}

// Looks of rules that anybody may have made, or of those that were just made
// (see Sample).
const (
	closely = 1 << 10 // branches of one choice: with few endpoints, dozens of clients
	once    = 1
)

// NewLooks is for the probes of Probes; with sample for those of Sample.
func NewLooks(sample bool) *Looks {
	if sample {
		return &Looks{map[choice]int{}, once}
	}
	return &Looks{map[choice]int{}, closely}
}

// narrowly says that one endpoint of a packet's is enough.
func (l *Looks) narrowly(p *Probe, c choices) bool {
	if len(c.endpoints) == 0 {
		return false
	}
	k := choice{p.Packet.Dst, p.Packet.Protocol, &c.endpoints[0], len(c.endpoints), c.masquerade}
	if p.One && l.seen[k] >= l.most {
		return true
	}
	l.seen[k] += len(c.endpoints)
	return false
}

// Look is the Outcome of a probe's packet. It takes the memory of into, for which
// its caller has no more use. A narrow look leaves out the branches to other
// endpoints than one: the client itself if it is among them, else one in the
// middle. That endpoint is given too; it is not valid if nothing was left out.
func (e *Evaluator) Look(into Outcome, p Probe, l *Looks) (Outcome, netip.AddrPort, error) {
	h := e.on(p.Host)
	c, err := e.choices(p.Packet, h)
	if err != nil {
		return nil, netip.AddrPort{}, err
	}
	if !l.narrowly(&p, c) {
		out, err := e.outcome(into, p.Packet, h, c, c.endpoints)
		return out, netip.AddrPort{}, err
	}
	i := c.telling(p)
	out, err := e.outcome(into, p.Packet, h, c, c.endpoints[i:i+1])
	return out, c.endpoints[i].AddrPort(), err
}

// telling is the place of the endpoint at which a packet is looked at: in the
// probe's box, else the client. The endpoints of a Program are in order of their
// addresses.
func (c choices) telling(p Probe) int {
	client, found := slices.BinarySearchFunc(c.endpoints, p.Packet.Src.Addr(), func(ep ir.Endpoint, a netip.Addr) int { return ep.Addr.Compare(a) })
	if found && p.holds(c.endpoints[client]) {
		return client
	}
	if p.Box != nil {
		if i := slices.IndexFunc(c.endpoints, p.holds); i >= 0 {
			return i
		}
	}
	if found {
		return client
	}
	return len(c.endpoints) / 2
}

// holds says that the packet is in the probe's box once it goes to an endpoint.
func (p *Probe) holds(e ir.Endpoint) bool {
	b := p.Box
	if b == nil {
		return true
	}
	_, ok := b.DstPort.And(Ports{e.Port, e.Port})
	return ok && b.Dst.Contains(e.Addr) && (b.Holds == nil || b.Holds(p.Packet, e.AddrPort(), p.Host))
}

// Pair looks at packets as two Programs see them.
type Pair struct {
	before, after *Evaluator
	looks         [2]*Looks
	parts         map[lists]int // where two lists part
}

// lists are two lists of endpoints.
type lists struct {
	first, other *ir.Endpoint
	n, m         int
}

// NewPair is for the Programs of two states of a node.
func NewPair(before, after *ir.Program) *Pair {
	return &Pair{NewProgram(before), NewProgram(after), [2]*Looks{NewLooks(false), NewLooks(false)}, map[lists]int{}}
}

// Whole gives both outcomes of a probe's packet.
func (x *Pair) Whole(p Probe) (before, after Outcome, err error) {
	if before, err = x.before.Outcome(p.Packet, p.Host); err != nil {
		return nil, nil, err
	}
	after, err = x.after.Outcome(p.Packet, p.Host)
	return before, after, err
}

// Look is Whole, or less of it: at one endpoint of each side, where they differ if
// the sides choose from other endpoints. It says whether it is the whole.
func (x *Pair) Look(p Probe) (before, after Outcome, whole bool, err error) {
	hb, ha := x.before.on(p.Host), x.after.on(p.Host)
	b, err := x.before.choices(p.Packet, hb)
	if err != nil {
		return nil, nil, false, err
	}
	a, err := x.after.choices(p.Packet, ha)
	if err != nil {
		return nil, nil, false, err
	}
	nb, na := x.looks[0].narrowly(&p, b), x.looks[1].narrowly(&p, a)
	if whole = !nb && !na || !nb && len(b.endpoints) > 0 || !na && len(a.endpoints) > 0; whole {
		before, after, err = x.Whole(p)
		return before, after, true, err
	}
	if before, err = x.before.outcome(nil, p.Packet, hb, b, b.at(x.place(p, b, a))); err == nil {
		after, err = x.after.outcome(nil, p.Packet, ha, a, a.at(x.place(p, a, b)))
	}
	return before, after, false, err
}

// at is the endpoint at a place; none of none.
func (c choices) at(i int) []ir.Endpoint {
	if len(c.endpoints) == 0 {
		return nil
	}
	return c.endpoints[i : i+1]
}

// place is where to look at a side's endpoints: where they part from the other's,
// else at the client.
func (x *Pair) place(p Probe, c, other choices) int {
	if len(c.endpoints) == 0 || len(other.endpoints) == 0 {
		return len(c.endpoints) / 2
	}
	n := min(len(c.endpoints), len(other.endpoints))
	key := lists{&c.endpoints[0], &other.endpoints[0], len(c.endpoints), len(other.endpoints)}
	i, known := x.parts[key]
	if !known {
		for i < n && c.endpoints[i].AddrPort() == other.endpoints[i].AddrPort() {
			i++
		}
		x.parts[key] = i
	}
	if i < n {
		return i
	}
	return c.telling(p)
}
