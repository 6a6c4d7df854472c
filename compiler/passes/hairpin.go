package passes

import "svcc/ir"

// hairpin lets the backend ask once, after the choice, whether a packet goes
// back to where it came from.
func hairpin(g *ir.Graph) { g.HairpinOnce = true }
