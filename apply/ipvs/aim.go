package ipvs

import (
	"net/netip"
	"slices"

	"svcc/emit"
	"svcc/ir"
)

// aim is a ruleset, read.
type aim struct {
	ruleset  *emit.Ruleset // nil for nothing
	state    *state
	glue     *emit.Ruleset // its sections for iptables
	programs []*ir.Program // none where it does not say what it promises
	exclude  []netip.Prefix
}

// read reads a ruleset, the same one only once: a run plans several times.
func (t *Target) read(rs *emit.Ruleset) (*aim, error) {
	if t.aim != nil && t.aim.ruleset == rs {
		return t.aim, nil
	}
	a := &aim{ruleset: rs}
	var err error
	if a.state, a.glue, err = wanted(rs); err != nil {
		return nil, err
	}
	if rs != nil {
		if a.programs, err = rs.ReadPrograms(); err != nil {
			return nil, err
		}
	}
	a.exclude = Excludes(a.programs)
	for _, p := range a.programs {
		if v := p.Options.Virtual; v != nil {
			a.state.Timeouts = a.state.Timeouts.over(Timeouts{v.TCPTimeout, v.TCPFinTimeout, v.UDPTimeout})
		}
	}
	t.aim = a
	return a, nil
}

// Excludes are the addresses whose virtual servers are left alone.
func Excludes(programs []*ir.Program) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range programs {
		if v := p.Options.Virtual; v != nil {
			out = append(out, v.Exclude...)
		}
	}
	return out
}

// hasGlue says whether there are rules for a family.
func (a *aim) hasGlue(f ir.Family) bool {
	return a.glue != nil && slices.ContainsFunc(a.glue.Sections, func(s emit.Section) bool { return s.Family == f })
}
