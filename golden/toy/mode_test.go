package toy

import (
	"bytes"
	"encoding/gob"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strings"

	"svcc/emit"
	"svcc/emit/mode"
	"svcc/ir"
	"svcc/ir/eval"
)

// row is the mode: all that the rest of svcc is told of it.
var row = &mode.Mode{Name: "toy", Facts: &ir.RuleFacts, Backend: backend{}, Dumped: func([]emit.Section) bool { return false }}

func init() {
	mode.Table = append(mode.Table, row)
	for _, s := range []ir.Step{&ir.Guard{}, &ir.Masquerade{}, &ir.Balance{}, &ir.Deliver{}, &ir.Refuse{}} {
		gob.Register(s)
	}
}

// tool loads the toy's text. No row of tools has it: it goes by its own name.
const tool = "toy"

// backend prints a Graph, for people and for itself.
type backend struct{}

func (backend) Emit(g *ir.Graph, _ emit.Options) ([]emit.Section, error) {
	text, err := printed(g)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(flatten(g)); err != nil {
		return nil, err
	}
	for data := range slices.Chunk(b.Bytes(), 400) {
		text += "data " + hex.EncodeToString(data) + "\n"
	}
	return []emit.Section{{Tool: tool, Family: g.Family, Text: []byte(text)}}, nil
}

// printed is the Graph's text, each line marked as one of it.
func printed(g *ir.Graph) (string, error) {
	var b bytes.Buffer
	if err := g.Print(&b); err != nil {
		return "", err
	}
	var out strings.Builder
	for line := range strings.Lines(b.String()) {
		out.WriteString("graph " + line)
	}
	return out.String(), nil
}

// flat is a Graph whose steps are numbered, so that those which several ways share
// are shared when it is read back.
type flat struct {
	Graph ir.Graph
	Steps []ir.Step
	Next  [][2]int // of each step: a guard's Then and Else, a masquerade's Next
	First []int    // of each entry
}

func flatten(g *ir.Graph) *flat {
	x := &flat{Graph: *g}
	at := map[ir.Step]int{}
	for _, e := range g.Entries {
		for s := range ir.Steps(e.Next) {
			if _, again := at[s]; !again {
				at[s] = len(x.Steps)
				x.Steps = append(x.Steps, s)
			}
		}
	}
	for i, s := range x.Steps {
		var next [2]int
		switch s := s.(type) {
		case *ir.Guard:
			next = [2]int{at[s.Then], at[s.Else]}
			x.Steps[i] = &ir.Guard{Label: s.Label, If: s.If}
		case *ir.Masquerade:
			next[0] = at[s.Next]
			x.Steps[i] = &ir.Masquerade{Label: s.Label, UnlessPod: s.UnlessPod}
		}
		x.Next = append(x.Next, next)
	}
	x.Graph.Entries = nil
	for _, e := range g.Entries {
		x.First = append(x.First, at[e.Next])
		alone := *e
		alone.Next = nil
		x.Graph.Entries = append(x.Graph.Entries, &alone)
	}
	return x
}

// graph undoes flatten.
func (x *flat) graph() *ir.Graph {
	for i, s := range x.Steps {
		switch s := s.(type) {
		case *ir.Guard:
			s.Then, s.Else = x.Steps[x.Next[i][0]], x.Steps[x.Next[i][1]]
		case *ir.Masquerade:
			s.Next = x.Steps[x.Next[i][0]]
		}
	}
	for i, e := range x.Graph.Entries {
		e.Next = x.Steps[x.First[i]]
	}
	return &x.Graph
}

// Parse takes data whose Graph prints as the text beside it, and nothing else.
func (backend) Parse(f ir.Family, sections []emit.Section, _ bool) (emit.Walker, error) {
	if len(sections) != 1 || sections[0].Tool != tool {
		return nil, errors.New("not the toy's section")
	}
	var text string
	var data []byte
	for line := range strings.Lines(string(sections[0].Text)) {
		d, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "data ")
		if !ok {
			text += line
			continue
		}
		b, err := hex.DecodeString(d)
		if err != nil {
			return nil, err
		}
		data = append(data, b...)
	}
	var x flat
	if err := gob.NewDecoder(bytes.NewReader(data)).Decode(&x); err != nil {
		return nil, err
	}
	g := x.graph()
	switch want, err := printed(g); {
	case err != nil:
		return nil, err
	case want != text, g.Family != f:
		return nil, errors.New("the text is not that of the data")
	}
	return walker{g, eval.NewGraph(g)}, nil
}

// walker has the Graph evaluated.
type walker struct {
	graph *ir.Graph
	eval  *eval.Evaluator
}

func (w walker) Walk(p eval.Packet, h eval.Host) (eval.Outcome, error) { return w.eval.Outcome(p, h) }

func (w walker) WalkTo(_ eval.Outcome, p eval.Packet, h eval.Host, to netip.AddrPort) (eval.Outcome, error) {
	all, err := w.Walk(p, h)
	if err != nil || !to.IsValid() {
		return all, err
	}
	return slices.DeleteFunc(all, func(b eval.Branch) bool { return b.DNAT && b.To != to }), nil
}

func (w walker) Trace(p eval.Packet, h eval.Host) (eval.Outcome, []emit.Hop, error) {
	return w.TraceTo(p, h, netip.AddrPort{})
}

// TraceTo tells of the entry by which the packet's destination is looked up.
func (w walker) TraceTo(p eval.Packet, h eval.Host, to netip.AddrPort) (eval.Outcome, []emit.Hop, error) {
	out, err := w.WalkTo(nil, p, h, to)
	if err != nil {
		return nil, nil, err
	}
	var hops []emit.Hop
	for _, e := range w.graph.Deciding() {
		if e.Service.Protocol == p.Protocol && e.Port == p.Dst.Port() && (e.Addr == p.Dst.Addr() || !e.Addr.IsValid()) {
			hops = append(hops, emit.Hop{Hook: "LOOKUP", Table: tool, Rule: fmt.Sprint("graph ", e.Kind, " ", p.Dst), Share: eval.Whole, Note: e.Service.String()})
		}
	}
	return out, hops, nil
}

func (w walker) Met(eval.Packet, eval.Host) (float64, error) { return 1, nil }
func (w walker) Own() emit.Walker                            { return w }
func (w walker) Foreign() []string                           { return nil }

// Boxes are the entries' destinations.
func (w walker) Boxes(known func(*eval.Box) bool) iter.Seq[*eval.Box] {
	return func(yield func(*eval.Box) bool) {
		for _, e := range w.graph.Entries {
			b := &eval.Box{Hooks: eval.Prerouting | eval.Output, Protocol: e.Service.Protocol, DstPort: eval.Ports{First: e.Port, Last: e.Port}, Service: e.Service.String(), Rule: "graph " + e.Service.String()}
			if e.Addr.IsValid() {
				b.Dst = eval.BitsOf(netip.PrefixFrom(e.Addr, e.Addr.BitLen()))
			} else {
				b.DstLocal = eval.Yes
			}
			if !known(b) && !yield(b) {
				return
			}
		}
	}
}
