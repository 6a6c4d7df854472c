package passes

import "svcc/ir"

// masquerade joins the two ways of a question that only decides on
// masquerading ("from pod X, else masquerade, X") into one conditional step, so
// that what follows is led to once.
func masquerade(g *ir.Graph) {
	rewrite(g, func(s ir.Step) ir.Step {
		q, ok := s.(*ir.Guard)
		if !ok || !q.If.FromPod {
			return s
		}
		m, ok := q.Else.(*ir.Masquerade)
		if !ok || m.Next != q.Then {
			return s
		}
		return &ir.Masquerade{Label: q.Label, UnlessPod: true, Next: q.Then}
	})
}
