package emit

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"svcc/ir"
)

// Section is text in the native syntax of one tool.
type Section struct {
	Tool   string // one of the Tool constants
	Family ir.Family
	Text   []byte
	// Dump says that a tool printed the text of a node whose rules may be anybody's,
	// so that not all of it can be expected to be understood.
	Dump bool
}

// The tools whose syntax sections are in.
const (
	ToolTables    = "iptables-restore" // ip6tables-restore for IPv6
	ToolSets      = "ipset-restore"
	ToolAddresses = "ip-batch"
	ToolServers   = "ipvsadm-restore"
)

// Command is the command line that loads the section from standard input.
func (s Section) Command() string {
	switch s.Tool {
	case ToolTables:
		if s.Family == ir.IPv6 {
			return "ip6tables-restore"
		}
	case ToolSets:
		return "ipset restore"
	case ToolAddresses:
		return "ip -force -batch -"
	case ToolServers:
		return "ipvsadm -R"
	}
	return s.Tool
}

// FileName is the name of the section's file in a folder.
func (s Section) FileName() string {
	switch s.Tool {
	case ToolTables:
		return strings.TrimSuffix(s.Command(), "-restore") + ".rules"
	case ToolSets:
		return "ipset.rules"
	case ToolAddresses:
		return "addresses.ip"
	case ToolServers:
		return "ipvs.rules"
	}
	return s.Tool + ".rules"
}

// Files merges sections that one file holds: all but those of tables are of both
// families. They are in the order in which it is safe to load them.
func Files(sections []Section) []Section {
	var out []Section
	for _, s := range sections {
		i := slices.IndexFunc(out, func(x Section) bool { return x.FileName() == s.FileName() })
		if i < 0 {
			s.Text = slices.Clone(s.Text)
			out = append(out, s)
			continue
		}
		out[i].Text = appendSection(out[i].Text, s)
	}
	slices.SortStableFunc(out, func(a, b Section) int { return loadOrder(a.Tool) - loadOrder(b.Tool) })
	return out
}

// appendSection adds a section to another family's. The link is made once.
func appendSection(text []byte, s Section) []byte {
	for line := range bytes.Lines(s.Text) {
		if s.Tool == ToolAddresses && bytes.HasPrefix(line, []byte("link ")) && bytes.Contains(text, line) {
			continue
		}
		text = append(text, line...)
	}
	return text
}

// loadOrder puts what rules refer to before them, and what attracts packets last.
func loadOrder(tool string) int {
	return slices.Index([]string{ToolSets, ToolTables, ToolAddresses, ToolServers}, tool)
}

// usage tells a reader how to load the file.
func (r *Ruleset) usage() []string {
	if len(r.Sections) == 1 {
		return []string{fmt.Sprintf("Load: %s < this file; it %s.", r.loader(r.Sections[0]), r.effect())}
	}
	if slices.ContainsFunc(r.Sections, func(s Section) bool { return s.Tool != ToolTables }) {
		return r.virtualUsage()
	}
	return []string{"Several sections: not to be fed to one tool. Write them to a folder (-o DIR/) and load each."}
}

// loader is the command that loads a section.
func (r *Ruleset) loader(s Section) string {
	if s.Tool == ToolTables && !r.Head.Hooks {
		return s.Command() + " --noflush"
	}
	return s.Command()
}

// effect is what loading tables does to those of the node.
func (r *Ruleset) effect() string {
	if !r.Head.Hooks {
		return "changes nothing but the chains in it; jumps from the built-in chains are not in it"
	}
	return "replaces both tables: for a node that has no rules of its own"
}

// virtualUsage tells how to load by hand what IPVS mode needs.
func (r *Ruleset) virtualUsage() []string {
	out := []string{
		"Several sections: not to be fed to one tool. \"svcc apply\" loads this file, swaps sets in, takes away what is stale and sets sysctls.",
		"By hand, on a node without virtual servers, after \"modprobe ip_vs\" and \"sysctl -w net.ipv4.vs.conntrack=1\":",
		"write the sections to a folder (svcc build -o DIR/) and load them in this order, as root:",
	}
	for _, s := range Files(r.Sections) {
		why := map[string]string{
			ToolSets:      "fills the sets that the rules ask",
			ToolTables:    r.effect(),
			ToolAddresses: "the link may be there already: -force goes on",
			ToolServers:   "only adds: fails where one of its virtual servers is there already",
		}[s.Tool]
		out = append(out, fmt.Sprintf("  %s < %s  (%s)", r.loader(s), s.FileName(), why))
	}
	return out
}
