package ipvs

import (
	"iter"
	"net/netip"

	"svcc/emit/walk"
	"svcc/ir"
	"svcc/ir/eval"
)

// everywhere is where a packet to a destination may be met, whoever sends it.
const everywhere = eval.Prerouting | eval.Output

// boxes are the packets that entries of sets, borne addresses and virtual servers
// are for, whatever rules ask.
func (s *State) boxes(sets map[string]walk.Set) iter.Seq[*eval.Box] {
	return func(yield func(*eval.Box) bool) {
		for _, v := range s.Servers {
			if !s.destination(v.Key, "virtual server "+v.Key.String(), yield) {
				return
			}
		}
		for _, a := range s.Addresses {
			b := eval.Box{Hooks: everywhere, Flows: eval.AllFlows, Dst: bitsOf(a), Bound: true, Rule: "address " + a.String()}
			if !yield(&b) {
				return
			}
		}
		for _, x := range s.Sets {
			for e := range sets[x.Name].Entries {
				if !s.entry(x, e, yield) {
					return
				}
			}
		}
	}
}

// destination gives the boxes of a destination: as it is, and where the node has
// the address, without which nothing looks at it.
func (s *State) destination(k Key, rule string, yield func(*eval.Box) bool) bool {
	n := k.Address.Port()
	b := eval.Box{
		Hooks: everywhere, Flows: eval.FlowNew, Protocol: k.Protocol, Dst: bitsOf(k.Address.Addr()),
		DstPort: eval.Ports{First: n, Last: n}, Rule: rule,
	}
	own := b
	own.Own = true
	return yield(&b) && yield(&own)
}

// entry gives the boxes of a set's entry. What a third part asks is where the
// packet comes from; where that is the destination itself, it is asked of an
// endpoint that a packet was sent to.
func (s *State) entry(x *Set, e walk.Entry, yield func(*eval.Box) bool) bool {
	rule := "set " + x.Name
	switch x.Type {
	case TypePort:
		p, ok := x.protocol(s.Family)
		if !ok {
			return true
		}
		b := eval.Box{
			Hooks: everywhere, Flows: eval.FlowNew, Protocol: p, DstLocal: eval.Yes,
			DstPort: eval.Ports{First: e.Port, Last: e.Port}, Rule: rule,
		}
		if x.Name == SetName(s.Family, setHealthCheck) {
			b.Hooks = eval.Input
		}
		return yield(&b)
	case TypeIP:
		b := eval.Box{Hooks: everywhere, Flows: eval.AllFlows, Dst: bitsOf(e.Addr), Own: true, Bound: true, Rule: rule}
		return yield(&b)
	case TypeIPPort:
		return s.destination(Key{e.Protocol, netip.AddrPortFrom(e.Addr, e.Port)}, rule, yield)
	}
	b := eval.Box{
		Hooks: everywhere, Flows: eval.FlowNew, Protocol: e.Protocol, Dst: bitsOf(e.Addr), Src: eval.BitsOf(e.Third),
		DstPort: eval.Ports{First: e.Port, Last: e.Port}, Rule: rule,
	}
	if x.Name == SetName(s.Family, setLoopback) {
		b.Hooks, b.Flows = eval.Postrouting, eval.FlowRewritten
	}
	return yield(&b)
}

func bitsOf(a netip.Addr) eval.Bits { return eval.BitsOf(netip.PrefixFrom(a, a.BitLen())) }

// protocol is that of a set of ports; rules ask such a set for one alone.
func (s *Set) protocol(f ir.Family) (p ir.Protocol, ok bool) {
	switch s.Name {
	case SetName(f, setPortTCP), SetName(f, setPortLocalTCP), SetName(f, setHealthCheck):
		return ir.TCP, true
	case SetName(f, setPortUDP), SetName(f, setPortLocalUDP):
		return ir.UDP, true
	}
	return 0, false
}
