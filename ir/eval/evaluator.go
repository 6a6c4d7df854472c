package eval

import (
	"net/netip"
	"slices"

	"svcc/ir"
)

// Evaluator gives outcomes from one Program or one Graph. It is safe for use
// by several goroutines.
type Evaluator struct {
	options ir.Options
	addrs   map[addrKey]*row
	ports   map[portKey]*row
	open    map[uint16]bool
	borne   map[netip.Addr]bool // see bears
	here    map[addrKey]bool    // see place
}

type addrKey struct {
	addr  netip.Addr
	port  uint16
	proto ir.Protocol
}

type portKey struct {
	port  uint16
	proto ir.Protocol
}

// row is one destination. The filter hooks see only destinations, so what they
// refuse is a fact of the row; what nat does depends on the packet.
type row struct {
	order    int  // of the rows' services: of two verdicts the first counts
	external bool // any kind but ClusterIP
	local    bool // of external policy Local
	guarded  bool // by source ranges: what is not delivered is dropped
	refuse   ir.Reason
	route    func(p Packet, h Host) (choices, error)
	delivers bool // to some endpoint, whoever asks
	// also are other frontends of the service port at the same destination, which
	// decide nothing but what the filter refuses.
	also []*row
}

// choices are the endpoints that nat may send a packet to; empty if it leaves
// the packet alone.
type choices struct {
	endpoints  []ir.Endpoint
	masquerade bool // whatever the endpoint
	sticky     int
}

func newEvaluator(o ir.Options) *Evaluator {
	return &Evaluator{options: o, addrs: map[addrKey]*row{}, ports: map[portKey]*row{}, open: map[uint16]bool{}, borne: map[netip.Addr]bool{}, here: map[addrKey]bool{}}
}

// add enters a row; the first of a destination that delivers counts, else the
// first of all (ir.ServicePort.Frontends).
func (e *Evaluator) add(f ir.Frontend, proto ir.Protocol, r *row) {
	r.external = f.Kind != ir.ClusterIP
	e.bear(f)
	if f.Kind == ir.NodePort {
		if k := (portKey{f.Port, proto}); e.ports[k] == nil {
			e.ports[k] = r
		}
		return
	}
	k := addrKey{f.Addr, f.Port, proto}
	first := e.addrs[k]
	switch {
	case first == nil:
		e.addrs[k] = r
	case !first.delivers && r.delivers:
		r.also, first.also = append(first.also, first), nil
		e.addrs[k] = r
	default:
		first.also = append(first.also, r)
	}
}

// Outcome is everything that may happen to a packet on a host.
func (e *Evaluator) Outcome(p Packet, h Host) (Outcome, error) {
	h = e.on(h)
	c, err := e.choices(p, h)
	if err != nil {
		return nil, err
	}
	return e.outcome(nil, p, h, c, c.endpoints)
}

func (e *Evaluator) choices(p Packet, h Host) (choices, error) {
	if !p.State.Begins() {
		return choices{}, nil
	}
	return e.nat(p, h)
}

// outcome follows the packet to those endpoints of the choices.
func (e *Evaluator) outcome(into Outcome, p Packet, h Host, c choices, to []ir.Endpoint) (Outcome, error) {
	if len(to) == 0 {
		return Normalize(append(into[:0], e.follow(p, h, Branch{Share: Whole, To: p.Dst, Mark: p.Mark}, false)))
	}
	share := OneIn(uint64(len(c.endpoints)))
	out := slices.Grow(into[:0], len(to))
	for _, ep := range to {
		b := Branch{Share: share, To: ep.AddrPort(), DNAT: true, Mark: p.Mark, Sticky: c.sticky}
		hairpin := e.hairpin(p, ep)
		if c.masquerade || hairpin && e.options.Facts().MarksHairpin {
			b.Mark |= e.options.MasqueradeMark
		}
		out = append(out, e.follow(p, h, b, hairpin))
	}
	return Normalize(out)
}

// on is the host with the addresses that it bears for services.
func (e *Evaluator) on(h Host) Host {
	if e.options.Facts().BindsAddresses {
		h.Bears = e.bears
	}
	return h
}

// follow takes a branch through the filter hooks and the rewriting of its source.
func (e *Evaluator) follow(p Packet, h Host, b Branch, hairpin bool) Branch {
	if e.options.Facts().BindsAddresses {
		return e.virtually(p, h, b, hairpin)
	}
	return e.filter(p, h, b)
}

// nat looks the destination up: addresses first, then node ports, which also
// meet what an address's row leaves alone.
func (e *Evaluator) nat(p Packet, h Host) (choices, error) {
	if r := e.addrs[addrKey{p.Dst.Addr(), p.Dst.Port(), p.Protocol}]; r != nil {
		c, err := r.route(p, h)
		if err != nil || len(c.endpoints) > 0 {
			return c.remember(p), err
		}
	}
	r := e.ports[portKey{p.Dst.Port(), p.Protocol}]
	if r == nil || !e.options.NodePortsAnswer(p.Dst.Addr(), h.Local) {
		return choices{}, nil
	}
	c, err := r.route(p, h)
	return c.remember(p), err
}

// remember narrows the choice to the endpoint that affinity holds.
func (c choices) remember(p Packet) choices {
	if c.sticky == 0 || !p.Remembered.IsValid() {
		return c
	}
	for i, ep := range c.endpoints {
		if ep.AddrPort() == p.Remembered {
			c.endpoints = c.endpoints[i : i+1]
			break
		}
	}
	return c
}
