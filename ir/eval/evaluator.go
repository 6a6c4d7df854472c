package eval

import (
	"net/netip"

	"svcc/ir"
)

// Evaluator gives outcomes from one Program or one Graph. It is safe for use
// by several goroutines.
type Evaluator struct {
	options ir.Options
	addrs   map[addrKey]*row
	ports   map[portKey]*row
	open    map[uint16]bool
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
	guarded  bool // by source ranges: what is not delivered is dropped
	refuse   ir.Reason
	route    func(p Packet, h Host) (choices, error)
}

// choices are the endpoints that nat may send a packet to; empty if it leaves
// the packet alone.
type choices struct {
	endpoints  []ir.Endpoint
	masquerade bool // whatever the endpoint
	sticky     int
}

func newEvaluator(o ir.Options) *Evaluator {
	return &Evaluator{options: o, addrs: map[addrKey]*row{}, ports: map[portKey]*row{}, open: map[uint16]bool{}}
}

// add enters a row; the first claim of a destination counts.
func (e *Evaluator) add(f ir.Frontend, proto ir.Protocol, r *row) {
	r.external = f.Kind != ir.ClusterIP
	if f.Kind == ir.NodePort {
		if k := (portKey{f.Port, proto}); e.ports[k] == nil {
			e.ports[k] = r
		}
		return
	}
	if k := (addrKey{f.Addr, f.Port, proto}); e.addrs[k] == nil {
		e.addrs[k] = r
	}
}

// Outcome is everything that may happen to a packet on a host.
func (e *Evaluator) Outcome(p Packet, h Host) (Outcome, error) {
	var c choices
	if p.State == New {
		var err error
		if c, err = e.nat(p, h); err != nil {
			return nil, err
		}
	}
	if len(c.endpoints) == 0 {
		return Normalize([]Branch{e.filter(p, h, Branch{Share: Whole, To: p.Dst, Mark: p.Mark})})
	}
	share := OneIn(uint64(len(c.endpoints)))
	out := make([]Branch, 0, len(c.endpoints))
	for _, ep := range c.endpoints {
		b := Branch{Share: share, To: ep.AddrPort(), DNAT: true, Mark: p.Mark, Sticky: c.sticky}
		if c.masquerade || ep.Addr == p.Src.Addr() {
			b.Mark |= e.options.MasqueradeMark
		}
		out = append(out, e.filter(p, h, b))
	}
	return Normalize(out)
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
