package mode

import (
	"slices"
	"strings"

	"svcc/emit"
	"svcc/emit/iptables"
	"svcc/emit/ipvs"
	"svcc/ir"
)

// Mode is one way to program the kernel.
type Mode struct {
	Name    string // in flags, in a ruleset's head and in a KubeProxyConfiguration
	Facts   *ir.Facts
	Backend emit.Backend
	// Dumped says that a node whose tools printed these sections is in this mode.
	Dumped func([]emit.Section) bool
}

// The modes that svcc has.
var (
	IPTables = &Mode{Name: "iptables", Facts: &ir.RuleFacts, Backend: iptables.Backend{}, Dumped: func([]emit.Section) bool { return true }}
	IPVS     = &Mode{Name: "ipvs", Facts: &ir.ServerFacts, Backend: ipvs.Backend{}, Dumped: emit.IsVirtual}
)

// Default is the mode where nobody chooses one.
var Default = IPTables

// Table has a row for each mode. A dump is of the last that knows it for its own.
var Table = []*Mode{IPTables, IPVS}

// Named is the mode of a name; nil for none.
func Named(name string) *Mode {
	i := slices.IndexFunc(Table, func(m *Mode) bool { return m.Name == name })
	if i < 0 {
		return nil
	}
	return Table[i]
}

// OfDump is the mode of a node by what its tools printed.
func OfDump(sections []emit.Section) *Mode {
	for _, m := range slices.Backward(Table) {
		if m.Dumped(sections) {
			return m
		}
	}
	return Default
}

// Names lists the modes' names for a message.
func Names() string {
	var out []string
	for _, m := range Table {
		out = append(out, m.Name)
	}
	return strings.Join(out, ", ")
}

func (m *Mode) String() string { return m.Name }
