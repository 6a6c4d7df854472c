package iptables_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"svcc/emit/iptables"
	"svcc/ir"
	"svcc/ir/irtest"
)

// world is a restore text as chains: of "table chain", in order.
type world struct {
	declared []string
	rules    map[string][]string
}

func worldOf(text string) world {
	w := world{rules: map[string][]string{}}
	table := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		switch f := strings.Fields(line); {
		case line[0] == '*':
			table = line[1:] + " "
		case line[0] == ':':
			w.declared = append(w.declared, table+f[0][1:])
		case f[0] == "-A":
			w.rules[table+f[1]] = append(w.rules[table+f[1]], line)
		}
	}
	return w
}

var leadsTo = regexp.MustCompile(` -[jg] (\S+)$`)

// next is the chain, of the rule's table, to which a rule leads; "" for none.
func (w world) next(chain, rule string) string {
	m := leadsTo.FindStringSubmatch(rule)
	if m == nil || slices.Contains(builtInTargets, m[1]) {
		return ""
	}
	return chain[:strings.Index(chain, " ")+1] + m[1]
}

// depth is how many chains stand on the longest way from one on.
func (w world) depth(chain string, known map[string]int) int {
	if d, ok := known[chain]; ok {
		return d
	}
	deepest := 0
	for _, r := range w.rules[chain] {
		if to := w.next(chain, r); to != "" {
			deepest = max(deepest, w.depth(to, known))
		}
	}
	known[chain] = 1 + deepest
	return 1 + deepest
}

// maxChains is how many chains iptables-nft lets stand on a way beside the
// built-in one, goto counted.
const maxChains = 15

// kept are the chains that a later kube-proxy cleans up in nat, and those that
// it has in filter.
var (
	keptInNAT   = regexp.MustCompile(`^nat KUBE-(SERVICES|NODEPORTS|POSTROUTING|MARK-MASQ|(SVC|SVL|SEP|FW|EXT)-[0-9A-Z]+)$`)
	oursInFiler = regexp.MustCompile(`^filter KUBE-(SERVICES|EXTERNAL-SERVICES|FORWARD|NODEPORTS|FIREWALL|SVCC-[0-9A-Z]+)$`)
	// unreferenced is a chain to which only other programs' rules jump.
	unreferenced = "nat KUBE-MARK-MASQ"
)

// shapely tells what is wrong with the shape of a text, services aside.
func shapely(text string) error {
	w := worldOf(text)
	if err := closed(text, true); err != nil {
		return err
	}
	refs := map[string]bool{}
	depths := map[string]int{}
	for chain, rules := range w.rules {
		if builtIn := !strings.Contains(chain, " KUBE-"); builtIn && w.depth(chain, depths) > 1+maxChains {
			return fmt.Errorf("%s begins a way of %d chains", chain, w.depth(chain, depths)-1)
		}
		for _, r := range rules {
			if to := w.next(chain, r); to != "" {
				refs[to] = true
			}
		}
	}
	for _, chain := range w.declared {
		table, name, _ := strings.Cut(chain, " ")
		switch {
		case !keptInNAT.MatchString(chain) && !oursInFiler.MatchString(chain), !iptables.Owned(table, name), len(name) > 28:
			return fmt.Errorf("chain %s is not of our names", chain)
		case len(w.rules[chain]) == 0 && refs[chain] && chain != "nat KUBE-SERVICES":
			return fmt.Errorf("%s is empty and jumped to", chain)
		case !refs[chain] && chain != unreferenced:
			return fmt.Errorf("nothing leads to %s", chain)
		}
	}
	return nil
}

// lengths tells a chain that is longer than can be explained.
func lengths(p *ir.Program, w world) error {
	ranges := largest(p, func(s *ir.ServicePort) int { return len(s.AllowedSources()) })
	split := width(largest(p, func(s *ir.ServicePort) int { return len(s.Reachable()) }))
	for chain, rules := range w.rules {
		if n := len(rules); n > bound(p, chain, rules, ranges, split) {
			return fmt.Errorf("%s has %d rules", chain, n)
		}
	}
	return nil
}

// bound is how many rules a chain may have. None grows with the number of
// services; a service's own source ranges and splits may count.
func bound(p *ir.Program, chain string, rules []string, ranges, split int) int {
	table, name, _ := strings.Cut(chain, " ")
	const (
		guards = 8  // of a tree
		tree   = 12 // eight branches, and one; or six destinations of a mark and a target
	)
	switch {
	case name == "KUBE-SVCC-HAIRPIN":
		return 2*bits(p) + 1
	case name == "KUBE-SVCC-CHOSEN":
		return 5
	case table == "filter":
		return max(tree, 4*guards+6)
	case name == "KUBE-SERVICES":
		return guards + 3*(1+len(p.Options.NodePorts.Addrs)+len(p.Options.NodePorts.Prefixes))
	case strings.HasPrefix(name, "KUBE-FW-"):
		return 2 * ranges // a mark and a target each
	}
	known := 0
	for _, r := range rules {
		known += strings.Count(r, " --update ")
	}
	return known + max(tree, split)
}

