package walk_test

import (
	"fmt"
	"net/netip"
	"regexp"
	"testing"

	"svcc/compiler/passes"
	"svcc/emit"
	"svcc/emit/iptables"
	"svcc/emit/walk"
	"svcc/ir"
	"svcc/ir/eval"
	"svcc/ir/irtest"
)

// large is a service of many endpoints, with affinity or without.
func large(affinity int) *ir.Program {
	p := irtest.Shop()
	s := *p.Services[0]
	s.Frontends = s.Frontends[:1]
	s.SourceRanges, s.NodeAllowed, s.HealthCheckNodePort, s.AffinitySeconds = nil, false, 0, affinity
	s.InternalPolicy, s.ExternalPolicy = ir.Cluster, ir.Cluster
	s.Cluster, s.Local, s.Serving = nil, nil, nil
	for i := range 100 {
		s.Cluster = append(s.Cluster, ir.Endpoint{Addr: irtest.Addr(ir.IPv4, 200, i+1), Port: 80})
	}
	p.Services = []*ir.ServicePort{&s}
	return p
}

// oddRules are put into rules of which WalkTo passes over many: what comes back,
// or is decided by the client, must not be passed over.
var oddRules = []struct{ name, re, line string }{
	{"nothing", `\z`, ""},
	{"a client returns", `(?m)^-A (KUBE-SEP-\S+|KUBE-SVC-\S+) .*-j DNAT .*`, "-A $1 -s 198.51.100.77 -j RETURN\n${0}"},
	{"a client is accepted", `(?m)^-A (KUBE-SEP-\S+|KUBE-SVC-\S+) .*-j DNAT .*`, "-A $1 -s 198.51.100.77 -j ACCEPT\n${0}"},
	{"of one protocol", `(?m)^(-A (?:KUBE-SEP-\S+|KUBE-SVC-\S+) .*?)(?:-m tcp )?-p tcp(.* -j DNAT .*)`, "$1-p udp$2"},
	{"a client goes elsewhere", `(?m)^-A (KUBE-SEP-\S+|KUBE-SVC-\S+) .*-j DNAT .*`, "-A $1 -p tcp -s 198.51.100.77 -j DNAT --to-destination 10.9.9.9:9\n${0}"},
	{"another share", `(?m)^(-A KUBE-SV\S+ .*--prob\S*) \S+`, "$1 0.25"},
	{"no share", `(?m)^(-A KUBE-SV\S+ .*--prob\S*) \S+`, "$1 0.0"},
	{"all", `(?m)^(-A KUBE-SV\S+ .*--prob\S*) \S+`, "$1 1.0"},
	{"twice", `(?m)^-A KUBE-SV\S+ .*--prob.*`, "${0}\n${0}"},
	{"a rule between", `(?m)^-A (KUBE-SV\S+) .*--prob.*`, "${0}\n-A $1 -s 198.51.100.77 -j MARK --or-mark 0x1"},
	{"an endpoint's rule is gone", `(?m)^-A (?:KUBE-SEP-\S+|KUBE-SVC-\S+) .*-j DNAT .*\n`, ""},
}

// TestNarrowIsAPartOfTheWhole: what WalkTo gives for each endpoint is its part of
// what Walk gives, whatever stands in one of the rules that it passes over.
func TestNarrowIsAPartOfTheWhole(t *testing.T) {
	for level := range 3 {
		for _, affinity := range []int{0, 600} {
			for _, odd := range oddRules {
				t.Run(fmt.Sprintf("O%d/%d/%s", level, affinity, odd.name), func(t *testing.T) {
					narrowIsPart(t, large(affinity), level, odd.re, odd.line)
				})
			}
		}
	}
}

func narrowIsPart(t *testing.T, p *ir.Program, level int, re, line string) {
	g, err := passes.Graph(p, level)
	if err != nil {
		t.Fatal(err)
	}
	sections, err := iptables.Backend{}.Emit(g, emit.Options{Level: level, Hooks: true})
	if err != nil {
		t.Fatal(err)
	}
	text := string(sections[0].Text)
	found := regexp.MustCompile(re).FindAllStringSubmatchIndex(text, -1)
	for _, i := range []int{0, len(found) / 2, len(found) - 1} {
		m := found[i]
		odd := regexp.MustCompile(re).ExpandString([]byte(text[:m[0]]), line, text, m)
		sections[0].Text = append(odd, text[m[1]:]...)
		w, err := iptables.Backend{}.Parse(p.Family, sections, true)
		if err != nil {
			t.Fatal(err)
		}
		samePart(t, w.(*walk.Walker), p)
	}
}

func samePart(t *testing.T, w *walk.Walker, p *ir.Program) {
	if !w.Skips() {
		t.Fatal("there is nothing that WalkTo would pass over")
	}
	c := eval.NewClients(p)
	for _, src := range []netip.Addr{c.Pod, c.Outside, p.Services[0].Cluster[40].Addr} {
		packet := eval.Packet{Src: netip.AddrPortFrom(src, 40000), Dst: c.To(p.Services[0].Frontends[0], ir.TCP).Dst, Protocol: ir.TCP, In: c.OutsideIn}
		whole, err := w.Walk(packet, c.Host)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // with a shortcut as well
			for _, e := range p.Services[0].Cluster {
				part, err := w.WalkTo(nil, packet, c.Host, e.AddrPort())
				if want := only(whole, eval.Branch{To: e.AddrPort()}); err != nil || !part.Equal(want) {
					t.Fatalf("%s to %s: %v\n%s, want\n%s", packet, e, err, part, want)
				}
			}
		}
	}
}
