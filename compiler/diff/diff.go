package diff

import (
	"slices"

	"svcc/ir"
)

// Report is what differs between an old and a new state of one node.
type Report struct {
	Changes []Change `json:"changes"` // by family, the node first, then service ports in order
	// Rules are the chains that differ; nil unless they were compared.
	Rules []Chain `json:"rules,omitempty"`
	// Sides are those that were compiled from manifests.
	Sides []Side `json:"sides,omitempty"`
}

// Same says that nothing differs, of what could be compared.
func (r *Report) Same() bool { return len(r.Changes) == 0 && len(r.Rules) == 0 }

// Kind is how something changes.
type Kind string

// The kinds.
const (
	Added   Kind = "added"
	Removed Kind = "removed"
	Changed Kind = "changed"
)

// Change is what happens to one service port, or to the node as a whole.
type Change struct {
	Family  string   `json:"family"`
	Service string   `json:"service"` // "ns/name:port/proto", by its new name; "" for the node
	Kind    Kind     `json:"kind"`
	Reasons []Reason `json:"reasons"`
	Flows   []Flow   `json:"flows"`
	// Packets counts the probe packets whose outcome differs; flows show those
	// that say something of their own.
	Packets int `json:"packets"`
}

// Reason is one difference of the promise itself.
type Reason struct {
	What    string `json:"what"` // "endpoint", "external policy", ...
	Kind    Kind   `json:"kind"`
	Subject string `json:"subject,omitempty"` // which one, where there may be several
	Before  string `json:"before,omitempty"`
	After   string `json:"after,omitempty"`
}

// Compare tells what differs between two lists of Programs, one a family each.
// A family that is missing on one side has no services there. It fails only if
// a share of endpoints cannot be expressed.
func Compare(old, new []*ir.Program) (*Report, error) {
	r := &Report{Changes: []Change{}}
	for _, f := range ir.Families {
		o, n := programOf(old, f), programOf(new, f)
		if o == nil && n == nil {
			continue
		}
		c := comparison{before: o, after: n}
		changes, err := c.run()
		if err != nil {
			return nil, err
		}
		r.Changes = append(r.Changes, changes...)
	}
	return r, nil
}

func programOf(list []*ir.Program, f ir.Family) *ir.Program {
	if i := slices.IndexFunc(list, func(p *ir.Program) bool { return p.Family == f }); i >= 0 {
		return list[i]
	}
	return nil
}

// comparison is of one family.
type comparison struct {
	before, after *ir.Program
	node          []Reason
	pairs         []pair
}

// pair is one service port on both sides; nil where it is not. One that does
// not change itself may have a neighbour that does.
type pair struct {
	old, new  *ir.ServicePort
	neighbour string
}

// some is the newer side that there is.
func (p pair) some() *ir.ServicePort {
	if p.new != nil {
		return p.new
	}
	return p.old
}

func (c *comparison) run() ([]Change, error) {
	c.node = c.family()
	c.node = append(c.node, nodeReasons(c.before, c.after)...)
	c.pairs = match(c.before.Services, c.after.Services)
	everything := !sameOptions(&c.before.Options, &c.after.Options)
	if !everything {
		c.narrow()
	}
	flows, err := c.flows(everything)
	if err != nil {
		return nil, err
	}
	var out []Change
	if whole := flows[wholeNode]; len(c.node) > 0 || whole != nil {
		x, err := c.change("", Changed, c.node, whole)
		if err != nil {
			return nil, err
		}
		out = append(out, x)
	}
	for i, p := range c.pairs {
		reasons := p.reasons()
		switch {
		case len(reasons) > 0:
		case flows[i] == nil:
			continue
		case p.neighbour != "":
			reasons = []Reason{{What: "neighbour", Kind: Changed, Subject: p.neighbour}}
		default:
			reasons = []Reason{{What: "node options", Kind: Changed}}
		}
		x, err := c.change(p.some().PortName.String(), p.kind(), reasons, flows[i])
		if err != nil {
			return nil, err
		}
		out = append(out, x)
	}
	return out, nil
}

// narrow keeps the service ports that differ, and those whose packets they meet.
func (c *comparison) narrow() {
	differs := func(p pair) bool { return p.old == nil || p.new == nil || !equal(p.old, p.new) }
	var changed []pair
	for _, p := range c.pairs {
		if differs(p) {
			changed = append(changed, p)
		}
	}
	claimed := claimsOf(changed)
	var kept []pair
	for _, p := range c.pairs {
		if !differs(p) {
			if p.neighbour = claimed.neighbour(p.new); p.neighbour == "" {
				continue
			}
		}
		kept = append(kept, p)
	}
	c.pairs = kept
}

func (c *comparison) change(name string, k Kind, reasons []Reason, f *folded) (x Change, err error) {
	x = Change{Family: c.after.Family.String(), Service: name, Kind: k, Reasons: reasons, Flows: []Flow{}}
	if f != nil {
		x.Packets = f.packets
		x.Flows, err = f.fold()
	}
	return x, err
}

// family puts an empty Program where a family is missing.
func (c *comparison) family() []Reason {
	bare := func(p *ir.Program) *ir.Program {
		return &ir.Program{Family: p.Family, Node: p.Node, Options: p.Options}
	}
	switch {
	case c.before == nil:
		c.before = bare(c.after)
		return []Reason{{What: "family", Kind: Added, Subject: c.after.Family.String()}}
	case c.after == nil:
		c.after = bare(c.before)
		return []Reason{{What: "family", Kind: Removed, Subject: c.before.Family.String()}}
	}
	return nil
}

func (p pair) kind() Kind {
	switch {
	case p.old == nil:
		return Added
	case p.new == nil:
		return Removed
	}
	return Changed
}

// match joins two sorted lists by name, then what is left by the cluster IP: a
// port that was only renamed. The pairs are in order of the newer names.
func match(old, new []*ir.ServicePort) []pair {
	var out []pair
	for len(old) > 0 || len(new) > 0 {
		c := 0
		switch {
		case len(old) == 0:
			c = 1
		case len(new) == 0:
			c = -1
		default:
			c = old[0].Compare(new[0].PortName)
		}
		var p pair
		if c <= 0 {
			p.old, old = old[0], old[1:]
		}
		if c >= 0 {
			p.new, new = new[0], new[1:]
		}
		out = append(out, p)
	}
	return renamed(out)
}

// identity is what a service port keeps when its port gets another name.
type identity struct {
	service  string
	protocol ir.Protocol
	frontend ir.Frontend
}

func identityOf(s *ir.ServicePort) identity {
	i := identity{service: s.Service(), protocol: s.Protocol}
	if len(s.Frontends) > 0 {
		i.frontend = s.Frontends[0]
	}
	return i
}

// renamed joins a removed and an added service port that are the same.
func renamed(pairs []pair) []pair {
	gone := map[identity]*ir.ServicePort{}
	for _, p := range pairs {
		if p.new == nil {
			gone[identityOf(p.old)] = p.old
		}
	}
	joined := map[*ir.ServicePort]bool{}
	for i, p := range pairs {
		if p.old != nil {
			continue
		}
		id := identityOf(p.new)
		if was := gone[id]; was != nil {
			pairs[i].old = was
			joined[was] = true
			delete(gone, id)
		}
	}
	return slices.DeleteFunc(pairs, func(p pair) bool { return p.new == nil && joined[p.old] })
}
