package ipvs

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"svcc/emit"
	"svcc/ir"
)

// only is a ruleset without the sections of other families.
func only(rs *emit.Ruleset, f ir.Family) *emit.Ruleset {
	rs.Head.Families = []ir.Family{f}
	rs.Sections = slices.DeleteFunc(rs.Sections, func(s emit.Section) bool { return s.Family != f })
	return rs
}

func small() *world {
	return newWorld().cluster("tcp 10.96.0.1:80 rr", "10.0.0.1:80").cluster("tcp [fd00::1]:80 rr", "[fd01::1]:80")
}

// From some families to others: at no time does a virtual server lack the rules
// of its family, and rules of iptables mode go only when there are servers.
func TestGlueOfEachFamily(t *testing.T) {
	const (
		server4, server6 = "-A -t 10.96.0.1:80 -s rr", "-A -t [fd00::1]:80 -s rr"
		gone4, gone6     = "-D -t 10.96.0.1:80", "-D -t [fd00::1]:80"
		glue4, glue6     = "iptables-restore", "ip6tables-restore"
	)
	both := func() *emit.Ruleset { return small().ruleset() }
	for _, c := range []struct {
		name     string
		from, to *emit.Ruleset
		want     []string // of the above
	}{
		{"IPv6 goes", both(), only(both(), ir.IPv4), []string{gone6, glue6}},
		{"IPv6 comes", only(both(), ir.IPv4), both(), []string{glue6, server6}},
		{"IPv6 for IPv4", only(both(), ir.IPv4), only(both(), ir.IPv6), []string{glue6, server6, gone4, glue4}},
		{"to iptables mode with IPv4 alone", both(), only(iptablesRuleset(), ir.IPv4), []string{glue4, gone4, gone6, glue6}},
		{"from iptables mode with IPv4 alone", only(iptablesRuleset(), ir.IPv4), both(), []string{glue6, server4, server6, glue4}},
		{"from iptables mode to IPv4 alone", iptablesRuleset(), only(both(), ir.IPv4), []string{server4, glue4, glue6}},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newNode()
			tg := target(n)
			bring(t, tg, c.from)
			before := n.dump()
			order := func() []string {
				return slices.DeleteFunc(slices.Clone(n.writes), func(w string) bool {
					return !slices.Contains([]string{server4, server6, gone4, gone6, glue4, glue6}, w)
				})
			}
			n.writes = nil
			old, _ := plans(t, tg, c.to)
			n.after = func(what string) { n.needsGlue(t, what) }
			bring(t, tg, c.to)
			if diff := cmp.Diff(c.want, order()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if err := tg.Restore(context.Background(), old); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before, n.dump()); diff != "" {
				t.Errorf("restored (-want +got):\n%s", diff)
			}
		})
	}
}

// needsGlue checks that whatever virtual servers are there can be masqueraded.
func (n *node) needsGlue(t *testing.T, what string) {
	t.Helper()
	for k := range n.servers {
		if f := family(k.Address.Addr()); !strings.Contains(n.tables.Save(f, "nat"), "-j MASQUERADE") {
			t.Errorf("after %q virtual server %s is there without rules", what, k)
		}
	}
}
