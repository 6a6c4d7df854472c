package ipvs

import (
	"cmp"
	"slices"
	"strconv"

	"svcc/apply"
	spec "svcc/emit/ipvs"
	"svcc/ir"
)

// The names of what is no table of iptables, where a change's table is told.
const (
	tableSets      = "ipset"
	tableServers   = "ipvs"
	tableAddresses = "address"
)

// Rules implements apply.Plan. An entry of a set, an address, a virtual server
// or a destination is what a rule is in iptables: its table is named by the
// constants above, its chain by the set, the link or the virtual server.
func (p *plan) Rules() []apply.Change {
	l := &lister{owners: ownersOf(p.aim.programs)}
	for _, name := range p.route.have.Temporary {
		f := ir.IPv4
		l.add(f, tableSets, name, "destroy "+name, false, "")
	}
	for _, e := range p.route.edits {
		l.set(e)
	}
	for _, o := range slices.Concat(p.route.come, p.route.goes) {
		l.op(p.route, o)
	}
	out := append(l.out, p.glue.Rules()...)
	slices.SortStableFunc(out, func(a, b apply.Change) int {
		return cmp.Or(cmp.Compare(a.Family, b.Family), cmp.Compare(a.Table, b.Table), cmp.Compare(a.Chain, b.Chain))
	})
	return out
}

type lister struct {
	owners map[string]string
	out    []apply.Change
}

func (l *lister) add(f ir.Family, table, chain, rule string, add bool, owner string) {
	l.out = append(l.out, apply.Change{
		Family: f.String(), Table: table, Chain: chain, Add: add, Rule: rule, Service: l.owners[owner],
	})
}

func (l *lister) set(e *setEdit) {
	have, want := &spec.Set{}, &spec.Set{}
	if e.have != nil {
		have = e.have
	}
	if e.want != nil {
		want = e.want
	}
	remade := !e.busy && (e.have == nil || e.want == nil || !sameShape(have, want))
	if e.have != nil && remade {
		l.add(e.family, tableSets, have.Name, have.Create(e.family), false, "")
	}
	if e.want != nil && remade {
		l.add(e.family, tableSets, want.Name, want.Create(e.family), true, "")
	}
	for _, x := range more(have, want) {
		l.add(e.family, tableSets, have.Name, have.Name+" "+x, false, ownerOf(have, x))
	}
	for _, x := range more(want, have) {
		l.add(e.family, tableSets, want.Name, want.Name+" "+x, true, ownerOf(want, x))
	}
}

func (l *lister) op(r *route, o Op) {
	switch o.Verb {
	case AddLink, DelLink:
		l.add(ir.IPv4, tableAddresses, spec.Link, "link "+spec.Link, o.Verb == AddLink, "")
	case AddAddress, DelAddress:
		l.add(family(o.Address), tableAddresses, spec.Link, spec.Link+" "+o.address(), o.Verb == AddAddress, o.Address.String())
	case SetTimeouts:
		l.add(ir.IPv4, tableServers, "timeouts", o.String(), true, "")
	default:
		l.server(r, o)
	}
}

// server lists what is changed in place as what goes and what comes.
func (l *lister) server(r *route, o Op) {
	f := family(o.Server.Address.Addr())
	owner := o.Server.Key.Entry()
	if l.owners[owner] == "" {
		owner = o.Server.Key.PortEntry()
	}
	add := func(text string, come bool) { l.add(f, tableServers, o.Server.Key.String(), text, come, owner) }
	was := r.have.Families[slices.Index(ir.Families, f)].server(o.Server.Key)
	switch o.Verb {
	case SetServer:
		add(was.text(), false)
		add(o.Server.text(), true)
	case SetDestination:
		add(was.destination(was.Destinations[indexOf(was.Destinations, o.Destination.Address)]), false)
		add(o.Server.destination(o.Destination), true)
	case AddServer, DelServer:
		add(o.Server.text(), o.Verb == AddServer)
	case AddDestination, DelDestination:
		add(o.Server.destination(o.Destination), o.Verb == AddDestination)
	}
}

// ownerOf is under what owners has the service port of an entry.
func ownerOf(set *spec.Set, entry string) string {
	if protocol, ok := set.NodePorts(); ok {
		return protocol.String() + ":" + entry
	}
	return spec.EntryKey(entry)
}

// ownersOf names service ports by the keys of their frontends and endpoints as
// sets spell them, by node ports, and by addresses.
func ownersOf(programs []*ir.Program) map[string]string {
	out := map[string]string{}
	for _, p := range programs {
		for _, s := range p.Services {
			port := func(n uint16) string { return s.Protocol.String() + ":" + strconv.Itoa(int(n)) }
			for _, e := range s.Reachable() {
				out[e.Addr.String()+","+port(e.Port)] = s.Display()
			}
			for _, f := range s.Frontends {
				if f.Kind == ir.NodePort {
					out[port(f.Port)] = s.Display()
					continue
				}
				out[f.Addr.String()+","+port(f.Port)] = s.Display()
				out[f.Addr.String()] = s.Display()
			}
		}
	}
	return out
}
