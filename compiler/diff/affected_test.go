package diff

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"svcc/compiler/passes"
	"svcc/emit"
	"svcc/emit/iptables"
	"svcc/ir"
	"svcc/ir/irtest"
)

// rulesOf emits a Program's rules.
func rulesOf(t *testing.T, p *ir.Program, level int) string {
	t.Helper()
	g, err := passes.Graph(p, level)
	if err != nil {
		t.Fatal(err)
	}
	s, err := iptables.Backend{}.Emit(g, emit.Options{Level: level, Hooks: true})
	if err != nil {
		t.Fatal(err)
	}
	return string(s[0].Text)
}

func walkerOf(t *testing.T, f ir.Family, text string) emit.Walker {
	t.Helper()
	w, err := iptables.Backend{}.Parse(f, []emit.Section{{Tool: iptables.Tool, Family: f, Text: []byte(text)}}, true)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// shown are the service ports of which all probes together show a difference.
func shown(t *testing.T, p *ir.Program, w emit.Walker) []string {
	t.Helper()
	r, err := CompareLive([]*ir.Program{p}, map[ir.Family]emit.Walker{p.Family: w}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, s := range p.Services {
		if slices.ContainsFunc(r.Changes, func(c Change) bool { return c.Service == s.PortName.String() && c.Packets > 0 }) {
			names[s.Display()] = true
		}
	}
	return append([]string{}, slices.Sorted(maps.Keys(names))...)
}

// Without any one of its rules, and although none says whose it is, a Program's
// service ports are found that all probes together would show.
func TestAffectedByMissingRules(t *testing.T) {
	for _, f := range ir.Families {
		p := irtest.Cluster(rand.New(rand.NewPCG(4, 7)), f, 8)
		for level := range 3 {
			text := rulesOf(t, p, level)
			if got, err := Affected(p, walkerOf(t, f, text), nil); err != nil || len(got) > 0 {
				t.Errorf("level %d, nothing is missing: %v, %v", level, got, err)
			}
			table, cut := "", 0
			lines := strings.SplitAfter(text, "\n")
			for i, line := range lines {
				if strings.HasPrefix(line, "*") {
					table = strings.TrimSpace(line[1:])
				}
				if !strings.HasPrefix(line, "-A ") {
					continue
				}
				w := walkerOf(t, f, strings.Join(slices.Delete(slices.Clone(lines), i, i+1), ""))
				rule := Rule{Family: f.String(), Table: table, Chain: strings.Fields(line)[1], Add: true, Rule: strings.TrimSpace(line)}
				got, err := Affected(p, w, []Rule{rule})
				want := shown(t, p, w)
				if err != nil || !cmp.Equal(append([]string{}, got...), want) {
					t.Errorf("level %d, without %s%v: got %v, want %v", level, line, err, got, want)
				}
				cut += len(want)
			}
			if cut < 50 {
				t.Errorf("level %d: missing rules affect %d service ports", level, cut)
			}
		}
	}
}

// What rules say of themselves counts without a packet; others' rules do where a
// jump is out of place, and only there.
func TestAffectedNamedOrStopped(t *testing.T) {
	p := irtest.Cluster(rand.New(rand.NewPCG(4, 7)), ir.IPv4, 4)
	text := rulesOf(t, p, 1)
	own := walkerOf(t, ir.IPv4, text)
	named := []Rule{
		{Family: "ipv4", Table: "nat", Chain: "KUBE-SVC-X", Add: true, Service: "a/b:c"},
		{Family: "ipv6", Table: "nat", Chain: "KUBE-SVC-X", Add: true, Service: "not/this"},
	}
	if got, err := Affected(p, own, named); err != nil || !cmp.Equal(got, []string{"a/b:c"}) {
		t.Errorf("%v, %v", got, err)
	}
	at := strings.Index(text, "-A PREROUTING")
	above := walkerOf(t, ir.IPv4, text[:at]+"-A PREROUTING -j ACCEPT\n"+text[at:])
	if got, err := Affected(p, above, nil); err != nil || len(got) > 0 {
		t.Errorf("no rule of ours differs: %v, %v", got, err)
	}
	jump := Rule{Family: "ipv4", Table: "nat", Chain: "PREROUTING", Rule: "-A PREROUTING -j KUBE-SERVICES"}
	served := func(s *ir.ServicePort) bool { return len(s.Cluster)+len(s.Local) > 0 }
	got, err := Affected(p, above, []Rule{jump})
	for _, s := range p.Services {
		if err != nil || slices.Contains(got, s.Display()) != served(s) {
			t.Errorf("below a rule that lets nothing through: %v, %v; %s served: %v", got, err, s.Display(), served(s))
		}
	}
}
