package ipvs

import (
	"fmt"
	"net/netip"
	"slices"

	"svcc/emit"
	"svcc/ir"
)

// lowering builds the State of one Graph.
type lowering struct {
	g      *ir.Graph
	v      *ir.Virtual
	state  *State
	sets   map[string]map[string]bool // the entries of each, by its name in IPv4
	inside []*ir.Entry                // entries that nat has a way for; see views.go
	guards []guarded
	bears  map[netip.Addr]bool

	balancers map[balancer]bool
}

// guarded is a virtual server that only some sources may use: of the node's own
// packets, those from sources, or none if there are no sources.
type guarded struct {
	key     Key
	sources []netip.Prefix
}

// lower gives what the kernel is to hold for a Graph.
func lower(g *ir.Graph, o emit.Options) (*State, error) {
	v := g.Options.Virtual
	if v == nil {
		return nil, fmt.Errorf("internal error: the Graph is not of a node with virtual servers")
	}
	l := &lowering{
		g: g, v: v, state: &State{Family: g.Family},
		sets: map[string]map[string]bool{}, bears: map[netip.Addr]bool{}, balancers: balancers(g),
	}
	for _, e := range g.Deciding() {
		if err := l.entry(e); err != nil {
			return nil, fmt.Errorf("%s: %w", e.Service, err)
		}
	}
	for _, open := range g.OpenPorts {
		l.add(setHealthCheck, fmt.Sprint(open.Port))
	}
	for a := range l.bears {
		l.state.Addresses = append(l.state.Addresses, a)
		l.add(setAddresses, a.String())
	}
	slices.SortFunc(l.state.Addresses, netip.Addr.Compare)
	slices.SortFunc(l.state.Servers, func(a, b *Server) int { return a.Key.Compare(b.Key) })
	var err error
	l.state.Glue, err = l.glue(l.insiders(), o)
	l.state.Sets = l.finishSets()
	return l.state, err
}

// keys are the destinations of an entry: for a node port, one an address.
func (l *lowering) keys(e *ir.Entry) []Key {
	var out []Key
	for _, a := range l.g.Options.VirtualAddrs(e.Frontend) {
		out = append(out, Key{e.Service.Protocol, netip.AddrPortFrom(a, e.Port)})
	}
	return out
}

// entry lowers one row of the look-up.
func (l *lowering) entry(e *ir.Entry) error {
	s, err := outsider(e.Next)
	if err != nil {
		return err
	}
	for _, k := range l.keys(e) {
		l.member(e, k)
		if s.refuse == ir.NoLocalEndpoints {
			l.add(setNoLocal, k.Entry())
		} else {
			l.serve(e, k, s)
		}
	}
	if asksWho(e) {
		l.inside = append(l.inside, e)
	}
	return nil
}

// serve makes the virtual server of a destination.
func (l *lowering) serve(e *ir.Entry, k Key, s stranger) {
	v := &Server{Key: k, Scheduler: e.Scheduler, Timeout: e.AffinitySeconds}
	if v.Scheduler == "" {
		v.Scheduler = l.v.Scheduler
	}
	if v.Scheduler == "mh" {
		v.Flags = []string{"mh-port"} // as kube-proxy: connections of one client part
	}
	for _, ep := range s.endpoints {
		v.Destinations = append(v.Destinations, Destination{Address: ep.AddrPort(), Weight: weight(v.Scheduler)})
		l.hairpin(e.Service.Protocol, ep)
	}
	slices.SortFunc(v.Destinations, func(a, b Destination) int { return a.Address.Compare(b.Address) })
	l.state.Servers = append(l.state.Servers, v)
	switch {
	case len(s.sources) == 0:
	case asksWho(e):
		l.guards = append(l.guards, guarded{key: k})
	default:
		l.guards = append(l.guards, guarded{k, s.sources})
	}
}

// weight is a destination's, the same for all of a server. To ovf it is how many
// connections it has room for: with kube-proxy's 1, a server of three refuses the
// seventh (ipvsadm(8)).
func weight(scheduler string) int {
	if scheduler == "ovf" {
		return 65535
	}
	return 1
}

