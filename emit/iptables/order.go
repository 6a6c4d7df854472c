package iptables

import (
	"slices"
	"strconv"
	"strings"
)

// inOrder renames a table's chains so that their names sort as packets meet
// them from the starts on: iptables-legacy lays chains out in memory by name,
// and look-ups that go on to near memory are faster. Fixed chains keep theirs.
func inOrder(t *table, starts ...string) {
	byChain := map[string][]int{}
	for i, r := range t.rules {
		byChain[r.chain] = append(byChain[r.chain], i)
	}
	names, met := map[string]string{}, map[string]bool{}
	var visit func(chain string)
	visit = func(chain string) {
		for _, i := range byChain[chain] {
			to := targetOf(t.rules[i].action)
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
	t.rename(names)
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

func targetOf(a action) string {
	switch a := a.(type) {
	case jump:
		return string(a)
	case goTo:
		return string(a)
	}
	return ""
}

// rename gives chains new names, and their rules the place of those.
func (t *table) rename(names map[string]string) {
	name := func(old string) string {
		if n := names[old]; n != "" {
			return n
		}
		return old
	}
	for i, c := range t.chains {
		t.chains[i] = name(c)
	}
	t.chains = unseen(t.chains)
	for i := range t.rules {
		r := &t.rules[i]
		r.chain = name(r.chain)
		switch a := r.action.(type) {
		case jump:
			r.action = jump(name(string(a)))
		case goTo:
			r.action = goTo(name(string(a)))
		}
	}
	slices.SortStableFunc(t.ours(), func(a, b rule) int { return strings.Compare(a.chain, b.chain) })
}

// ours are the rules behind the jumps from built-in chains.
func (t *table) ours() []rule {
	for i := range t.rules {
		if ours(t.rules[i].chain) {
			return t.rules[i:]
		}
	}
	return nil
}
