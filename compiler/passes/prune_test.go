package passes_test

import (
	"testing"

	"svcc/ir"
)

// A question goes if both answers lead to the same step, also if they do only
// once another question has gone. Steps that are merely equal are two. Source
// ranges stay: the filter drops by them.
func TestPrune(t *testing.T) {
	x, twin := balance("a", "10.1.0.1:80 10.1.0.2:80"), balance("a", "10.1.0.1:80 10.1.0.2:80")
	ranges := sources(x, "192.0.2.0/24")
	ranges.Else = x
	g := after(t, "prune",
		entry("a", "10.96.0.1:80", fromPod(x, x)),
		entry("a", "10.96.0.1:81", &ir.Masquerade{Next: fromPod(fromPod(x, x), x)}),
		entry("a", "10.96.0.1:82", fromPod(x, twin)),
		entry("a", "10.96.0.1:83", ranges))
	wantGraph(t, g,
		"lookup 10.96.0.1:80/tcp #1",
		"10.96.0.1:81/tcp masquerade, #1",
		"10.96.0.1:82/tcp from pod #1; else #2",
		"10.96.0.1:83/tcp from 192.0.2.0/24 #1; else #1",
		"#1 balance 1/2 10.1.0.1:80, 1/2 10.1.0.2:80",
		"#2 balance 1/2 10.1.0.1:80, 1/2 10.1.0.2:80")
}
