package compiler

import (
	"strings"
	"testing"

	"svcc/emit/mode"
)

// Two Services have one pod, and only one says on which node it is. In IPVS mode
// at level 0 the kernel is asked about the pod, not about the Service: what one
// promises, the other keeps as well, and the proof knows that.
func TestEndpointPlacedByOneService(t *testing.T) {
	placed := strings.Replace(web, "[10.244.1.5]", "[10.244.1.5], nodeName: node-0", 1)
	other := strings.NewReplacer("web", "api", "10.96.0.10", "10.96.0.12").Replace(web)
	for level := range 3 {
		o := input(t, placed, other)
		o.Mode, o.Level = mode.IPVS, level
		o.Flags.Node = ptr("node-0")
		r, err := Compile(o, nil)
		if err != nil {
			t.Errorf("level %d: %v", level, err)
		} else if len(r.Units) != 1 || len(r.Units[0].Program.Services) != 2 {
			t.Errorf("level %d: %v", level, r.Diagnostics)
		}
	}
}
