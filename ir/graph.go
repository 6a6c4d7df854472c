package ir

import (
	"iter"
	"net/netip"
	"slices"
)

// Graph is how packets are decided on one node in one family, for any
// dataplane. A packet to an Entry's destination takes the way that starts at
// the Entry's node. If that way chooses no endpoint, the packet still meets
// the node-port entries, as in kube-proxy, and only what none of them
// delivers meets the Refuse verdict at which its way ended.
type Graph struct {
	Family  Family
	Node    Node
	Options Options
	// Entries are the look-up table, in the Program's order. A destination occurs
	// again only in the same service port; see Deciding.
	Entries []*Entry
	// OpenPorts are TCP ports that the filter lets in, whatever the address:
	// health-check node ports, in the Program's order.
	OpenPorts []OpenPort
	Known     int // see Program.Known
	// Masquerades hold for connections by what their destination was, beside
	// the Masquerade steps on their way.
	Masquerades []MasqueradeTo
}

// Entry is one row of the look-up: destination, protocol, port.
type Entry struct {
	Frontend
	Service PortName
	Next    Step
	Policy  Policy // that chose the way
	// Scheduler and AffinitySeconds are the service port's, which a virtual server
	// has although its way may lead to no endpoint.
	Scheduler       string
	AffinitySeconds int
}

// Deciding are the entries without those that another of the same destination
// goes before: the first that leads to an endpoint decides, else the first of all
// (see ServicePort.Frontends). The filter alone looks at the rest: it refuses by
// the kind of each.
func (g *Graph) Deciding() []*Entry {
	place := make(map[entryKey]int, len(g.Entries))
	out := make([]*Entry, 0, len(g.Entries))
	for _, e := range g.Entries {
		k := e.key()
		at, again := place[k]
		switch {
		case !again:
			place[k] = len(out)
			out = append(out, e)
		case !Delivers(out[at].Next) && Delivers(e.Next):
			out[at] = e
		}
	}
	return out
}

type entryKey struct {
	at    netip.AddrPort
	proto Protocol
}

func (e *Entry) key() entryKey {
	return entryKey{netip.AddrPortFrom(e.Addr, e.Port), e.Service.Protocol}
}

// Delivers says whether a way can lead to an endpoint.
func Delivers(s Step) bool {
	for s := range Steps(s) {
		switch s.(type) {
		case *Balance, *Deliver:
			return true
		}
	}
	return false
}

// Refusal is the reason for which a way can end without an endpoint, other than that
// the source is not allowed; 0 if it cannot.
func Refusal(s Step) Reason {
	for s := range Steps(s) {
		if r, ok := s.(*Refuse); ok && r.Reason != SourceRefused {
			return r.Reason
		}
	}
	return 0
}

// OpenPort is a port that the filter accepts.
type OpenPort struct {
	Port    uint16
	Service PortName
}

// MasqueradeTo masquerades each connection to a destination in Prefix that an
// entry delivered, but for those of pods if UnlessPod, and for ports from
// ExceptLow to ExceptHigh (0 for none).
type MasqueradeTo struct {
	Prefix                netip.Prefix
	UnlessPod             bool
	ExceptLow, ExceptHigh uint16
}

// Step is a node of the graph: *Guard, *Masquerade, *Balance, *Deliver or
// *Refuse.
type Step interface{ step() }

// Steps are the steps of the ways that begin at some, each once, when a way first
// comes to it: a guard before its Then, and all of that before its Else. No way may
// lead back to itself (see Graph.Check).
func Steps(from ...Step) iter.Seq[Step] {
	return func(yield func(Step) bool) {
		waiting := make([]Step, 0, 8) // the next one last
		for _, s := range slices.Backward(from) {
			waiting = append(waiting, s)
		}
		var seen stepSet
		for len(waiting) > 0 {
			s := waiting[len(waiting)-1]
			waiting = waiting[:len(waiting)-1]
			if !seen.add(s) {
				continue
			}
			if !yield(s) {
				return
			}
			switch s := s.(type) {
			case *Guard:
				waiting = append(waiting, s.Else, s.Then)
			case *Masquerade:
				waiting = append(waiting, s.Next)
			}
		}
	}
}

// stepSet is a set of steps. One way has few: a map for each would cost more than
// all else that is done with it.
type stepSet struct {
	few  [8]Step
	n    int // of few
	more map[Step]bool
}

// add says whether a step is new.
func (x *stepSet) add(s Step) bool {
	switch {
	case slices.Contains(x.few[:x.n], s) || x.more[s]:
		return false
	case x.n < len(x.few):
		x.few[x.n] = s
		x.n++
		return true
	case x.more == nil:
		x.more = map[Step]bool{}
	}
	x.more[s] = true
	return true
}

// Label says which part of which service port a step stands for. Backends name
// chains by it; it has no meaning for a packet.
type Label struct {
	Service PortName
	Part    Part
}

// Part is the part of a service port that a step stands for.
type Part uint8

// The parts, in the order in which kube-proxy declares their chains.
const (
	PartNone         Part = iota
	PartExternal          // what external frontends lead to
	PartFirewall          // the source ranges' guard
	PartClusterShare      // the balance over Cluster endpoints
	PartLocalShare        // the balance over Local endpoints
)

// Condition is what a Guard asks; exactly one of its fields is set.
type Condition struct {
	FromPod  bool           // sent by a pod, as Options.Pods recognises it
	FromNode bool           // the source is an address of this node
	Sources  []netip.Prefix // the source is in one of these
}

// Guard goes to Then if the condition holds, else to Else. A guard by source
// stands in the filter as well, as a firewall: there it drops whatever still
// carries the destination, that is, whatever the way behind it delivers to no
// endpoint.
type Guard struct {
	Label Label
	If    Condition
	Then  Step
	Else  Step
}

// Masquerade marks the packet, so that its source is rewritten when it leaves,
// and goes on; with UnlessPod it leaves packets of pods unmarked.
type Masquerade struct {
	Label     Label
	UnlessPod bool
	Next      Step
}

// Balance sends the packet to one of its endpoints, each with an equal share;
// with affinity, a remembered client goes to the same endpoint again. A packet
// whose source is the chosen endpoint's address is masqueraded (hairpin).
type Balance struct {
	Label           Label
	Endpoints       []Endpoint // sorted, never empty
	AffinitySeconds int
}

// Deliver sends the packet to one endpoint: a Balance of one, without memory.
type Deliver struct {
	Label    Label
	Endpoint Endpoint
}

// Refuse ends the way without an endpoint.
type Refuse struct {
	Reason Reason
}

// Reason is why a packet is refused; it fixes the verdict and the hooks where
// it is given.
type Reason uint8

// The reasons.
const (
	NoEndpoints      Reason = iota + 1 // nothing usable anywhere: reject
	NoLocalEndpoints                   // some usable, none that the policy allows: drop
	SourceRefused                      // the source is in none of the ranges: drop
)

func (r Reason) String() string {
	return [...]string{"", "no endpoints", "no local endpoints", "source not allowed"}[r]
}

func (*Guard) step()      {}
func (*Masquerade) step() {}
func (*Balance) step()    {}
func (*Deliver) step()    {}
func (*Refuse) step()     {}
