package passes

import "svcc/ir"

// fold turns a balance of one endpoint into a delivery. With affinity it stays:
// a client must be found in the list when a second endpoint comes.
func fold(g *ir.Graph) {
	rewrite(g, func(s ir.Step) ir.Step {
		b, ok := s.(*ir.Balance)
		if !ok || len(b.Endpoints) != 1 || b.AffinitySeconds > 0 {
			return s
		}
		return &ir.Deliver{Label: b.Label, Endpoint: b.Endpoints[0]}
	})
}
