package ipvs

import (
	"net/netip"
	"slices"

	spec "svcc/emit/ipvs"
	"svcc/ir"
)

// route is what leads from one state to another.
type route struct {
	have, want *state
	edits      []*setEdit
	come, goes []Op // in their order
}

// lead finds the route. Both states are complete: there is nothing of ours but
// what have says.
func lead(have, want *state) *route {
	r := &route{have: have, want: want}
	r.timeouts()
	if want.Link && !have.Link {
		r.come = append(r.come, Op{Verb: AddLink})
	}
	var servers [2]serverOps
	for i, f := range ir.Families {
		h, n := &have.Families[i], &want.Families[i]
		r.edits = append(r.edits, editSets(f, h, n, leave(h, n))...)
		r.come = append(r.come, addressOps(AddAddress, without(n.Addresses, h.Addresses, netip.Addr.Compare))...)
		servers[i] = compareServers(h.Servers, n.Servers)
	}
	for i := range ir.Families {
		r.come = append(r.come, servers[i].come...)
	}
	for i := range ir.Families {
		r.goes = append(r.goes, servers[i].goes...)
	}
	for i := range ir.Families {
		r.goes = append(r.goes, addressOps(DelAddress, without(have.Families[i].Addresses, want.Families[i].Addresses, netip.Addr.Compare))...)
	}
	if have.Link && !want.Link {
		r.goes = append(r.goes, Op{Verb: DelLink})
	}
	return r
}

func (r *route) none() bool {
	return len(r.edits)+len(r.come)+len(r.goes)+len(r.have.Temporary) == 0
}

func (r *route) timeouts() {
	if to := r.want.Timeouts.over(r.have.Timeouts); to != r.have.Timeouts {
		r.come = append(r.come, Op{Verb: SetTimeouts, Timeouts: r.want.Timeouts})
	}
}

func addressOps(v Verb, list []netip.Addr) []Op {
	out := make([]Op, len(list))
	for i, a := range list {
		out[i] = Op{Verb: v, Address: a}
	}
	return out
}

// serverOps are the operations on servers and destinations.
type serverOps struct{ come, goes []Op }

// compareServers makes of servers others. Both lists are sorted.
func compareServers(have, want []*Server) serverOps {
	var o serverOps
	for _, w := range want {
		i, there := slices.BinarySearchFunc(have, w.Key, func(s *Server, k spec.Key) int { return s.Key.Compare(k) })
		h := &Server{}
		switch {
		case !there:
			o.come = append(o.come, Op{Verb: AddServer, Server: w.bare()})
		default:
			h = have[i]
			if !h.sameService(w) {
				o.come = append(o.come, Op{Verb: SetServer, Server: w.bare()})
			}
		}
		o.destinations(w.bare(), h.Destinations, w.Destinations)
	}
	for _, h := range have {
		_, stays := slices.BinarySearchFunc(want, h.Key, func(s *Server, k spec.Key) int { return s.Key.Compare(k) })
		if stays {
			continue
		}
		for _, d := range h.Destinations {
			o.goes = append(o.goes, Op{Verb: DelDestination, Server: h.bare(), Destination: d})
		}
		o.goes = append(o.goes, Op{Verb: DelServer, Server: h.bare()})
	}
	return o
}

// bare is a server without its destinations.
func (s *Server) bare() Server {
	out := *s
	out.Destinations = nil
	return out
}

// destinations compares those of one server. One that is not wanted drains if it
// serves connections that would break.
func (o *serverOps) destinations(s Server, have, want []Destination) {
	for _, w := range want {
		i := indexOf(have, w.Address)
		switch {
		case i < 0:
			o.come = append(o.come, Op{Verb: AddDestination, Server: s, Destination: w})
		case !have[i].same(w):
			o.come = append(o.come, Op{Verb: SetDestination, Server: s, Destination: w})
		}
	}
	for _, h := range have {
		switch {
		case indexOf(want, h.Address) >= 0 || draining(s.Key, h):
		case s.Protocol == ir.TCP:
			h.Weight = 0
			o.goes = append(o.goes, Op{Verb: SetDestination, Server: s, Destination: h})
		default:
			o.goes = append(o.goes, Op{Verb: DelDestination, Server: s, Destination: h})
		}
	}
}

// draining says that a destination is on its way out, unless it is wanted.
func draining(k spec.Key, d Destination) bool { return k.Protocol == ir.TCP && d.Weight == 0 }

// indexOf is for sorted lists.
func indexOf(list []Destination, a netip.AddrPort) int {
	i, ok := slices.BinarySearchFunc(list, a, func(d Destination, a netip.AddrPort) int { return d.Address.Compare(a) })
	if !ok {
		return -1
	}
	return i
}
