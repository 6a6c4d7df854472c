package diff

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"svcc/ir"
	"svcc/ir/eval"
)

// Flow is a kind of packet that fares differently.
type Flow struct {
	From   []string `json:"from"` // "pod", "node", "outside", or more exactly who
	To     string   `json:"to"`   // "cluster-ip 10.96.0.10:80/tcp"
	Before Fate     `json:"before"`
	After  Fate     `json:"after"`
}

// wholeNode is the index of packets that aim at no service.
const wholeNode = -1

// observed is one probe packet whose outcome differs.
type observed struct {
	from, to      string
	plain         bool // from is just "pod", "node" or "outside"
	probe         eval.Probe
	before, after eval.Outcome
	whole         bool // the outcomes have every endpoint
}

// packetKey tells packets apart; a node's addresses are its own and at most one
// that a probe gives it.
type packetKey struct {
	packet eval.Packet
	node   netip.Addr
	bears  int
}

// change is the kind of a packet's change.
type change struct {
	to, before, after string // destination, verdicts
	plain             bool
}

// folded are the packets of one service port that differ.
type folded struct {
	of      outcomes
	packets int
	seen    map[packetKey]bool
	kinds   map[change]map[packetKey]observed
}

// outcomes shows what becomes of packets on both sides: Look at all of it, or at
// enough of it to see whether it differs.
type outcomes interface {
	Look(p eval.Probe) (before, after eval.Outcome, whole bool, err error)
	Whole(p eval.Probe) (before, after eval.Outcome, err error)
}

// flows sends the probes of all pairs, of the old side and of the new, through
// both Programs. Keys are the pairs' places, and wholeNode.
func (c *comparison) flows(everything bool) (map[int]*folded, error) {
	if len(c.pairs) == 0 && !everything {
		return nil, nil
	}
	s := newSender(c, eval.NewPair(c.before, c.after), everything)
	old := s.side(c.before, func(p pair) *ir.ServicePort { return p.old })
	new := s.side(c.after, func(p pair) *ir.ServicePort { return p.new })
	err := s.send(old, newClients(old, new))
	if err == nil {
		err = s.send(new, newClients(new, old))
	}
	return s.out, err
}

// sender sends probes and keeps what differs.
type sender struct {
	*comparison
	of         outcomes
	everything bool // also what aims at no service
	out        map[int]*folded
	kinds      map[*ir.ServicePort]map[claim]ir.FrontendKind
}

func newSender(c *comparison, of outcomes, everything bool) *sender {
	return &sender{comparison: c, of: of, everything: everything, out: map[int]*folded{}, kinds: map[*ir.ServicePort]map[claim]ir.FrontendKind{}}
}

// side is the part of a Program that one side of the pairs is.
func (s *sender) side(p *ir.Program, of func(pair) *ir.ServicePort) *ir.Program {
	part := &ir.Program{Family: p.Family, Node: p.Node, Options: p.Options}
	for _, x := range s.pairs {
		if port := of(x); port != nil {
			part.Services = append(part.Services, port)
		}
	}
	return part
}

// send makes the probes for one side of the pairs. Those aimed at no service are
// of interest only if a choice for the whole node differs: else what differs for
// them does so for the service that causes it.
func (s *sender) send(part *ir.Program, who clients) error {
	place := map[string]int{"": wholeNode}
	for i, x := range s.pairs {
		for _, port := range []*ir.ServicePort{x.old, x.new} {
			if port != nil {
				place[port.PortName.String()] = i
			}
		}
	}
	for probe := range eval.Probes(part) {
		if probe.Service == "" && !s.everything {
			continue
		}
		o := observed{probe: probe}
		var err error
		if o.before, o.after, o.whole, err = s.of.Look(probe); err != nil {
			return fmt.Errorf("%s: %w", probe, err)
		}
		if s.differ(probe.Packet, o.before, o.after) {
			s.keep(place[probe.Service], who, o)
		}
	}
	return nil
}

// differ says whether a difference is one to tell. Between modes every packet meets
// other hooks: what counts there is where new ones end.
func (s *sender) differ(p eval.Packet, before, after eval.Outcome) bool {
	if before.Equal(after) || !modesDiffer(s.comparison.before, s.comparison.after) {
		return !before.Equal(after)
	}
	return p.State == eval.New && p.Mark == 0 && !sameFate(before, after)
}