// hairpin notes an endpoint that may be its own client.
func (l *lowering) hairpin(p ir.Protocol, ep ir.Endpoint) {
	if ep.Local || !l.v.HairpinLocal {
		l.add(setLoopback, Key{p, ep.AddrPort()}.Entry()+","+ep.Addr.String())
	}
}

// member puts a destination into the sets of its kind.
func (l *lowering) member(e *ir.Entry, k Key) {
	if e.Kind != ir.NodePort && l.v.Bears(e.Addr) {
		l.bears[e.Addr] = true
	}
	local := e.Policy == ir.Local
	switch e.Kind {
	case ir.ClusterIP:
		l.add(setClusterIP, k.Entry())
	case ir.ExternalIP:
		l.add(choose(local, setExternalLocal, setExternal), k.Entry())
	case ir.LoadBalancer:
		l.add(setBalancer, k.Entry())
		if local {
			l.add(setBalancerLocal, k.Entry())
		}
		l.memberOfGuard(e, k)
	case ir.NodePort:
		for _, set := range portSets(k.Protocol, local) {
			if k.Protocol == ir.SCTP {
				l.add(set, k.Entry())
			} else {
				l.add(set, fmt.Sprint(e.Port))
			}
		}
	}
}

// memberOfGuard puts a guarded destination and its sources into their sets.
func (l *lowering) memberOfGuard(e *ir.Entry, k Key) {
	g, ok := e.Next.(*ir.Guard)
	if !ok || len(g.If.Sources) == 0 {
		return
	}
	l.add(setBalancerGuard, k.Entry())
	for _, p := range g.If.Sources {
		switch {
		case p.IsSingleIP() && l.balancers[balancer{e.Service, p.Addr()}]:
			l.add(setBalancerNode, k.Entry()+","+p.Addr().String())
		case p.IsSingleIP():
			l.add(setBalancerRanges, k.Entry()+","+p.Addr().String())
		default:
			l.add(setBalancerRanges, k.Entry()+","+p.String())
		}
	}
}

// balancers are the load-balancer addresses of each service port: the node's own
// packets to one come from it.
func balancers(g *ir.Graph) map[balancer]bool {
	out := map[balancer]bool{}
	for _, e := range g.Entries {
		if e.Kind == ir.LoadBalancer {
			out[balancer{e.Service, e.Addr}] = true
		}
	}
	return out
}

type balancer struct {
	service ir.PortName
	addr    netip.Addr
}

// portSets are the sets of a node port.
func portSets(p ir.Protocol, local bool) []string {
	sets := map[ir.Protocol][]string{
		ir.TCP: {setPortTCP, setPortLocalTCP}, ir.UDP: {setPortUDP, setPortLocalUDP}, ir.SCTP: {setPortSCTP, setPortLocalSCTP},
	}[p]
	if !local {
		return sets[:1]
	}
	return sets
}

func choose(yes bool, a, b string) string {
	if yes {
		return a
	}
	return b
}

func (l *lowering) add(set, entry string) {
	if l.sets[set] == nil {
		l.sets[set] = map[string]bool{}
	}
	l.sets[set][entry] = true
}

// smallestSet is the size that kube-proxy gives every set.
const smallestSet = 65536

// finishSets gives every set, empty ones as well: rules refer to them. A set has
// room for twice what it holds, so that it need not grow with every Service.
func (l *lowering) finishSets() []*Set {
	var out []*Set
	for _, t := range setTypes {
		s := &Set{Name: SetName(l.g.Family, t.name), Type: t.kind}
		for e := range l.sets[t.name] {
			s.Entries = append(s.Entries, e)
		}
		slices.Sort(s.Entries)
		if t.kind != TypePort {
			s.HashSize, s.MaxElem = 1024, smallestSet
			for s.MaxElem < 2*len(s.Entries) {
				s.HashSize, s.MaxElem = s.HashSize*2, s.MaxElem*2
			}
		}
		out = append(out, s)
	}
	return out
}
