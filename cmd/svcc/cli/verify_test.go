package cli

import (
	"strings"
	"testing"

	"svcc/emit"
	"svcc/ir"
)

// A ruleset with two sections for one family is not read: which of them is
// loaded depends on the tool, so a proof of the last would prove nothing.
func TestTwoSectionsForOneFamily(t *testing.T) {
	s := emit.Section{Tool: "iptables-restore", Family: ir.IPv4, Text: []byte("*nat\nCOMMIT\n")}
	r := emit.Ruleset{Head: emit.Head{Mode: "iptables", Families: []ir.Family{ir.IPv4}}, Sections: []emit.Section{s}}
	if _, err := parseRules("x", r.Marshal()); err != nil {
		t.Fatal(err)
	}
	r.Sections = append(r.Sections, s)
	if _, err := parseRules("x", r.Marshal()); err == nil || !strings.Contains(err.Error(), "two sections for ipv4 of iptables-restore") {
		t.Errorf("got %v", err)
	}
}
