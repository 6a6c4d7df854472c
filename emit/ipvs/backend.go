package ipvs

import (
	"svcc/emit"
	"svcc/emit/iptables"
	"svcc/ir"
)

// Backend is the IPVS mode; the zero value is ready. Its Graphs must be of a node
// with virtual servers (ir.Options.Virtual).
type Backend struct{}

var _ emit.Backend = Backend{}

// Emit gives the sections of a State. The levels differ in the rules that pods
// and the node meet at frontends of external policy Local.
func (Backend) Emit(g *ir.Graph, o emit.Options) ([]emit.Section, error) {
	s, err := lower(g, o)
	if err != nil {
		return nil, err
	}
	return s.Sections(), nil
}

// Parse reads the sections of one family.
func (Backend) Parse(f ir.Family, sections []emit.Section, hooked bool) (emit.Walker, error) {
	s, err := ReadState(f, sections)
	if err != nil {
		return nil, err
	}
	around, err := s.around()
	if err != nil {
		return nil, err
	}
	var glue []emit.Section
	for _, x := range sections {
		if x.Tool == ToolGlue {
			glue = append(glue, x)
		}
	}
	return iptables.ParseAround(f, glue, hooked, around)
}