func bits(p *ir.Program) int {
	if p.Family == ir.IPv4 {
		return 32
	}
	return 128
}

// width is in how many parts three levels of splits share so many endpoints.
func width(n int) int {
	w := 1
	for w*w*w < n {
		w++
	}
	return w
}

func largest(p *ir.Program, size func(*ir.ServicePort) int) (n int) {
	for _, s := range p.Services {
		n = max(n, size(s))
	}
	return n
}

// Trees stay shallow and chains short, whatever the cluster.
func TestShape(t *testing.T) {
	for l := 1; l <= 2; l++ {
		t.Run(fmt.Sprintf("O%d", l), func(t *testing.T) {
			t.Run("meeting", rapid.MakeCheck(func(t *rapid.T) { checkShape(t, irtest.Programs().Draw(t, "program"), l) }))
			t.Run("large", rapid.MakeCheck(func(t *rapid.T) { checkShape(t, drawCluster(t, 0, 400), l) }))
			t.Run("larger", func(t *testing.T) {
				for seed := range uint64(2) {
					checkShape(t, irtest.Cluster(dice(seed), ir.Families[seed%2], 4000), l)
				}
			})
			t.Run("endpoints", func(t *testing.T) {
				for _, n := range []int{6, 7, 216, 217, 500, 1000, 3000} {
					checkShape(t, manyEndpoints(n, n%2*60), l)
				}
			})
		})
	}
}

func checkShape(t rapid.TB, p *ir.Program, l int) {
	t.Helper()
	text := level(t, p, l)
	if err := shapely(text); err != nil {
		t.Error(err)
	}
	if err := lengths(p, worldOf(text)); err != nil {
		t.Error(err)
	}
}

// manyEndpoints is a Program whose longest way ends at n endpoints: by a tree,
// source ranges, the policy and splits.
func manyEndpoints(n, affinity int) *ir.Program {
	p := irtest.Cluster(dice(uint64(n)), ir.IPv4, 300)
	s := irtest.Shop().Services[0]
	s.Cluster, s.Serving, s.AffinitySeconds = nil, nil, affinity
	for i := range n {
		s.Cluster = append(s.Cluster, ir.Endpoint{Addr: irtest.Addr(ir.IPv4, 200, i+1), Port: 80})
	}
	slices.SortFunc(s.Cluster, ir.CompareEndpoints)
	for _, e := range s.Reachable() {
		s.Serving = append(s.Serving, e.AddrPort())
	}
	p.Services = append([]*ir.ServicePort{s}, p.Services...)
	p.Known += n
	return p
}

// The checks of the shape can fail.
func TestShapeFaults(t *testing.T) {
	p := irtest.Shop()
	text := level(t, p, 1)
	if err := shapely(text); err != nil {
		t.Fatal(err)
	}
	deep, way := "", "-A KUBE-SERVICES -j KUBE-SVC-Z00\n"
	for i := range 15 {
		deep = fmt.Sprintf(":KUBE-SVC-Z%02d - [0:0]\n", i) + deep
		way += fmt.Sprintf("-A KUBE-SVC-Z%02d -g KUBE-SVC-Z%02d\n", i, i+1)
	}
	way = strings.Replace(way, "-g KUBE-SVC-Z15", "-j RETURN", 1)
	const one, to, end = ":KUBE-SVC-Z - [0:0]\n", "-A KUBE-SERVICES -g KUBE-SVC-Z\n", "-A KUBE-SVC-Z -j RETURN\n"
	for _, c := range []struct{ first, chains, rules, want string }{
		{deep, "", way, "way of 16 chains"},
		{":KUBE-Z - [0:0]\n", "", "", "not of our names"},
		{one, "", end, "nothing leads to nat KUBE-SVC-Z"},
		{one, "", to, "empty and jumped to"},
		{"", "", to, "no target"},
		{one, "", to + end, ""},
	} {
		head, rest, _ := strings.Cut(text, "*nat\n")
		at := strings.Index(rest, "-A ")
		err := shapely(head + "*nat\n" + c.first + rest[:at] + c.chains + strings.Replace(rest[at:], "COMMIT", c.rules+"COMMIT", 1))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.rules, err, c.want)
		}
	}
	long := strings.Replace(text, "-A KUBE-EXT-", strings.Repeat("-A KUBE-SVC-Z -j RETURN\n", 13)+"-A KUBE-EXT-", 1)
	if err := lengths(p, worldOf(long)); err == nil {
		t.Error("a long chain passes")
	}
}
