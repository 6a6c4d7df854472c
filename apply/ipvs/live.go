package ipvs

import (
	"context"
	"slices"

	"svcc/emit"
	spec "svcc/emit/ipvs"
	"svcc/ir"
)

// Live reads all that decides about a family's packets, other programs' rules
// and virtual servers as well, as sections of a ruleset.
func (t *Target) Live(ctx context.Context, f ir.Family) ([]emit.Section, error) {
	o, err := t.observe(ctx)
	if err != nil {
		return nil, err
	}
	own := &o.state.Families[slices.Index(ir.Families, f)]
	out := &spec.State{Family: f, Sets: own.Sets, Addresses: own.Addresses}
	for _, s := range slices.Concat(own.Servers, o.foreign) {
		// A server of every port is none that a ruleset could have.
		if f.Of(s.Address.Addr()) && s.Address.Port() != 0 {
			out.Servers = append(out.Servers, s.spec())
		}
	}
	slices.SortFunc(out.Servers, func(a, b *spec.Server) int { return a.Key.Compare(b.Key) })
	glue, err := t.Glue.Live(ctx, f)
	if err != nil {
		return nil, err
	}
	out.Glue = glue[0].Text
	return out.Sections(), nil
}

// spec is a virtual server as a ruleset has it.
func (s *Server) spec() *spec.Server {
	out := &spec.Server{Key: s.Key, Scheduler: s.Scheduler, Flags: flagNames(s.Scheduler, s.Flags)}
	if s.Flags&flagPersistent != 0 {
		out.Timeout = int(s.Timeout)
	}
	for _, d := range s.Destinations {
		out.Destinations = append(out.Destinations, d.spec())
	}
	return out
}

func (d Destination) spec() spec.Destination {
	return spec.Destination{Address: d.Address, Weight: d.Weight}
}
