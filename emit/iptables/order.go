package iptables

import (
	"slices"
	"strconv"
	"strings"

	"svcc/emit/iptables/rule"
)

// inOrder renames a table's chains so that their names sort as packets meet
// them from the starts on: iptables-legacy lays chains out in memory by name,
// and look-ups that go on to near memory are faster. Fixed chains keep theirs.
func inOrder(t *rule.Table, starts ...string) {
	byChain := map[string][]int{}
	for i, r := range t.Rules {
		byChain[r.Chain] = append(byChain[r.Chain], i)
	}
	names, met := map[string]string{}, map[string]bool{}
	var visit func(chain string)
	visit = func(chain string) {
		for _, i := range byChain[chain] {
			to := targetOf(t.Rules[i].Action)
			if _, ours := byChain[to]; !ours || met[to] {
				continue
			}
			met[to] = true
			if numbered(to) {
				names[to] = to[:strings.LastIndex(to, "-")+1] + number(len(names))
			}
			visit(to)
		}
	}
	for _, s := range starts {
		visit(s)
	}
	rename(t, names)
}

// numbered says whether a chain may have another name: those of trees, service
// ports and shares may.
func numbered(chain string) bool {
	for _, p := range []string{"KUBE-SVC-", "KUBE-SVL-", "KUBE-EXT-", "KUBE-FW-", filterTree} {
		if strings.HasPrefix(chain, p) {
			return chain != chainNew && chain != chainHairpin && chain != chainChosen
		}
	}
	return false
}

// number is five characters that sort as numbers do. Five keep it apart from
// every name with a hash, which has more.
func number(n int) string {
	s := strings.ToUpper(strconv.FormatInt(int64(n), 32))
	return strings.Repeat("0", 5-len(s)) + s
}

func targetOf(a rule.Action) string {
	switch a := a.(type) {
	case rule.Jump:
		return string(a)
	case rule.GoTo:
		return string(a)
	}
	return ""
}

// rename gives chains new names, and their rules the place of those.
func rename(t *rule.Table, names map[string]string) {
	name := func(old string) string {
		if n := names[old]; n != "" {
			return n
		}
		return old
	}
	for i, c := range t.Chains {
		t.Chains[i] = name(c)
	}
	t.Chains = unseen(t.Chains)
	for i := range t.Rules {
		r := &t.Rules[i]
		r.Chain = name(r.Chain)
		switch a := r.Action.(type) {
		case rule.Jump:
			r.Action = rule.Jump(name(string(a)))
		case rule.GoTo:
			r.Action = rule.GoTo(name(string(a)))
		}
	}
	slices.SortStableFunc(behindJumps(t), func(a, b rule.Rule) int { return strings.Compare(a.Chain, b.Chain) })
}

// behindJumps are the rules behind the jumps from built-in chains.
func behindJumps(t *rule.Table) []rule.Rule {
	for i := range t.Rules {
		if ours(t.Rules[i].Chain) {
			return t.Rules[i:]
		}
	}
	return nil
}
