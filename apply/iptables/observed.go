package iptables

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"svcc/apply"
	rules "svcc/emit/iptables"
	"svcc/ir"
)

// observed implements apply.Observed.
type observed struct {
	families [2]familyState // as in ir.Families
}

// familyState is what is ours of one family.
type familyState struct {
	trouble string // why it could not be read
	tables  map[string]*table
}

func (o *observed) hasTable(name string) bool {
	return o.families[0].tables[name] != nil || o.families[1].tables[name] != nil
}

// Equal implements apply.Observed. Where foreign rules stand among hooks does
// not count, nor does a table that one of both was not asked for.
func (o *observed) Equal(other apply.Observed) bool {
	x, ok := other.(*observed)
	if !ok {
		return false
	}
	for i, f := range ir.Families {
		a, b := &o.families[i], &x.families[i]
		if (a.trouble == "") != (b.trouble == "") {
			return false
		}
		for _, name := range tables {
			if a.trouble == "" && !equalTables(f, name, a.tables[name], b.tables[name]) {
				return false
			}
		}
	}
	return true
}

func equalTables(f ir.Family, name string, a, b *table) bool {
	d := &delta{family: f, name: name, have: a, want: b}
	d.chainDelta(false)
	sameShared := (a.chain(rules.SharedChain) == nil) == (b.chain(rules.SharedChain) == nil)
	for _, chain := range builtins[name] {
		same := slices.EqualFunc(a.hooksOf(chain).hooks, b.hooksOf(chain).hooks, func(x, y hook) bool {
			return x.dead == y.dead && d.sameHook(chain, x, y)
		})
		if !same {
			return false
		}
	}
	return d.none() && sameShared
}

const observedHead = "svcc iptables observed v1"

// Marshal implements apply.Observed: lines of text.
func (o *observed) Marshal() []byte {
	var b strings.Builder
	b.WriteString(observedHead + "\n")
	for i, f := range ir.Families {
		s := &o.families[i]
		fmt.Fprintf(&b, "family %s %q\n", f, s.trouble)
		for _, name := range []string{"filter", "nat", "mangle"} {
			if t := s.tables[name]; t != nil {
				t.marshal(&b, name)
			}
		}
	}
	b.WriteString("end\n")
	return []byte(b.String())
}

func (t *table) marshal(b *strings.Builder, name string) {
	fmt.Fprintf(b, "table %s %v\n", name, t.canary)
	for _, bi := range t.builtin {
		fmt.Fprintf(b, "builtin %s %d\n", bi.name, bi.foreign)
		for _, h := range bi.hooks {
			fmt.Fprintf(b, "hook %d %v %s\n", h.at, h.dead, h.rule)
		}
	}
	for i := range t.chains {
		c := &t.chains[i]
		fmt.Fprintf(b, "chain %s %v %d\n", c.name, c.pinned, c.foreign)
		writeLines(b, "", t.rulesOf(c))
	}
}

// observedReader reads what Marshal wrote.
type observedReader struct {
	out    *observed
	family *familyState
	name   string // of table
	table  *table
	ended  bool
}

func loadObserved(text string) (*observed, error) {
	head, rest, _ := strings.Cut(text, "\n")
	if head != observedHead {
		return nil, fmt.Errorf("not a state that was observed: %.60q", head)
	}
	r := &observedReader{out: &observed{}}
	for line := range strings.Lines(rest) {
		line = strings.TrimSuffix(line, "\n")
		if err := r.line(line); err != nil {
			return nil, fmt.Errorf("observed state: %.120q: %w", line, err)
		}
	}
	if !r.ended {
		return nil, fmt.Errorf("observed state: cut off")
	}
	return r.out, nil
}

func (r *observedReader) line(line string) error {
	word, rest, _ := strings.Cut(line, " ")
	switch {
	case word == "family":
		return r.openFamily(rest)
	case word == "end":
		r.ended = true
		return nil
	case word == "table" && r.family != nil:
		return r.openTable(rest)
	case r.table == nil:
		return fmt.Errorf("outside a table")
	}
	return r.tableLine(word, rest, line)
}

func (r *observedReader) openFamily(rest string) error {
	name, trouble, _ := strings.Cut(rest, " ")
	f, err := ir.ParseFamily(name)
	if err != nil {
		return err
	}
	r.family, r.table = &r.out.families[slices.Index(ir.Families, f)], nil
	r.family.tables = map[string]*table{}
	r.family.trouble, err = strconv.Unquote(trouble)
	return err
}

// openTable refuses tables that are never read: what is in one would be taken
// for what the kernel holds, and then be neither written nor taken away.
func (r *observedReader) openTable(rest string) error {
	name, canary, _ := strings.Cut(rest, " ")
	if builtins[name] == nil {
		return fmt.Errorf("not a table that svcc reads")
	}
	if r.family.tables[name] != nil {
		return fmt.Errorf("a table twice")
	}
	r.name, r.table = name, &table{index: map[string]int{}, canary: canary == "true"}
	r.family.tables[name] = r.table
	return nil
}

// tableLine reads what is in a table. Chains and hooks that are not ours are
// errors: the file may have been edited, and it will be written back.
func (r *observedReader) tableLine(word, rest, line string) error {
	f := strings.SplitN(rest, " ", 3)
	switch {
	case word == "-A":
		return r.addRule(line)
	case word == "builtin" && len(f) == 2 && slices.Contains(builtins[r.name], f[0]):
		foreign, err := strconv.Atoi(f[1])
		r.table.builtin = append(r.table.builtin, builtin{name: f[0], foreign: foreign})
		return err
	case word == "hook" && len(f) == 3 && len(r.table.builtin) > 0:
		return r.addHook(f)
	case word == "chain" && len(f) == 3 && rules.Owned(r.name, f[0]):
		foreign, err := strconv.Atoi(f[2])
		r.table.index[f[0]] = len(r.table.chains)
		r.table.chains = append(r.table.chains, chain{
			name: f[0], pinned: f[1] == "true", foreign: foreign, first: len(r.table.rules),
		})
		return err
	}
	return fmt.Errorf("not known, or not of ours")
}

func (r *observedReader) addRule(line string) error {
	n := len(r.table.chains) - 1
	if n < 0 || r.table.chains[n].name != ruleChain(line) {
		return fmt.Errorf("not a rule of the chain above it")
	}
	r.table.rules = append(r.table.rules, line)
	r.table.chains[n].n++
	return nil
}

func (r *observedReader) addHook(f []string) error {
	h := hook{dead: f[1] == "true", rule: f[2], to: rules.JumpsTo("-A X " + f[2])}
	if !rules.Owned(r.name, h.to) {
		return fmt.Errorf("a jump to a chain that is not ours")
	}
	var err error
	h.at, err = strconv.Atoi(f[0])
	b := &r.table.builtin[len(r.table.builtin)-1]
	b.hooks = append(b.hooks, h)
	return err
}
