package emit

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

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

// tool is what has to be known of a program that loads sections: by which command
// it does so from standard input, in which file of a folder it finds them, and what
// a reader is told who loads that by hand.
type tool struct {
	name          string
	command, file [2]string // in IPv4 and in IPv6
	note          string
}

// tools stand in the order in which it is safe to load: what rules refer to before
// them, and what attracts packets last.
var tools = []tool{
	{ToolSets, both("ipset restore"), both("ipset.rules"), "fills the sets that the rules ask"},
	{ToolTables, [2]string{"iptables-restore", "ip6tables-restore"}, [2]string{"iptables.rules", "ip6tables.rules"}, ""},
	{ToolAddresses, both("ip -force -batch -"), both("addresses.ip"), "the link may be there already: -force goes on"},
	{ToolServers, both("ipvsadm -R"), both("ipvs.rules"), "only adds: fails where one of its virtual servers is there already"},
}

func both(s string) [2]string { return [2]string{s, s} }

// toolOf is a section's. One that is not in the table loads by its own name.
func toolOf(s Section) tool {
	if i := loadOrder(s.Tool); i >= 0 {
		return tools[i]
	}
	return tool{name: s.Tool, command: both(s.Tool), file: both(s.Tool + ".rules")}
}

// loadOrder is a tool's place in the table; -1 for one that is not in it.
func loadOrder(name string) int {
	return slices.IndexFunc(tools, func(t tool) bool { return t.name == name })
}

// of chooses a family's.
func of(s [2]string, f ir.Family) string {
	if f == ir.IPv6 {
		return s[1]
	}
	return s[0]
}

// Command is the command line that loads the section from standard input.
func (s Section) Command() string { return of(toolOf(s).command, s.Family) }

// FileName is the name of the section's file in a folder.
func (s Section) FileName() string { return of(toolOf(s).file, s.Family) }

// FileNames are all that sections of a folder can have, in any mode.
func FileNames() (out []string) {
	for _, t := range tools {
		out = append(out, t.file[:]...)
	}
	return slices.Compact(out)
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
		note := cmp.Or(toolOf(s).note, r.effect())
		out = append(out, fmt.Sprintf("  %s < %s  (%s)", r.loader(s), s.FileName(), note))
	}
	return out
}

// Quote shows text that may be of any length and content.
func Quote(s string) string {
	if len(s) > 80 {
		return fmt.Sprintf("%q...", s[:80])
	}
	return fmt.Sprintf("%q", s)
}
