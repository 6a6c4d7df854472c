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
	before, after eval.Outcome
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
	packets int
	seen    map[packetKey]bool
	kinds   map[change]map[packetKey]observed
}

// outcomes tells what becomes of packets: a Program, or rules.
type outcomes interface {
	Outcome(p eval.Packet, h eval.Host) (eval.Outcome, error)
}

// flows sends the probes of all pairs, of the old side and of the new, through
// both Programs. Keys are the pairs' places, and wholeNode.
func (c *comparison) flows(everything bool) (map[int]*folded, error) {
	if len(c.pairs) == 0 && !everything {
		return nil, nil
	}
	s := sender{comparison: c, before: eval.NewProgram(c.before), after: eval.NewProgram(c.after), everything: everything, out: map[int]*folded{}}
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
	before, after outcomes
	everything    bool // also what aims at no service
	out           map[int]*folded
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
		before, err := s.before.Outcome(probe.Packet, probe.Host)
		if err != nil {
			return fmt.Errorf("%s: %w", probe, err)
		}
		after, err := s.after.Outcome(probe.Packet, probe.Host)
		if err != nil {
			return fmt.Errorf("%s: %w", probe, err)
		}
		if s.differ(probe.Packet, before, after) {
			s.keep(place[probe.Service], probe, who, before, after)
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
func (s *sender) keep(i int, probe eval.Probe, who clients, before, after eval.Outcome) {
	f := s.out[i]
	if f == nil {
		f = &folded{seen: map[packetKey]bool{}, kinds: map[change]map[packetKey]observed{}}
		s.out[i] = f
	}
	o := observed{to: destination(probe.Packet), before: before, after: after}
	if i != wholeNode {
		o.to = s.pairs[i].destination(probe.Packet)
	}
	o.from, o.plain = who.name(probe)
	k := packetKey{probe.Packet, probe.Host.Addrs[0], len(probe.Host.Addrs)}
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
func (p pair) destination(packet eval.Packet) string {
	var kinds []ir.FrontendKind
	for _, s := range []*ir.ServicePort{p.old, p.new} {
		if s == nil || s.Protocol != packet.Protocol {
			continue
		}
		i := slices.IndexFunc(s.Frontends, func(f ir.Frontend) bool {
			return f.Port == packet.Dst.Port() && (f.Addr == packet.Dst.Addr() || f.Kind == ir.NodePort)
		})
		if i >= 0 {
			kinds = append(kinds, s.Frontends[i].Kind)
		}
	}
	slices.Sort(kinds)
	var names []string
	for _, k := range slices.Compact(kinds) {
		names = append(names, k.String())
	}
	return strings.TrimSpace(strings.Join(names, "/") + " " + destination(packet))
}

func destination(p eval.Packet) string { return p.Dst.String() + "/" + p.Protocol.String() }

// flowKey is what packets of one Flow have in common.
type flowKey struct {
	plain             bool
	to, before, after string
}

// fold makes flows of packets: those of pods, the node and strangers first,
// then others if their change is of a kind that none of those shows.
func (f *folded) fold() []Flow {
	byKey := map[flowKey]*Flow{}
	for kind, packets := range f.kinds {
		shown := kind
		if shown.plain = true; !kind.plain && len(f.kinds[shown]) > 0 {
			continue
		}
		for _, o := range first(packets) {
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
	return out
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
