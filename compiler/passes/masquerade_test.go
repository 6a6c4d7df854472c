package passes_test

import (
	"testing"

	"svcc/ir"
)

// "From a pod X, else masquerade and X" becomes one step with the question's
// label. What differs in more than that stays.
func TestMasquerade(t *testing.T) {
	x, y := balance("a", "10.1.0.1:80 10.1.0.2:80"), balance("b", "10.1.0.3:80 10.1.0.4:80")
	node := &ir.Guard{If: ir.Condition{FromNode: true}, Then: x, Else: &ir.Masquerade{Next: x}}
	label := ir.Label{Service: named("a", ir.TCP), Part: ir.PartExternal}
	labelled := fromPod(x, &ir.Masquerade{Next: x})
	labelled.Label = label
	g := after(t, "masquerade",
		entry("a", "10.96.0.1:80", fromPod(x, &ir.Masquerade{Next: x})),
		entry("a", "10.96.0.1:81", labelled),
		entry("a", "10.96.0.1:82", fromPod(x, &ir.Masquerade{Next: y})),
		entry("a", "10.96.0.1:83", fromPod(&ir.Masquerade{Next: x}, x)),
		entry("a", "10.96.0.1:84", node))
	wantGraph(t, g,
		"lookup 10.96.0.1:80/tcp unless from pod masquerade; #1",
		"10.96.0.1:81/tcp unless from pod masquerade; #1",
		"10.96.0.1:82/tcp from pod #1; else masquerade, #2",
		"10.96.0.1:83/tcp from pod masquerade, #1; else #1",
		"10.96.0.1:84/tcp from node #1; else masquerade, #1",
		"#1 balance 1/2 10.1.0.1:80, 1/2 10.1.0.2:80",
		"#2 balance 1/2 10.1.0.3:80, 1/2 10.1.0.4:80")
	if m := g.Entries[1].Next.(*ir.Masquerade); m.Label != label {
		t.Errorf("label %v", m.Label)
	}
}
