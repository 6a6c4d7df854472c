package passes

import "svcc/ir"

// rewrite replaces every step of a Graph by what f makes of it, the steps it
// leads to first; a step that several ways share is rewritten once.
func rewrite(g *ir.Graph, f func(ir.Step) ir.Step) {
	done := map[ir.Step]ir.Step{}
	var visit func(s ir.Step) ir.Step
	visit = func(s ir.Step) ir.Step {
		if r, ok := done[s]; ok {
			return r
		}
		switch s := s.(type) {
		case *ir.Guard:
			s.Then, s.Else = visit(s.Then), visit(s.Else)
		case *ir.Masquerade:
			s.Next = visit(s.Next)
		}
		r := f(s)
		done[s] = r
		return r
	}
	for _, e := range g.Entries {
		e.Next = visit(e.Next)
	}
}
