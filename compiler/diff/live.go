package diff

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"svcc/compiler/proof"
	"svcc/emit"
	"svcc/ir"
	"svcc/ir/eval"
)

// Rule is one rule or chain of a node that is to come or to go.
type Rule struct {
	Family, Table, Chain string
	Add                  bool
	Rule                 string // "" for the chain itself
	Service              string // "ns/name:port"; "" if it is not of one
}

// CompareLive tells what an apply of Programs would change on a node: rules are
// those that would come and go, live walks the node's rules of each family, nil
// where there are none. Its report is of the same form as Compare's; the reason
// of a service port is that rules of it differ. Rules of Services that a side left
// out are not compared. It fails if the node's rules cannot be followed.
func CompareLive(wanted []*ir.Program, live map[ir.Family]emit.Walker, rules []Rule, sides []Side) (*Report, error) {
	out := leftOut(sides)
	rules = slices.DeleteFunc(slices.Clone(rules), func(x Rule) bool {
		service, _, _ := strings.Cut(x.Service, ":")
		return out[service]
	})
	r := &Report{Changes: []Change{}, Rules: chainsOf(rules), Sides: sides}
	for _, f := range ir.Families {
		l := liveFamily{family: f, changes: map[string]*Change{}}
		for _, x := range rules {
			if x.Family == f.String() {
				l.rule(x)
			}
		}
		if p := programOf(wanted, f); p != nil {
			if err := l.packets(p, live[f]); err != nil {
				return nil, err
			}
			l.name(p)
		}
		r.Changes = append(r.Changes, l.sorted()...)
	}
	return r, nil
}

// liveFamily collects one family's changes by "ns/name:port".
type liveFamily struct {
	family  ir.Family
	changes map[string]*Change
}

func (l *liveFamily) of(service string) *Change {
	c := l.changes[service]
	if c == nil {
		c = &Change{Family: l.family.String(), Service: service, Kind: Changed, Reasons: []Reason{}, Flows: []Flow{}}
		l.changes[service] = c
	}
	return c
}

// rule counts a rule for its service.
func (l *liveFamily) rule(x Rule) {
	c := l.of(x.Service)
	k := Removed
	if x.Add {
		k = Added
	}
	i := slices.IndexFunc(c.Reasons, func(r Reason) bool { return r.Kind == k })
	if i < 0 {
		i = len(c.Reasons)
		c.Reasons = append(c.Reasons, Reason{What: "rules", Kind: k})
	}
	n, _ := strconv.Atoi(c.Reasons[i].Subject)
	c.Reasons[i].Subject = strconv.Itoa(n + 1)
}

// walked is a node's rules before, and a Program after.
type walked struct{ *proof.Sides }

// Look implements outcomes.
func (w walked) Look(p eval.Probe) (before, after eval.Outcome, whole bool, err error) {
	var d proof.Difference
	if err = w.Sides.Look(p, &d); err == nil {
		err = d.Err
	}
	return d.Got, d.Want, d.Whole, err
}

// Whole implements outcomes.
func (w walked) Whole(p eval.Probe) (before, after eval.Outcome, err error) {
	after, before, err = w.All(p)
	return before, after, err
}

// packets sends the Program's probes through the node's rules.
func (l *liveFamily) packets(p *ir.Program, live emit.Walker) error {
	bare := &ir.Program{Family: p.Family, Node: p.Node, Options: p.Options}
	c := comparison{before: bare, after: p, pairs: match(nil, p.Services)}
	s := newSender(&c, eval.NewPair(bare, p), true)
	if live != nil {
		s.of = walked{proof.NewSides(p, live, false)}
	}
	if err := s.send(p, newClients(p, p)); err != nil {
		return fmt.Errorf("the node's rules of %s: %w", p.Family, err)
	}
	for i, f := range s.out {
		name := ""
		if i != wholeNode {
			name = p.Services[i].PortName.String()
		}
		x := l.of(name)
		var err error
		if x.Flows, err = f.fold(); err != nil {
			return err
		}
		x.Packets = f.packets
	}
	return nil
}

// name gives changes that only rules tell of the names that packets have, where
// one service port has the name without a protocol.
func (l *liveFamily) name(p *ir.Program) {
	full := map[string][]string{}
	for _, s := range p.Services {
		full[s.Display()] = append(full[s.Display()], s.PortName.String())
	}
	for _, short := range slices.Sorted(maps.Keys(l.changes)) {
		names := full[short]
		if len(names) != 1 {
			continue
		}
		c := l.changes[short]
		delete(l.changes, short)
		x := l.of(names[0])
		x.Reasons = append(x.Reasons, c.Reasons...)
	}
}

func (l *liveFamily) sorted() []Change {
	var out []Change
	for _, name := range slices.Sorted(maps.Keys(l.changes)) {
		out = append(out, *l.changes[name])
	}
	return out
}

// chainsOf shows rules by chain, as CompareRules does, without line numbers.
func chainsOf(rules []Rule) []Chain {
	byChain := map[chainKey]*Chain{}
	for _, x := range rules {
		k := chainKey{x.Family, x.Table, x.Chain}
		c := byChain[k]
		if c == nil {
			c = &Chain{Family: x.Family, Table: x.Table, Chain: x.Chain, Kind: Changed, Diff: []string{"--- live/" + k.path(), "+++ new/" + k.path()}}
			byChain[k] = c
		}
		sign, kind := "-", Removed
		if x.Add {
			sign, kind = "+", Added
		}
		line := x.Rule
		if line == "" {
			c.Kind, line = kind, ":"+x.Chain+" -"
		}
		c.Diff = append(c.Diff, sign+line)
	}
	out := make([]Chain, 0, len(byChain))
	for _, k := range slices.SortedFunc(maps.Keys(byChain), chainKey.compare) {
		out = append(out, *byChain[k])
	}
	return out
}
