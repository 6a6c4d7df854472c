package passes_test

import (
	"testing"

	"svcc/ir"
)

// A share of one is a delivery, wherever it stands; shares of several, and one
// that remembers its clients, stay.
func TestFold(t *testing.T) {
	one, two, sticky := balance("a", "10.1.0.1:80"), balance("b", "10.1.0.1:80 10.1.0.2:80"), balance("c", "10.1.0.3:80")
	sticky.AffinitySeconds = 60
	g := after(t, "fold",
		entry("a", "10.96.0.1:80", &ir.Masquerade{Next: one}),
		entry("a", "10.96.0.1:81", sources(fromPod(one, two), "192.0.2.0/24")),
		entry("c", "10.96.0.1:82", sticky))
	d, ok := g.Entries[0].Next.(*ir.Masquerade).Next.(*ir.Deliver)
	if !ok || d.Endpoint != one.Endpoints[0] || d.Label != one.Label {
		t.Errorf("a share of one became %+v", g.Entries[0].Next)
	}
	q := g.Entries[1].Next.(*ir.Guard).Then.(*ir.Guard)
	if q.Then != ir.Step(d) || q.Else != ir.Step(two) {
		t.Errorf("one step is two now, or a share of two is gone: %+v", q)
	}
	if g.Entries[2].Next != ir.Step(sticky) {
		t.Error("a share that remembers its clients is gone")
	}
}