// manyKept is how many packets of one kind are kept: each has an outcome as
// large as the number of endpoints. Those whose clients' names come first are,
// so that it does not matter in which order packets come.
const manyKept = 32

// keep notes a packet, once; that it is a plain one on either side counts.
func (s *sender) keep(i int, who clients, o observed) {
	f := s.out[i]
	if f == nil {
		f = &folded{of: s.of, seen: map[packetKey]bool{}, kinds: map[change]map[packetKey]observed{}}
		s.out[i] = f
	}
	o.to = destination(o.probe.Packet)
	if i != wholeNode {
		o.to = s.destination(s.pairs[i], o.probe.Packet)
	}
	o.from, o.plain = who.name(o.probe)
	k := packetKey{o.probe.Packet, o.probe.Host.Addrs[0], len(o.probe.Host.Addrs)}
	if !f.seen[k] {
		f.seen[k] = true
		f.packets++
	}
	f.add(k, o)
}

// add keeps a packet under its best name.
func (f *folded) add(k packetKey, o observed) {
	kind := change{o.to, verdict(o.before), verdict(o.after), o.plain}
	other := kind
	other.plain = !o.plain
	if _, known := f.kinds[other][k]; known {
		if !o.plain {
			return
		}
		delete(f.kinds[other], k)
	}
	m := f.kinds[kind]
	if m == nil {
		m = map[packetKey]observed{}
		f.kinds[kind] = m
	}
	if was, known := m[k]; !known || o.from < was.from {
		m[k] = o
	}
	if len(m) > 2*manyKept && !o.plain {
		f.kinds[kind] = first(m)
	}
}

// first keeps the packets whose clients' names come first.
func first(m map[packetKey]observed) map[packetKey]observed {
	keys := slices.SortedFunc(maps.Keys(m), func(a, b packetKey) int { return strings.Compare(m[a].from, m[b].from) })
	out := map[packetKey]observed{}
	for _, k := range keys[:min(len(keys), manyKept)] {
		out[k] = m[k]
	}
	return out
}

// clients name who sent a probe. A word is enough where both sides have the same
// in mind.
type clients struct {
	eval.Clients
	podIs, nodeIs, outsideIs string
	podAt                    string // where pods' packets come in
}

func newClients(of, other *ir.Program) clients {
	c, d := clients{Clients: eval.NewClients(of)}, eval.NewClients(other)
	c.podIs, c.nodeIs, c.outsideIs = "pod", "node", "outside"
	if c.PodIn != d.PodIn {
		c.podAt = " at " + c.PodIn
	}
	if c.Pod != d.Pod || c.PodIn != d.PodIn {
		c.podIs += " " + c.Pod.String() + " at " + c.PodIn
	}
	if c.Node != d.Node {
		c.nodeIs += " " + c.Node.String()
	}
	if c.Outside != d.Outside {
		c.outsideIs += " " + c.Outside.String()
	}
	return c
}

func (c clients) name(probe eval.Probe) (name string, plain bool) {
	p := probe.Packet
	src := p.Src.Addr()
	plain = true
	switch {
	case src == c.Node && p.In == "":
		name = c.nodeIs
	case src == c.Pod && p.In == c.PodIn:
		name = c.podIs
	case src == c.Outside && p.In == c.OutsideIn:
		name = c.outsideIs
	case p.In == "":
		name, plain = "node as "+src.String(), false
	case p.In == c.PodIn:
		name, plain = src.String()+" as a pod"+c.podAt, false
	case p.In == c.OutsideIn:
		name, plain = src.String()+" from outside", false
	default:
		name, plain = src.String()+" by interface "+p.In, false
	}
	more := oddities(probe, c.Host)
	return name + more, plain && more == ""
}

// oddities tells, in brackets, what a packet has that a new flow's first has not.
func oddities(probe eval.Probe, standard eval.Host) string {
	var list []string
	p := probe.Packet
	if p.State != eval.New {
		list = append(list, p.State.String())
	}
	if p.Mark != 0 {
		list = append(list, fmt.Sprintf("marked %#x", p.Mark))
	}
	if p.Remembered.IsValid() {
		list = append(list, "remembered at "+p.Remembered.String())
	}
	if !slices.Equal(probe.Host.Addrs, standard.Addrs) {
		list = append(list, "where the node bears the address")
	}
	if len(list) == 0 {
		return ""
	}
	return " (" + strings.Join(list, ", ") + ")"
}

