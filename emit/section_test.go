package emit

import (
	"slices"
	"strings"
	"testing"

	"svcc/ir"
)

// What one file holds of both families is put together, in the order in which it
// is safe to load, and the sections stay as they are.
func TestFiles(t *testing.T) {
	section := func(tool string, f ir.Family, text string) Section {
		return Section{Tool: tool, Family: f, Text: []byte(text)}
	}
	in := []Section{
		section(ToolServers, ir.IPv4, "-A v4\n"), section(ToolAddresses, ir.IPv4, "link add x type dummy\naddress replace a4\n"),
		section(ToolTables, ir.IPv4, "*t4\n"), section(ToolSets, ir.IPv4, "create s4\n"),
		section(ToolSets, ir.IPv6, "create s6\n"), section(ToolTables, ir.IPv6, "*t6\n"),
		section(ToolAddresses, ir.IPv6, "link add x type dummy\naddress replace a6\n"), section(ToolServers, ir.IPv6, "-A v6\n"),
	}
	before := slices.Clone(in)
	want := []string{
		"ipset.rules: create s4\ncreate s6\n", "iptables.rules: *t4\n", "ip6tables.rules: *t6\n",
		"addresses.ip: link add x type dummy\naddress replace a4\naddress replace a6\n", "ipvs.rules: -A v4\n-A v6\n",
	}
	for range 2 {
		var got []string
		for _, s := range Files(in) {
			got = append(got, s.FileName()+": "+string(s.Text))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q\nwant %q", got, want)
		}
	}
	for i, s := range in {
		if s.Tool != before[i].Tool || s.Family != before[i].Family || string(s.Text) != string(before[i].Text) {
			t.Errorf("section %d was changed: %q", i, s.Text)
		}
	}
}

// The head of a file tells how to load it: a line for each file of a folder, or,
// where one tool takes the whole, its command.
func TestUsage(t *testing.T) {
	tables := Section{Tool: ToolTables, Family: ir.IPv6, Text: []byte("*nat\nCOMMIT\n")}
	for _, c := range []struct {
		hooks    bool
		sections []Section
		want     []string
	}{
		{true, []Section{tables}, []string{"# Load: ip6tables-restore < this file; it replaces both tables: "}},
		{false, []Section{tables}, []string{"# Load: ip6tables-restore --noflush < this file; it changes nothing but the chains in it; "}},
		{true, []Section{tables, {Tool: ToolTables, Family: ir.IPv4}}, []string{"# Several sections: not to be fed to one tool. "}},
		{false, []Section{{Tool: ToolServers, Family: ir.IPv6}, {Tool: ToolAddresses, Family: ir.IPv6}, {Tool: ToolSets, Family: ir.IPv6}, tables}, []string{
			"# Several sections: not to be fed to one tool. ",
			"#   ipset restore < ipset.rules  (",
			"#   ip6tables-restore --noflush < ip6tables.rules  (changes nothing but ",
			"#   ip -force -batch - < addresses.ip  (",
			"#   ipvsadm -R < ipvs.rules  (",
		}},
	} {
		rest := string((&Ruleset{Head: Head{Mode: "x", Hooks: c.hooks}, Sections: c.sections}).Marshal())
		for _, w := range c.want {
			i := strings.Index(rest, "\n"+w)
			if i < 0 {
				t.Errorf("%q is not, or not in its place, in\n%s", w, rest)
				continue
			}
			rest = rest[i+1:]
		}
	}
}
