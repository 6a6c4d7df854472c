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
	i := c.telling(p.Packet.Src.Addr())
	out, err := e.outcome(into, p.Packet, h, c, c.endpoints[i:i+1])
	return out, c.endpoints[i].AddrPort(), err
}

// telling is the place of the endpoint at which a client is looked at. The
// endpoints of a Program are in order of their addresses.
func (c choices) telling(client netip.Addr) int {
	i, found := slices.BinarySearchFunc(c.endpoints, client, func(ep ir.Endpoint, a netip.Addr) int { return ep.Addr.Compare(a) })
	if found {
		return i
	}
	return len(c.endpoints) / 2
}
