package ipvs

import (
	"net/netip"

	spec "svcc/emit/ipvs"
)

// owner says which virtual servers of a family are ours by a state: those whose
// address spec.Link bears; whose address, port and protocol are in a set of
// ours; and whose port is one of our node ports, at an address that the link
// does not bear. The kernel has no room for a mark of ours in a virtual server,
// and sets and addresses outlive a process as servers do. What they do not say,
// because somebody emptied or deleted them, rulesets do (known).
type owner struct {
	borne map[netip.Addr]bool
	keys  map[string]bool // as entries of hash:ip,port
	ports map[string]bool // "tcp:80"
}

func (f *familyState) owner() *owner {
	o := &owner{borne: map[netip.Addr]bool{}, keys: map[string]bool{}, ports: map[string]bool{}}
	for _, a := range f.Addresses {
		o.borne[a] = true
	}
	for _, set := range f.Sets {
		protocol, ports := set.NodePorts()
		switch {
		case ports:
			for _, e := range set.Entries {
				o.ports[protocol.String()+":"+e] = true
			}
		case set.Type == spec.TypeIPPort:
			for _, e := range set.Entries {
				o.keys[e] = true
			}
		}
	}
	return o
}

func (o *owner) owns(k spec.Key) bool {
	return o.borne[k.Address.Addr()] || o.keys[k.Entry()] || o.ports[k.PortEntry()]
}

// leaving is what goes when one state of a family replaces another. Entries of
// sets that prove it to be ours stay until it has gone.
type leaving struct {
	addresses map[string]bool // in the spelling of sets
	keys      map[string]bool // spec.Key.Entry
	ports     map[string]bool // spec.Key.PortEntry
}

func leave(have, want *familyState) *leaving {
	l := &leaving{addresses: map[string]bool{}, keys: map[string]bool{}, ports: map[string]bool{}}
	for _, a := range without(have.Addresses, want.Addresses, netip.Addr.Compare) {
		l.addresses[a.String()] = true
	}
	stays := map[spec.Key]bool{}
	for _, s := range want.Servers {
		stays[s.Key] = true
	}
	for _, s := range have.Servers {
		if !stays[s.Key] {
			l.keys[s.Key.Entry()] = true
			l.ports[s.Key.PortEntry()] = true
		}
	}
	return l
}

// needs says whether an entry has to stay for now.
func (l *leaving) needs(set *spec.Set, entry string) bool {
	if protocol, ok := set.NodePorts(); ok {
		return l.ports[protocol.String()+":"+entry]
	}
	if l.addresses[entry] {
		return true
	}
	return l.keys[spec.EntryKey(entry)]
}
