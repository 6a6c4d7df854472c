package passes

import "svcc/ir"

// prune removes questions whose answer changes nothing.
func prune(g *ir.Graph) {
	rewrite(g, func(s ir.Step) ir.Step {
		if q, ok := s.(*ir.Guard); ok && q.Then == q.Else {
			return q.Then
		}
		return s
	})
}
