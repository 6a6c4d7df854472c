package iptables

import (
	"svcc/emit"
	"svcc/emit/iptables/rule"
	"svcc/ir"
)

// Tool names the sections of this backend.
const Tool = "iptables-restore"

// Backend is the iptables mode; the zero value is ready.
type Backend struct{}

var _ emit.Backend = Backend{}

// Emit gives one section with the tables filter and nat.
func (Backend) Emit(g *ir.Graph, o emit.Options) ([]emit.Section, error) {
	layout := lower
	if o.Level > 0 {
		layout = func(g *ir.Graph, hooks bool) (*rule.Table, *rule.Table, error) { return layoutFast(g, o.Level, hooks) }
	}
	filter, nat, err := layout(g, o.Hooks)
	if err != nil {
		return nil, err
	}
	text := make([]byte, 0, 160*(len(filter.Rules)+len(nat.Rules))+4096)
	for _, t := range []*rule.Table{filter, nat} {
		if text, err = rule.AppendTable(text, t); err != nil {
			return nil, err
		}
	}
	return []emit.Section{{Tool: Tool, Family: g.Family, Text: text}}, nil
}

// Parse reads restore input of one family: this backend's or a tool's dump.
func (Backend) Parse(f ir.Family, sections []emit.Section, hooked bool) (emit.Walker, error) {
	return ParseAround(f, sections, hooked, nil)
}
