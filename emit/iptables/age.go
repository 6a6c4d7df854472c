package iptables

import (
	"math"
	"slices"
	"strings"

	"svcc/emit"
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
	seen func(w *walker, table, chain string, r *parsedRule) bool
}

// signs is the one table of them. Sources are pull requests of
// kubernetes/kubernetes; without one, dumps of nodes of both versions differ so.
var signs = []sign{
	{what: "probabilities of five digits", before: 17, source: "dumps", seen: coarse},
	{what: "masquerading that leaves the mark", before: 19, source: "#92035, also in later patches of 1.16 to 1.18", seen: leavesMark},
	{what: "physdev matches", before: 20, source: "dumps", seen: has("", "-m physdev ")},
	{what: "KUBE-SERVICES called from INPUT", before: 20, source: "#95252", seen: func(w *walker, table, chain string, r *parsedRule) bool {
		return table == "filter" && chain == "INPUT" && w.jumpsTo(r, ChainServices)
	}},
	{what: "KUBE-MARK-MASQ called from KUBE-SERVICES", before: 22, source: "#96959", seen: func(w *walker, table, chain string, r *parsedRule) bool {
		return table == "nat" && chain == ChainServices && w.jumpsTo(r, ChainMarkMasq) && w.plain(r)
	}},
	{what: "KUBE-XLB- chains", before: 24, source: "#109060", seen: inChain("KUBE-XLB-")},
	{what: "two conntrack rules in KUBE-FORWARD", before: 24, source: "dumps", seen: has(ChainForward, "conntrack pod source rule")},
	{what: `comments "Balancing rule"`, before: 24, source: "#109060", seen: has("KUBE-SVC-", `"Balancing rule `)},
	{what: "KUBE-EXT- chains", from: 24, source: "#109060", seen: inChain("KUBE-EXT-")},
	{what: "jumps to KUBE-MARK-DROP", before: 26, source: "KEP-3178: #110289, #110628", seen: func(w *walker, _, _ string, r *parsedRule) bool {
		return w.jumpsTo(r, ChainMarkDrop)
	}},
	{what: "node ports at ::1", before: 26, source: "#108250", seen: func(w *walker, _, chain string, r *parsedRule) bool {
		return w.rs.family == ir.IPv6 && chain == ChainServices && w.jumpsTo(r, chainNodePorts) &&
			strings.Contains(r.text, "--dst-type LOCAL") && !strings.Contains(r.text, " ::1")
	}},
	{what: "KUBE-PROXY-FIREWALL", from: 25, source: "#110289", seen: inChain(ChainProxyFirewall)},
	{what: "KUBE-IPVS-FILTER", from: 26, source: "#108460", seen: inChain(ChainIPVSFilter)},
	{what: "counters of invalid packets", from: 30, source: "#122812", seen: has(ChainForward, "ct_state_invalid_dropped_pkts")},
	{what: "counters of localhost node ports", from: 31, source: "#125015", seen: has(chainNodePorts, "localhost_nps_accepted_pkts")},
}

// has looks for words in the rules of chains of a name's beginning, of any of
// kube-proxy's if it is "".
func has(prefix, words string) func(*walker, string, string, *parsedRule) bool {
	return func(_ *walker, _, chain string, r *parsedRule) bool {
		return ours(chain) && strings.HasPrefix(chain, prefix) && strings.Contains(r.text, words)
	}
}

func inChain(prefix string) func(*walker, string, string, *parsedRule) bool { return has(prefix, "") }

func (w *walker) jumpsTo(r *parsedRule, chain string) bool {
	return r.jumps() && w.rs.chains[r.target].name == chain
}

// plain says that a rule asks no set, as rules of IPVS mode do to this day.
func (w *walker) plain(r *parsedRule) bool {
	return !slices.ContainsFunc(w.rs.conds[r.first:r.first+int32(r.n)], func(c condition) bool { return c.kind == condSet })
}

// coarse says that a probability is no 1/n with the kernel's 31 bits, but is one
// with five digits.
func coarse(_ *walker, _, chain string, r *parsedRule) bool {
	_, rest, found := strings.Cut(r.text, "--probability ")
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
func leavesMark(w *walker, table, chain string, r *parsedRule) bool {
	return table == "nat" && chain == ChainPostrouting && r.do == doMasquerade && strings.Contains(r.text, "-m mark --mark ")
}

// Age looks for signs in what packets may meet: chains that nothing jumps to may
// be of the version before. Signs that contradict each other say nothing.
func (w *walker) Age() emit.Age {
	var age emit.Age
	var what []string
	for _, s := range w.signs() {
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
func (w *walker) signs() (out []sign) {
	seen := make([]bool, len(signs))
	for c, reached := range w.reachable() {
		chain := &w.rs.chains[c]
		if !reached || chain.table != "nat" && chain.table != "filter" {
			continue
		}
		rules := w.rs.rulesOf(int32(c))
		for i := range rules {
			for n := range signs {
				seen[n] = seen[n] || signs[n].seen(w, chain.table, chain.name, &rules[i])
			}
		}
	}
	for n := range signs {
		if seen[n] {
			out = append(out, signs[n])
		}
	}
	if w.rs.around != nil && !seen[signIndex("KUBE-IPVS-FILTER")] {
		out = append(out, sign{what: "IPVS mode without KUBE-IPVS-FILTER", before: 26})
	}
	return out
}

func signIndex(what string) int {
	return slices.IndexFunc(signs, func(s sign) bool { return s.what == what })
}

// Remarks tell what is unusual and no difference.
func (w *walker) Remarks() []string { return w.order() }
