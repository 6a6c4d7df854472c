package golden

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"svcc/cmd/svcc/cli"
	"svcc/compiler"
	"svcc/ir"
)

// references are clusters for which it is known what kube-proxy writes.
var references = []struct {
	name  string
	rules string
	flags []string // and paths
}{
	{"cluster", "testdata/kube-proxy/iptables.txt",
		[]string{"testdata/kube-proxy/cluster", "--node=node-0", "--cluster-cidr=10.128.0.0/9,fd00:10:128::/48"}},
	{"example", "testdata/kube-proxy/example/iptables.txt",
		[]string{"testdata/kube-proxy/example/cluster.yaml", "--node=node-a", "--cluster-cidr=10.244.0.0/16"}},
}

// ruleTable is one table, taken apart line by line.
type ruleTable struct {
	chains []string
	hooks  []string            // rules of built-in chains, top to bottom in each chain
	rules  map[string][]string // of the other chains, by chain
}

// ruleTables are the tables of one family.
type ruleTables map[string]*ruleTable

func (ts ruleTables) table(name string) *ruleTable {
	if ts[name] == nil {
		ts[name] = &ruleTable{rules: map[string][]string{}}
	}
	return ts[name]
}

// sortHooks puts the rules of built-in chains in the order of the chains'
// names, top to bottom in each.
func (t *ruleTable) sortHooks() {
	slices.SortStableFunc(t.hooks, func(a, b string) int { return strings.Compare(chainOf(a), chainOf(b)) })
}

// all are the rules of all chains but the built-in ones, sorted.
func (t *ruleTable) all() []string {
	var out []string
	for _, rules := range t.rules {
		out = append(out, rules...)
	}
	slices.Sort(out)
	return out
}

// chainOf is the chain to which a line "-A CHAIN ..." appends.
func chainOf(line string) string {
	f := strings.Fields(line)
	return f[1]
}

func isBuiltIn(chain string) bool { return !strings.HasPrefix(chain, "KUBE-") }

// read takes in a line of restore text; table is the one that is open.
func (ts ruleTables) read(line, table string) {
	if !strings.HasPrefix(line, ":") && !strings.HasPrefix(line, "-A ") {
		return
	}
	t := ts.table(table)
	switch {
	case line[0] == ':':
		t.chains = append(t.chains, strings.Fields(line[1:])[0])
	case isBuiltIn(chainOf(line)):
		t.hooks = append(t.hooks, line)
	default:
		t.rules[chainOf(line)] = append(t.rules[chainOf(line)], line)
	}
}

var oneByOne = regexp.MustCompile(`^# iptables -t (\w+) -I (.*)$`)

// insert takes in a rule that kube-proxy inserted by itself.
func (ts ruleTables) insert(table, rule string) {
	t := ts.table(table)
	t.hooks = append([]string{"-A " + rule}, t.hooks...)
}

// readReference reads what kube-proxy wrote.
func readReference(t testing.TB, file string) map[ir.Family]ruleTables {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	out := map[ir.Family]ruleTables{}
	var ts ruleTables
	table := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		for _, f := range ir.Families {
			if strings.HasPrefix(line, fmt.Sprintf("# iptables IPv%d: ", f)) && out[f] == nil {
				ts = ruleTables{}
				out[f] = ts
			}
		}
		if m := oneByOne.FindStringSubmatch(line); m != nil {
			ts.insert(m[1], m[2])
		} else if strings.HasPrefix(line, "*") {
			table = line[1:]
		} else {
			ts.read(line, table)
		}
	}
	return out
}

// readText takes our own text apart.
func readText(text []byte) ruleTables {
	ts := ruleTables{}
	table := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "*") {
			table = line[1:]
			continue
		}
		ts.read(line, table)
	}
	return ts
}

