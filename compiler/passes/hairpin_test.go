package passes_test

import "testing"

// hairpin asks for one question and touches no way.
func TestHairpin(t *testing.T) {
	x := balance("a", "10.1.0.1:80 10.1.0.2:80")
	g := after(t, "hairpin", entry("a", "10.96.0.1:80", x))
	if !g.HairpinOnce || g.Entries[0].Next != x {
		t.Errorf("%+v", g)
	}
}
