package proof_test

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	"svcc/compiler"
	"svcc/compiler/passes"
	"svcc/compiler/proof"
	"svcc/emit"
	"svcc/emit/iptables"
	"svcc/ir"
	"svcc/ir/irtest"
)

// manyEndpoints is a service of 12000 endpoints at level 0.
func manyEndpoints(t *testing.T) compiler.Unit {
	t.Helper()
	p := irtest.Shop()
	s := *p.Services[0]
	s.Frontends = s.Frontends[:1]
	s.SourceRanges, s.NodeAllowed, s.HealthCheckNodePort = nil, false, 0
	s.ExternalPolicy, s.Local, s.Cluster, s.Serving = ir.Cluster, nil, nil, nil
	for i := range 12000 {
		s.Cluster = append(s.Cluster, ir.Endpoint{Addr: netip.AddrFrom4([4]byte{10, 244, byte(i / 250), byte(i%250 + 1)}), Port: 80})
	}
	slices.SortFunc(s.Cluster, ir.CompareEndpoints)
	p.Services = []*ir.ServicePort{&s}
	g, err := passes.Graph(p, 0)
	if err != nil {
		t.Fatal(err)
	}
	sections, err := iptables.Backend{}.Emit(g, emit.Options{Hooks: true})
	if err != nil {
		t.Fatal(err)
	}
	return compiler.Unit{Family: p.Family, Program: p, Sections: sections}
}

// TestOneOfManyEndpoints: what is wrong for the 9000th endpoint alone is seen, and
// shown in a text that can be read.
func TestOneOfManyEndpoints(t *testing.T) {
	u := manyEndpoints(t)
	text := string(u.Sections[0].Text)
	hairpin := regexp.MustCompile(`(?m)^-A KUBE-SEP-\S+ .*-s 10\.244\.\S+ .*-j KUBE-MARK-MASQ\n`)
	share := regexp.MustCompile(`(?m)^-A KUBE-SVC-\S+ .*-m statistic .*\n`)
	for _, c := range []struct {
		name string
		re   *regexp.Regexp
		edit func(string) string
	}{
		{"its hairpin rule is gone", hairpin, func(string) string { return "" }},
		{"its hairpin rule is another's", hairpin, func(l string) string { return strings.Replace(l, "10.244.", "10.245.", 1) }},
		{"its share is wrong", share, func(l string) string { return strings.Replace(l, "--probability 0.0", "--probability 0.1", 1) }},
		{"its share is gone", share, func(string) string { return "" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			at := c.re.FindAllStringIndex(text, -1)
			if len(at) < 9000 {
				t.Fatalf("%d rules", len(at))
			}
			from, to := at[8999][0], at[8999][1]
			w, err := iptables.Backend{}.Parse(u.Family, []emit.Section{{Tool: iptables.Tool, Family: u.Family, Text: []byte(text[:from] + c.edit(text[from:to]) + text[to:])}}, true)
			if err != nil {
				t.Fatal(err)
			}
			seen := ""
			if _, err := proof.Compare(u.Program, w, func(d proof.Difference) bool { seen = fmt.Sprint(d); return false }); err != nil {
				t.Fatal(err)
			}
			if seen == "" {
				t.Fatal("not seen")
			}
			if n := strings.Count(seen, "\n"); n > 60 {
				t.Errorf("the text has %d lines", n)
			}
		})
	}
}
