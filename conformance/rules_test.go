package conformance

import (
	"maps"
	"slices"
	"strings"
)

// rules are the lines of restore text, table by table.
type rules struct {
	chains []string            // ":TABLE CHAIN"
	of     map[string][]string // by "TABLE CHAIN", in order
}

// readRules takes restore text apart.
func readRules(text []byte) rules {
	r := rules{of: map[string][]string{}}
	table := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "*"):
			table = line[1:]
		case strings.HasPrefix(line, ":"):
			r.chains = append(r.chains, ":"+table+" "+strings.Fields(line[1:])[0])
		case strings.HasPrefix(line, "-A "):
			r.add(table, line)
		}
	}
	return r
}

func (r *rules) add(table, line string) {
	chain := table + " " + strings.Fields(line)[1]
	r.of[chain] = append(r.of[chain], line)
}

// shuffled are the chains that several service ports have rules in: kube-proxy
// visits those in the order of a Go map.
var shuffled = []string{"filter KUBE-SERVICES", "filter KUBE-EXTERNAL-SERVICES", "filter KUBE-NODEPORTS", "filter KUBE-PROXY-FIREWALL", "nat KUBE-SERVICES", "nat KUBE-NODEPORTS"}

// difference is one line that only one side has: "- TABLE -A CHAIN ..." is
// kube-proxy's, "+" svcc's; "~" is about the order of a chain.
type difference string

// compare gives what differs, sorted.
func compare(want, got rules) []difference {
	out := lacking(want.chains, got.chains, "- ")
	out = append(out, lacking(got.chains, want.chains, "+ ")...)
	all := maps.Clone(want.of)
	maps.Copy(all, got.of)
	for _, chain := range slices.Sorted(maps.Keys(all)) {
		table, _, _ := strings.Cut(chain, " ")
		w, g := want.of[chain], got.of[chain]
		gone, came := lacking(w, g, "- "+table+" "), lacking(g, w, "+ "+table+" ")
		out = append(append(out, gone...), came...)
		if len(gone)+len(came) == 0 && !sameOrder(chain, w, g) {
			out = append(out, difference("~ "+chain+":\n"+strings.Join(w, "\n")+"\nsvcc:\n"+strings.Join(g, "\n")))
		}
	}
	return out
}

// lacking are the lines of a that b has not as often.
func lacking(a, b []string, sign string) (out []difference) {
	n := map[string]int{}
	for _, l := range b {
		n[l]++
	}
	for _, l := range a {
		if n[l]--; n[l] < 0 {
			out = append(out, difference(sign+l))
		}
	}
	return out
}

// sameOrder compares the order of two lists with the same lines. In a chain of
// many service ports it is that of each one's rules, and that of the last jump.
func sameOrder(chain string, a, b []string) bool {
	if !slices.Contains(shuffled, chain) {
		return slices.Equal(a, b)
	}
	return mustBeLast(a) == mustBeLast(b) && maps.EqualFunc(byServicePort(a), byServicePort(b), slices.Equal)
}

// byServicePort parts the rules of a chain by the service port that their comments
// begin with. The jumps to node ports, one an address, have none.
func byServicePort(list []string) map[string][]string {
	out := map[string][]string{}
	for _, line := range list {
		_, comment, _ := strings.Cut(line, "--comment ")
		name, _, _ := strings.Cut(strings.TrimPrefix(comment, `"`), " ")
		if !isNodePortsJump(line) {
			out[name] = append(out[name], line)
		}
	}
	return out
}

// mustBeLast counts the rules after the first that says to be the last.
func mustBeLast(list []string) int {
	i := slices.IndexFunc(list, isNodePortsJump)
	return len(list) - i
}

func isNodePortsJump(line string) bool {
	return strings.Contains(line, "NOTE: this must be the last rule in this chain")
}
