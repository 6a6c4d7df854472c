package proof_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"svcc/compiler"
	"svcc/compiler/proof"
	"svcc/emit"
	"svcc/emit/ipvs"
	"svcc/emit/mode"
	"svcc/ir"
)

// layout is a text of rules that is right, and how one is parsed.
type layout struct {
	name  string
	unit  compiler.Unit
	text  string
	walks func(text string) (emit.Walker, error)
}

// layouts are ours at each level and in IPVS mode, both families, and what a node
// of kube-proxy's dumps.
func layouts(t *testing.T) (out []layout) {
	t.Helper()
	tables := func(name string, u compiler.Unit, text string) layout {
		return layout{name, u, text, func(text string) (emit.Walker, error) {
			return mode.IPTables.Backend.Parse(u.Family, []emit.Section{{Tool: emit.ToolTables, Family: u.Family, Text: []byte(text)}}, true)
		}}
	}
	for level := range 3 {
		v4, v6 := unitsAt(t, level)
		for _, u := range []compiler.Unit{v4, v6} {
			out = append(out, tables(fmt.Sprintf("O%d/%s", level, u.Family), u, string(u.Sections[0].Text)))
		}
	}
	for level := range 2 {
		v4, v6 := virtualUnits(t, level)
		for _, u := range []compiler.Unit{v4, v6} {
			out = append(out, layout{fmt.Sprintf("virtual%d/%s", level, u.Family), u, joined(u), func(text string) (emit.Walker, error) {
				return ipvs.Backend{}.Parse(u.Family, parted(u.Family, text), true)
			}})
		}
	}
	saved, err := os.ReadFile("../../emit/iptables/testdata/worked.nft.save")
	if err != nil {
		t.Fatal(err)
	}
	return append(out, tables("kube-proxy/ipv4", example(t), string(saved)))
}

// example is the cluster of kube-proxy's dump.
func example(t *testing.T) compiler.Unit {
	t.Helper()
	o := compiler.NewOptions()
	node, pods := "node-a", "10.244.0.0/16"
	o.Paths, o.Flags.Node, o.Flags.ClusterCIDR = []string{"../../golden/testdata/kube-proxy/example/cluster.yaml"}, &node, &pods
	r, err := compiler.Compile(o, nil)
	if err != nil || len(r.Units) != 1 {
		t.Fatal(err, r.Diagnostics)
	}
	return r.Units[0]
}

// planted are those that a layout has chains or tools for.
func (l *layout) planted() []planted {
	list := slices.Concat(tooMany, ofTables)
	if strings.HasPrefix(l.name, "virtual") {
		list = slices.Concat(tooMany, ofVirtual)
	}
	if l.unit.Family == ir.IPv6 {
		list = slices.Clone(list)
		for i := range list {
			list[i].line = inSixth(list[i].line)
		}
	}
	return list
}

// sees says whether verify finds a difference in a text, and whether the proof of
// a build does. The error is of a text that cannot be read.
func (l *layout) sees(text string) (verify, build bool, err error) {
	w, err := l.walks(text)
	if err != nil {
		return false, false, err
	}
	_, err = proof.Compare(l.unit.Program, w.Own(), func(proof.Difference) bool { verify = true; return false })
	return verify || err != nil, proof.First(l.unit.Program, w) != nil, nil
}

// TestRulesTooMany plants what nobody should have made, at the top and at the end
// of its chain: verify sees it, and so does the proof of a build.
func TestRulesTooMany(t *testing.T) {
	for _, l := range layouts(t) {
		t.Run(l.name, func(t *testing.T) {
			if verify, build, err := l.sees(l.text); verify || build || err != nil {
				t.Fatalf("a difference where nothing is planted; %v", err)
			}
			n := 0
			for _, p := range l.planted() {
				for place, top := range map[string]bool{"top": true, "bottom": false} {
					text := p.place(l.text, top)
					if text == l.text {
						t.Errorf("%s: nothing is planted", p.line)
						continue
					}
					where := l.name + "/" + place
					verify, build, err := l.sees(text)
					if err != nil {
						if !strings.Contains(err.Error(), "declared in table") { // a layout need not have every chain
							t.Error(err)
						}
						continue
					}
					if idle := p.idleAt(where); idle == verify || idle == build {
						t.Errorf("%s: %s: verify sees it: %v, a build: %v", where, p.line, verify, build)
					}
					n++
				}
			}
			if n < 60 {
				t.Errorf("only %d are planted", n)
			}
		})
	}
}

// idleAt says whether what is planted changes nothing at a place.
func (p planted) idleAt(where string) bool {
	re, _, ok := strings.Cut(p.idle, ": ")
	return ok && regexp.MustCompile(re).MatchString(where)
}

// needless are rules of mode iptables that no packet of the clusters here misses.
var needless = regexp.MustCompile(strings.Join([]string{
	`: -A KUBE-FW-\S+ .*"other traffic to `,                            // a remark
	`O0/ipv6: -A (INPUT|OUTPUT) -j KUBE-FIREWALL`,                      // an empty chain
	`O0/ipv6: -A INPUT .* -j KUBE-NODEPORTS`,                           // likewise: no health check
	`O[12]/.*-A KUBE-MARK-MASQ `,                                       // for other programs' rules
	`O[12]/.*-A KUBE-SVCC-HAIRPIN `,                                    // TestPlantedBits has these
	`O[12]/.*-A KUBE-FORWARD -m mark `,                                 // known flows are accepted in any case
	`O[12]/.*-A KUBE-EXTERNAL-SERVICES ! -i lo .* -j KUBE-SVCC-CHOSEN`, // no endpoint is the node, see spaced
	`O[12]/.*-A KUBE-EXTERNAL-SERVICES -p tcp -j KUBE-NODEPORTS`,       // no port is refused that a health check has, see spaced
	`kube-proxy.*-A FORWARD .* -j KUBE-EXTERNAL-SERVICES`,              // nothing forwarded is refused there
	`kube-proxy.*-A OUTPUT .* -j KUBE-PROXY-FIREWALL`,                  // the node is in the only source ranges
}, "|"))

// TestRulesTooFew leaves out each rule, hooks included, in turn: verify sees it, and
// so does the proof of a build. Lines of IPVS mode are TestEveryLineCounts'.
func TestRulesTooFew(t *testing.T) {
	for _, l := range layouts(t) {
		if strings.HasPrefix(l.name, "virtual") {
			continue
		}
		t.Run(l.name, func(t *testing.T) {
			lines := strings.SplitAfter(l.text, "\n")
			n := 0
			for i, line := range lines {
				if !strings.HasPrefix(line, "-A ") || needless.MatchString(l.name+": "+line) {
					continue
				}
				n++
				verify, build, err := l.sees(strings.Join(slices.Concat(lines[:i], lines[i+1:]), ""))
				if err != nil || !verify || !build {
					t.Errorf("verify misses it: %v, a build: %v, %v: %s", verify, build, err, line)
				}
			}
			if n < 40 {
				t.Errorf("only %d rules were left out", n)
			}
		})
	}
}
