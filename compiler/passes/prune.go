package passes

import "svcc/ir"

// prune removes questions whose answer changes nothing. One about source
// ranges stays: it also says what the filter drops.
func prune(g *ir.Graph) {
	rewrite(g, func(s ir.Step) ir.Step {
		if q, ok := s.(*ir.Guard); ok && q.Then == q.Else && len(q.If.Sources) == 0 {
			return q.Then
		}
		return s
	})
}
