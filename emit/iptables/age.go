package iptables

import (
	"math"
	"slices"
	"strings"

	"svcc/emit"
	"svcc/emit/walk"
	"svcc/ir"
	"svcc/ir/eval"
)

// sign is something in rules that kube-proxies of some versions write, and later
// ones do not, or the other way round. Versions are minor ones of Kubernetes 1.
type sign struct {
	what   string
	from   int // 0: whatever came before
	before int // 0: to this day
	source string
	// seen looks at one rule that packets may meet, in a chain of a table.
	seen func(rs ruleset, table, chain string, r *walk.Rule) bool
}

// signs is the one table of them. Sources are pull requests of
// kubernetes/kubernetes; without one, dumps of nodes of both versions differ so.
var signs = []sign{
	{what: "probabilities of five digits", before: 17, source: "dumps", seen: coarse},
	{what: "masquerading that leaves the mark", before: 19, source: "#92035, also in later patches of 1.16 to 1.18", seen: leavesMark},
	{what: "physdev matches", before: 20, source: "dumps", seen: has("", "-m physdev ")},
	{what: "KUBE-SERVICES called from INPUT", before: 20, source: "#95252", seen: func(rs ruleset, table, chain string, r *walk.Rule) bool {
		return table == "filter" && chain == "INPUT" && jumpsTo(rs, r, ChainServices)
	}},
	{what: "KUBE-MARK-MASQ called from KUBE-SERVICES", before: 22, source: "#96959", seen: func(rs ruleset, table, chain string, r *walk.Rule) bool {
		return table == "nat" && chain == ChainServices && jumpsTo(rs, r, ChainMarkMasq) && plain(rs, r)
	}},
	{what: "KUBE-XLB- chains", before: 24, source: "#109060", seen: inChain("KUBE-XLB-")},
	{what: "two conntrack rules in KUBE-FORWARD", before: 24, source: "dumps", seen: has(ChainForward, "conntrack pod source rule")},
	{what: `comments "Balancing rule"`, before: 24, source: "#109060", seen: has("KUBE-SVC-", `"Balancing rule `)},
	{what: "KUBE-EXT- chains", from: 24, source: "#109060", seen: inChain("KUBE-EXT-")},
	{what: "jumps to KUBE-MARK-DROP", before: 26, source: "KEP-3178: #110289, #110628", seen: func(rs ruleset, _, _ string, r *walk.Rule) bool {
		return jumpsTo(rs, r, ChainMarkDrop)
	}},
	{what: "node ports at ::1", before: 26, source: "#108250", seen: func(rs ruleset, _, chain string, r *walk.Rule) bool {
		return rs.Family == ir.IPv6 && chain == ChainServices && jumpsTo(rs, r, chainNodePorts) &&
			strings.Contains(r.Text, "--dst-type LOCAL") && !strings.Contains(r.Text, " ::1")
	}},
	{what: "KUBE-PROXY-FIREWALL", from: 25, source: "#110289", seen: inChain(ChainProxyFirewall)},
	{what: "KUBE-IPVS-FILTER", from: 26, source: "#108460", seen: inChain(ChainIPVSFilter)},
	{what: "counters of invalid packets", from: 30, source: "#122812", seen: has(ChainForward, "ct_state_invalid_dropped_pkts")},
	{what: "counters of localhost node ports", from: 31, source: "#125015", seen: has(chainNodePorts, "localhost_nps_accepted_pkts")},
}

// has looks for words in the rules of chains of a name's beginning, of any of
// kube-proxy's if it is "".
func has(prefix, words string) func(ruleset, string, string, *walk.Rule) bool {
	return func(_ ruleset, _, chain string, r *walk.Rule) bool {
		return ours(chain) && strings.HasPrefix(chain, prefix) && strings.Contains(r.Text, words)
	}
}

func inChain(prefix string) func(ruleset, string, string, *walk.Rule) bool {
	return has(prefix, "")
}

func jumpsTo(rs ruleset, r *walk.Rule, chain string) bool {
	return r.Jumps() && rs.Chains[r.Target].Name == chain
}

// plain says that a rule asks no set, as rules of IPVS mode do to this day.
func plain(rs ruleset, r *walk.Rule) bool {
	return !slices.ContainsFunc(rs.Conds[r.First:r.First+int32(r.N)], func(c walk.Cond) bool { return c.Kind == walk.CondSet })
}

// coarse says that a probability is no 1/n with the kernel's 31 bits, but is one
// with five digits.
func coarse(_ ruleset, _, chain string, r *walk.Rule) bool {
	_, rest, found := strings.Cut(r.Text, "--probability ")
	if !found || !strings.HasPrefix(chain, "KUBE-SVC-") {
		return false
	}
	word, _, _ := strings.Cut(rest, " ")
	exact, ok := parseProbability(word)
	if !ok || exact.IsZero() || strings.HasPrefix(exact.String(), "1/") || exact == eval.Whole {
		return false
	}
	near := 1 / math.Round(1/exact.Float())
	return math.Abs(near-exact.Float()) <= evenTolerance
}

// leavesMark says that a rule masquerades by the mark and nothing took it off.
func leavesMark(rs ruleset, table, chain string, r *walk.Rule) bool {
	return table == "nat" && chain == ChainPostrouting && r.Do == walk.DoMasquerade && strings.Contains(r.Text, "-m mark --mark ")
}

// Age looks for signs in what packets may meet: chains that nothing jumps to may
// be of the version before. Signs that contradict each other say nothing.
func (a *audited) Age() emit.Age {
	var age emit.Age
	var what []string
	for _, s := range a.signs() {
		age.From = max(age.From, s.from)
		switch {
		case s.before == 0 || age.Before != 0 && s.before > age.Before:
		case s.before == age.Before:
			what = append(what, s.what)
		default:
			age.Before, what = s.before, []string{s.what}
		}
	}
	if age.Before != 0 && age.From >= age.Before {
		return emit.Age{}
	}
	age.Signs = strings.Join(what, ", ")
	return age
}

// signs are those that are seen, in the table's order.
func (a *audited) signs() (out []sign) {
	seen := make([]bool, len(signs))
	for c, reached := range a.Reachable() {
		chain := &a.rs.Chains[c]
		if !reached || chain.Table != "nat" && chain.Table != "filter" {
			continue
		}
		rules := a.rs.RulesOf(int32(c))
		for i := range rules {
			for n := range signs {
				seen[n] = seen[n] || signs[n].seen(a.rs, chain.Table, chain.Name, &rules[i])
			}
		}
	}
	for n := range signs {
		if seen[n] {
			out = append(out, signs[n])
		}
	}
	if a.rs.Around != nil && !seen[signIndex("KUBE-IPVS-FILTER")] {
		out = append(out, sign{what: "IPVS mode without KUBE-IPVS-FILTER", before: 26})
	}
	return out
}

func signIndex(what string) int {
	return slices.IndexFunc(signs, func(s sign) bool { return s.what == what })
}

// Remarks tell what is unusual and no difference.
func (a *audited) Remarks() []string { return order(a.rs) }
