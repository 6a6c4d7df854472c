package compiler

import (
	"bytes"
	"fmt"
	"io"

	"svcc/compiler/lower"
	"svcc/emit"
	"svcc/ir"
	"svcc/ir/eval"
)

// Stats collects what passes did. Its Observe is an Observer.
type Stats struct{ passes []passStat }

type passStat struct {
	name   string
	family ir.Family
	steps  steps
}

// steps counts the distinct steps of a Graph by kind.
type steps struct{ guards, masquerades, balances, deliveries, refusals int }

func (s steps) total() int {
	return s.guards + s.masquerades + s.balances + s.deliveries + s.refusals
}

func (s steps) String() string {
	return fmt.Sprintf("%6d steps: %d guards, %d masquerades, %d balances, %d deliveries, %d refusals",
		s.total(), s.guards, s.masquerades, s.balances, s.deliveries, s.refusals)
}

// Observe notes what there is after a stage.
func (s *Stats) Observe(stage string, p *ir.Program, g *ir.Graph) error {
	if g != nil {
		s.passes = append(s.passes, passStat{stage, p.Family, count(g)})
	}
	return nil
}

func count(g *ir.Graph) steps {
	ways := make([]ir.Step, len(g.Entries))
	for i, e := range g.Entries {
		ways[i] = e.Next
	}
	var c steps
	for s := range ir.Steps(ways...) {
		switch s.(type) {
		case *ir.Guard:
			c.guards++
		case *ir.Masquerade:
			c.masquerades++
		case *ir.Balance:
			c.balances++
		case *ir.Deliver:
			c.deliveries++
		case *ir.Refuse:
			c.refusals++
		}
	}
	return c
}

// Print writes, for each family: what there was after each pass, the rules at
// level 0 and now, and how many of them a new connection meets.
func (s *Stats) Print(w io.Writer, r *Result) error {
	for _, u := range r.Units {
		fmt.Fprintf(w, "%s: %d service ports\n", u.Family, len(u.Program.Services))
		for _, p := range s.passes {
			if p.family == u.Family {
				fmt.Fprintf(w, "  after %-11s %s\n", p.name, p.steps)
			}
		}
		if err := r.rules(w, u); err != nil {
			return err
		}
		if u.Walker == nil {
			continue // without proof nothing was parsed
		}
		if err := printMet(w, u); err != nil {
			return err
		}
	}
	return nil
}

// rules compares the text with what level 0 makes of the same Program.
func (r *Result) rules(w io.Writer, u Unit) error {
	like, err := r.options.Mode.Backend.Emit(lower.Lower(u.Program), emit.Options{Hooks: r.options.Hooks})
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "  rules: %d at -O0, %d at -O%d\n", rulesIn(like), rulesIn(u.Sections), r.options.Level)
	return nil
}

func rulesIn(sections []emit.Section) int {
	n := 0
	for _, s := range sections {
		n += bytes.Count(s.Text, []byte("\n-A "))
	}
	return n
}

// printMet tells how many rules a new connection of a pod meets, to each
// frontend of every service port and to none.
func printMet(w io.Writer, u Unit) error {
	c := eval.NewClients(u.Program)
	var sum, worst float64
	var worstOf string
	n := 0
	for _, s := range u.Program.Services {
		for _, f := range s.Frontends {
			met, err := u.Walker.Met(c.To(f, s.Protocol), c.Host)
			if err != nil {
				return err
			}
			sum, n = sum+met, n+1
			if met > worst {
				worst, worstOf = met, s.PortName.String()
			}
		}
	}
	none, err := u.Walker.Met(c.To(ir.Frontend{Addr: c.Nowhere, Port: 9}, ir.TCP), c.Host)
	if err != nil {
		return err
	}
	if n > 0 {
		fmt.Fprintf(w, "  rules met by a new connection of a pod: mean %.1f, worst %.1f (%s)\n", sum/float64(n), worst, worstOf)
	}
	fmt.Fprintf(w, "  rules met by one to no service: %.1f\n", none)
	return nil
}
