package irtest

import (
	"testing"

	"pgregory.net/rapid"

	"svcc/ir"
)

func TestProgramsAreSound(t *testing.T) {
	if err := Shop().Check(); err != nil {
		t.Error(err)
	}
	kinds := map[ir.FrontendKind]bool{}
	refused, guarded := false, false
	rapid.Check(t, func(t *rapid.T) {
		p := Programs().Draw(t, "program")
		if err := p.Check(); err != nil {
			t.Fatal(err)
		}
		for _, s := range p.Services {
			for _, f := range s.Frontends {
				kinds[f.Kind] = true
			}
			refused = refused || !s.Usable
			guarded = guarded || len(s.SourceRanges) > 0
		}
	})
	if len(kinds) != 4 || !refused || !guarded {
		t.Errorf("of frontends only %v occur; unusable %v, guarded %v", kinds, refused, guarded)
	}
}
