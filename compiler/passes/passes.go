package passes

import (
	"fmt"
	"slices"

	"svcc/compiler/lower"
	"svcc/ir"
)

// Pass is one row: exactly one of Program, Lower and Graph is set.
type Pass struct {
	Name     string
	Doc      string  // what it does and assumes, for users
	After    []Order // passes that must have run before
	Required bool    // cannot be turned off
	Level    int     // runs from this -O level on

	Program func(*ir.Program)           // rewrites a Program
	Lower   func(*ir.Program) *ir.Graph // the step from one level to the other
	Graph   func(*ir.Graph)             // rewrites a Graph
}

// Order is a constraint with its reason.
type Order struct{ Pass, Why string }

// Table lists the passes in the order in which they run.
var Table = []Pass{
	{
		Name:     "order",
		Doc:      "Puts service ports and endpoints in one order, whatever the order of files, slices and endpoints: service ports by name and protocol, endpoints by their text.",
		Required: true,
		Program:  order,
	},
	{
		Name:     "lower",
		Doc:      "Turns each service port's promises into the steps by which a packet is decided: look-ups, questions about the client, shares, refusals.",
		After:    []Order{{"order", "a Graph keeps the Program's order, and rules keep the Graph's"}},
		Required: true,
		Lower:    lower.Lower,
	},
	{
		Name:  "ranges",
		Doc:   "Makes source ranges as few as can be: covered ones are left out, neighbours are joined.",
		After: []Order{{"lower", "it rewrites a Graph"}},
		Level: 1,
		Graph: ranges,
	},
	{
		Name:  "fold",
		Doc:   "Sends connections straight to an endpoint that is the only one, without a share of its own. Ports with session affinity keep theirs.",
		After: []Order{{"lower", "it rewrites a Graph"}},
		Level: 1,
		Graph: fold,
	},
	{
		Name:     "masquerade",
		Doc:      "Asks who is to be masqueraded once on a way, rather than on two ways to the same endpoints.",
		After:    []Order{{"fold", "both ways must lead to the same step"}},
		Level:    1,
		Required: true,
		Graph:    masquerade,
	},
	{
		Name:  "group",
		Doc:   "Decides on masquerading for ranges of ClusterIPs at once, after the choice, rather than for each of them. Assumes that nobody else's DNAT takes connections to these addresses.",
		After: []Order{{"masquerade", "a decision must be one step to be taken off a way"}},
		Level: 1,
		Graph: group,
	},
	{
		Name:  "share",
		Doc:   "Makes one of the steps that are equal: service ports, addresses and policies with the same endpoints share them. Ports with session affinity do not.",
		After: []Order{{"masquerade", "fewer forms of the same meaning are left"}, {"ranges", "equal sets of ranges look equal only then"}, {"group", "ways that differ in a decision only are equal only then"}},
		Level: 1,
		Graph: share,
	},
	{
		Name:  "prune",
		Doc:   "Removes questions whose answer changes nothing: both ways lead to the same step.",
		After: []Order{{"share", "equal ways are the same step only then"}},
		Level: 1,
		Graph: prune,
	},
}

// Select gives the rows that run at a level, without those turned off. It is an
// error to name an unknown or a required pass, or if an order constraint of the
// table does not hold.
func Select(table []Pass, level int, off []string) ([]Pass, error) {
	for _, name := range off {
		i := slices.IndexFunc(table, func(p Pass) bool { return p.Name == name })
		switch {
		case i < 0:
			return nil, fmt.Errorf("no pass is named %q; svcc passes lists them", name)
		case table[i].Required:
			return nil, fmt.Errorf("pass %q is required", name)
		}
	}
	if err := check(table); err != nil {
		return nil, err
	}
	var rows []Pass
	for _, p := range table {
		if p.Level <= level && !slices.Contains(off, p.Name) {
			rows = append(rows, p)
		}
	}
	return rows, nil
}

// check holds a table to its own constraints.
func check(table []Pass) error {
	seen := map[string]bool{}
	for _, p := range table {
		for _, o := range p.After {
			if !seen[o.Pass] {
				return fmt.Errorf("pass %q must come after %q: %s", p.Name, o.Pass, o.Why)
			}
		}
		if seen[p.Name] {
			return fmt.Errorf("two passes are named %q", p.Name)
		}
		seen[p.Name] = true
	}
	return nil
}

// Run sends a Program through the rows and gives the Graph. After each pass it
// calls after, which may be nil, with the pass's name and what there is then;
// an error from it ends the run.
func Run(rows []Pass, p *ir.Program, after func(pass string, p *ir.Program, g *ir.Graph) error) (*ir.Graph, error) {
	var g *ir.Graph
	for _, row := range rows {
		switch {
		case row.Program != nil:
			row.Program(p)
		case row.Lower != nil:
			g = row.Lower(p)
		case row.Graph != nil:
			row.Graph(g)
		}
		if after == nil {
			continue
		}
		if err := after(row.Name, p, g); err != nil {
			return nil, fmt.Errorf("after pass %q: %w", row.Name, err)
		}
	}
	return g, nil
}

// Graph runs a level's rows, without those turned off, and checks the invariants
// after each. Rows may change the Program, too.
func Graph(p *ir.Program, level int, off ...string) (*ir.Graph, error) {
	rows, err := Select(Table, level, off)
	if err != nil {
		return nil, err
	}
	return Run(rows, p, Check)
}

// Check is an after function: it checks the invariants of what there is.
func Check(_ string, p *ir.Program, g *ir.Graph) error {
	if g != nil {
		return g.Check()
	}
	return p.Check()
}