// destination names where a packet goes, by the kind of the frontend that it
// meets; by both if that differs, in their order.
func (s *sender) destination(p pair, packet eval.Packet) string {
	var kinds []ir.FrontendKind
	for _, port := range []*ir.ServicePort{p.old, p.new} {
		if port == nil {
			continue
		}
		if k, found := s.kindAt(port, packet); found {
			kinds = append(kinds, k)
		}
	}
	slices.Sort(kinds)
	var names []string
	for _, k := range slices.Compact(kinds) {
		names = append(names, k.String())
	}
	return strings.TrimSpace(strings.Join(names, "/") + " " + destination(packet))
}

// kindAt is the kind of a service port's frontend that a packet meets.
func (s *sender) kindAt(port *ir.ServicePort, p eval.Packet) (ir.FrontendKind, bool) {
	if s.kinds[port] == nil {
		m := map[claim]ir.FrontendKind{}
		for _, f := range port.Frontends {
			at := claim{f.Addr, f.Port, port.Protocol}
			if f.Kind == ir.NodePort {
				at.addr = netip.Addr{}
			}
			if _, taken := m[at]; !taken {
				m[at] = f.Kind
			}
		}
		s.kinds[port] = m
	}
	k, found := s.kinds[port][claim{p.Dst.Addr(), p.Dst.Port(), p.Protocol}]
	if !found {
		k, found = s.kinds[port][claim{port: p.Dst.Port(), proto: p.Protocol}]
	}
	return k, found
}

func destination(p eval.Packet) string { return p.Dst.String() + "/" + p.Protocol.String() }

// flowKey is what packets of one Flow have in common.
type flowKey struct {
	plain             bool
	to, before, after string
}

// fold makes flows of packets: those of pods, the node and strangers first,
// then others if their change is of a kind that none of those shows.
func (f *folded) fold() ([]Flow, error) {
	byKey := map[flowKey]*Flow{}
	for kind, packets := range f.kinds {
		shown := kind
		if shown.plain = true; !kind.plain && len(f.kinds[shown]) > 0 {
			continue
		}
		for _, o := range first(packets) {
			if !o.whole {
				var err error
				if o.before, o.after, err = f.of.Whole(o.probe); err != nil {
					return nil, fmt.Errorf("%s: %w", o.probe, err)
				}
			}
			before, after := fates(o.before, o.after)
			k := flowKey{kind.plain, o.to, before.Text, after.Text}
			if byKey[k] == nil {
				byKey[k] = &Flow{To: o.to, Before: before, After: after}
			}
			byKey[k].From = append(byKey[k].From, o.from)
		}
	}
	keys := slices.Collect(maps.Keys(byKey))
	for _, flow := range byKey {
		slices.SortFunc(flow.From, compareClients)
		flow.From = slices.Compact(flow.From)
	}
	slices.SortFunc(keys, func(k, l flowKey) int {
		return cmp.Or(k.compare(l), slices.Compare(byKey[k].From, byKey[l].From), strings.Compare(k.before, l.before))
	})
	out := make([]Flow, len(keys))
	for i, k := range keys {
		out[i] = *byKey[k]
	}
	return out, nil
}

// compareClients puts pods first, then the node, then strangers, then others.
func compareClients(a, b string) int {
	rank := func(s string) int {
		who, _, _ := strings.Cut(s, " ")
		if i := slices.Index([]string{"pod", "node", "outside"}, who); i >= 0 {
			return i
		}
		return 3
	}
	if c := rank(a) - rank(b); c != 0 {
		return c
	}
	return strings.Compare(a, b)
}

// compare orders flows the same way whichever side is the old one.
func (k flowKey) compare(l flowKey) int {
	if k.plain != l.plain {
		if k.plain {
			return -1
		}
		return 1
	}
	return cmp.Or(strings.Compare(rankedTo(k.to), rankedTo(l.to)),
		strings.Compare(min(k.before, k.after), min(l.before, l.after)),
		strings.Compare(max(k.before, k.after), max(l.before, l.after)))
}

// rankedTo orders destinations as kube-proxy orders kinds; others come last.
func rankedTo(to string) string {
	kinds, _, _ := strings.Cut(to, " ")
	kind, _, _ := strings.Cut(kinds, "/")
	for k := ir.ClusterIP; k <= ir.NodePort; k++ {
		if k.String() == kind {
			return string(rune('0'+k)) + to
		}
	}
	return "9" + to
}
