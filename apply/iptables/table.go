package iptables

import (
	"slices"
	"strings"

	rules "svcc/emit/iptables"
	"svcc/ir"
)

// table is our part of one table, as a dump or a ruleset has it.
type table struct {
	chains  []chain
	index   map[string]int // of chains, by name
	rules   []string       // "-A CHAIN ...", each chain's side by side
	builtin []builtin      // those with rules, in order of name
	canary  bool           // kube-proxy's canary is there
	unused  bool           // the kernel has no such table; whoever asks for it makes it
}

// chain is a chain of ours.
type chain struct {
	name     string
	first, n int // its rules
	pinned   bool
	foreign  int // of rules.SharedChain: rules that are not ours, which are not kept
}

// builtin is what concerns us of a built-in chain.
type builtin struct {
	name    string
	foreign int // how many other rules it has
	hooks   []hook
}

// hook is a jump from a built-in chain to one of ours.
type hook struct {
	at   int    // its number in the chain, from 1
	rule string // what follows "-A CHAIN "
	to   string
	dead bool // a rule of somebody else's above it lets nothing through to it
}

func (t *table) chain(name string) *chain {
	if i, ok := t.index[name]; ok {
		return &t.chains[i]
	}
	return nil
}

func (t *table) rulesOf(c *chain) []string { return t.rules[c.first : c.first+c.n] }

func (t *table) hooksOf(name string) *builtin {
	for i := range t.builtin {
		if t.builtin[i].name == name {
			return &t.builtin[i]
		}
	}
	return &builtin{name: name}
}

// tableReader collects a table line by line. What it is given to keep it
// copies, so that a dump's foreign lines are gone with the dump.
type tableReader struct {
	name   string
	family ir.Family
	out    *table
	own    strings.Builder
	spans  []ruleSpan
	pins   map[string]bool
	walled map[string]bool // built-in chains with a rule that stops all
	last   int             // chain of the rule before
}

type ruleSpan struct{ chain, from, to int }

func newTableReader(name string, f ir.Family) *tableReader {
	return &tableReader{
		name: name, family: f, out: &table{index: map[string]int{}}, last: -1,
		pins: map[string]bool{}, walled: map[string]bool{},
	}
}

func (r *tableReader) declare(name string) {
	if _, known := r.out.index[name]; !known {
		name = strings.Clone(name)
		r.out.index[name] = len(r.out.chains)
		r.out.chains = append(r.out.chains, chain{name: name})
	}
}

// keep takes in a rule of a chain of ours; false if the chain is none.
func (r *tableReader) keep(chain, line string) bool {
	if r.last < 0 || r.out.chains[r.last].name != chain {
		i, ok := r.out.index[chain]
		if !ok {
			return false
		}
		r.last = i
	}
	from := r.own.Len()
	r.own.WriteString(line)
	r.spans = append(r.spans, ruleSpan{r.last, from, r.own.Len()})
	r.out.chains[r.last].n++
	return true
}

func (r *tableReader) builtin(name string) *builtin {
	for i := range r.out.builtin {
		if r.out.builtin[i].name == name {
			return &r.out.builtin[i]
		}
	}
	r.out.builtin = append(r.out.builtin, builtin{name: strings.Clone(name)})
	return &r.out.builtin[len(r.out.builtin)-1]
}

// other takes in a rule of a built-in or foreign chain: a hook is kept, of
// anything else it is noted whether it stands in our way. It says whether the
// rule is a hook.
func (r *tableReader) other(chain, line string, builtIn bool) bool {
	to := ""
	if strings.Contains(line, "KUBE-") {
		to = rules.JumpsTo(line)
	}
	isHook := builtIn && (rules.Hooked(r.name, to) || to == rules.SharedChain && rules.OwnShared(r.family, line))
	if !isHook && rules.Owned(r.name, to) {
		r.pins[to] = true
	}
	if !builtIn {
		return false
	}
	b := r.builtin(chain)
	if !isHook {
		b.foreign++
		r.walled[chain] = r.walled[chain] || rules.StopsAll(line)
		return false
	}
	b.hooks = append(b.hooks, hook{
		at: b.foreign + len(b.hooks) + 1, rule: strings.Clone(line[len("-A ")+len(chain)+1:]),
		to: strings.Clone(to), dead: r.walled[chain],
	})
	return true
}

// finish lays each chain's rules side by side.
func (r *tableReader) finish() *table {
	t := r.out
	next := make([]int, len(t.chains))
	first := 0
	for i := range t.chains {
		c := &t.chains[i]
		c.first, next[i], c.pinned = first, first, r.pins[c.name]
		first += c.n
	}
	text := r.own.String()
	t.rules = make([]string, first)
	for _, s := range r.spans {
		t.rules[next[s.chain]] = text[s.from:s.to]
		next[s.chain]++
	}
	slices.SortFunc(t.builtin, func(a, b builtin) int { return strings.Compare(a.name, b.name) })
	return t
}

// ruleChain is the chain of a line "-A CHAIN ...".
func ruleChain(line string) string {
	rest := strings.TrimPrefix(line, "-A ")
	if i := strings.IndexByte(rest, ' '); i >= 0 {
		return rest[:i]
	}
	return rest
}