// compileArgs compiles by the flags and paths of svcc build. The input must be
// without error.
func compileArgs(t testing.TB, args ...string) *compiler.Result {
	t.Helper()
	o, err := cli.BuildOptions(append(args, "-O0"), "")
	if err != nil {
		t.Fatal(err)
	}
	r, err := compiler.Compile(o, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.Units == nil {
		t.Fatalf("nothing is compiled: %v", r.Diagnostics)
	}
	return r
}

// eachReference runs f for each cluster and family.
func eachReference(t *testing.T, f func(t *testing.T, u compiler.Unit, want, got ruleTables)) {
	for _, ref := range references {
		want := readReference(t, ref.rules)
		r := compileArgs(t, ref.flags...)
		if len(r.Units) == 0 || ref.name == "cluster" && len(r.Units) != 2 {
			t.Fatalf("%s: %d families", ref.name, len(r.Units))
		}
		for _, u := range r.Units {
			t.Run(fmt.Sprintf("%s/%s", ref.name, u.Family), func(t *testing.T) {
				f(t, u, want[u.Family], readText(u.Sections[0].Text))
			})
		}
	}
}

// Level 0 has the chain and rule lines that kube-proxy writes, and the same
// jumps from the built-in chains in the same order. It declares KUBE-FIREWALL
// in IPv6 as well, which kube-proxy makes but never fills.
func TestReferenceLines(t *testing.T) {
	eachReference(t, func(t *testing.T, u compiler.Unit, want, got ruleTables) {
		if u.Family == ir.IPv6 {
			want.declareFirewall()
		}
		if len(got) != len(want) || len(want) != 2 {
			t.Fatalf("tables: %d, want %d", len(got), len(want))
		}
		for name, w := range want {
			g := got.table(name)
			w.sortHooks()
			g.sortHooks()
			for _, c := range []struct {
				what      string
				want, got []string
			}{
				{"jumps from built-in chains", w.hooks, g.hooks},
				{"chains", sorted(w.chains), sorted(g.chains)},
				{"rules", w.all(), g.all()},
			} {
				if len(c.want) == 0 {
					t.Errorf("%s: the reference has no %s", name, c.what)
				}
				if d := cmp.Diff(c.want, c.got); d != "" {
					t.Errorf("%s: %s (-kube-proxy +svcc):\n%s", name, c.what, d)
				}
			}
		}
	})
}

// sharedChains have rules of several services, in no order in the reference.
var sharedChains = []string{"KUBE-SERVICES", "KUBE-EXTERNAL-SERVICES", "KUBE-NODEPORTS", "KUBE-PROXY-FIREWALL"}

// The order inside each chain is kube-proxy's. Of chains that services share it
// is by service, and in nat the jump to the node ports is last.
func TestReferenceOrder(t *testing.T) {
	eachReference(t, func(t *testing.T, u compiler.Unit, want, got ruleTables) {
		n := 0
		for name, w := range want {
			for chain, rules := range w.rules {
				if slices.Contains(sharedChains, chain) {
					continue
				}
				n++
				if d := cmp.Diff(rules, got.table(name).rules[chain]); d != "" {
					t.Errorf("%s %s (-kube-proxy +svcc):\n%s", name, chain, d)
				}
			}
			for _, chain := range sharedChains {
				if err := byService(u.Program, name, chain, got.table(name).rules[chain]); err != nil {
					t.Errorf("%s %s: %v", name, chain, err)
				}
			}
		}
		if n < 15 {
			t.Errorf("only %d chains were compared", n)
		}
	})
}

// byService says whether the rules of a shared chain are in the services'
// order, sorted by name and protocol.
func byService(p *ir.Program, table, chain string, rules []string) error {
	last := 0
	for i, rule := range rules {
		if strings.Contains(rule, "must be the last rule in this chain") {
			if i != len(rules)-1 {
				return fmt.Errorf("rule %d of %d says that it must be the last", i+1, len(rules))
			}
			return nil
		}
		at := slices.IndexFunc(p.Services, func(s *ir.ServicePort) bool { return isOf(rule, s) })
		if at < 0 || at < last {
			return fmt.Errorf("%s\n  is of service %d after one of service %d", rule, at, last)
		}
		last = at
	}
	if table == "nat" && chain == "KUBE-SERVICES" {
		return fmt.Errorf("no jump to the node ports at the end")
	}
	return nil
}

// isOf says whether a rule's comment and protocol are a service port's.
func isOf(rule string, s *ir.ServicePort) bool {
	_, comment, _ := strings.Cut(rule, " --comment ")
	name, _, _ := strings.Cut(strings.TrimPrefix(comment, `"`), " ")
	health := strings.Contains(comment, "health check node port")
	return name == s.Display() && (health || strings.Contains(rule, " -p "+s.Protocol.String()+" "))
}

func sorted(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return list
}

// declareFirewall declares the chain that kube-proxy makes by a command of its
// own, and in IPv4 flushes in its restore input.
func (ts ruleTables) declareFirewall() {
	t := ts.table("filter")
	if !slices.Contains(t.chains, "KUBE-FIREWALL") {
		t.chains = append(t.chains, "KUBE-FIREWALL")
	}
}

// restorable is the reference of one family as text that iptables-restore
// loads: with the jumps from the built-in chains, and the one to the node
// ports at the end of its chain, where kube-proxy writes it.
func (ts ruleTables) restorable() []byte {
	var b bytes.Buffer
	ts.declareFirewall()
	for _, name := range []string{"filter", "nat"} {
		t := ts.table(name)
		fmt.Fprintf(&b, "*%s\n", name)
		for _, c := range t.chains {
			fmt.Fprintf(&b, ":%s - [0:0]\n", c)
		}
		var last []string
		for _, line := range append(slices.Clone(t.hooks), t.inChainOrder()...) {
			if strings.Contains(line, "must be the last rule in this chain") {
				last = append(last, line)
				continue
			}
			fmt.Fprintln(&b, line)
		}
		for _, line := range last {
			fmt.Fprintln(&b, line)
		}
		b.WriteString("COMMIT\n")
	}
	return b.Bytes()
}

// inChainOrder are the rules, chain by chain as they are declared.
func (t *ruleTable) inChainOrder() []string {
	var out []string
	for _, c := range t.chains {
		out = append(out, t.rules[c]...)
	}
	return out
}
