package iptables

import (
	"fmt"
	"strings"

	"svcc/emit"
	"svcc/emit/iptables/rule"
	"svcc/emit/walk"
	"svcc/ir"
	"svcc/ir/eval"
)

// maxLine is how long a line iptables-restore reads; it would take the rest
// for a line of its own.
const maxLine = 10240 - 1

// maxChainName is the length at which the kernel's chain names end.
const maxChainName = 28

// builtins are the tables and their built-in chains.
var builtins = map[string][]string{
	"filter":   {"INPUT", "FORWARD", "OUTPUT"},
	"nat":      {"PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"},
	"mangle":   {"PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"},
	"raw":      {"PREROUTING", "OUTPUT"},
	"security": {"INPUT", "FORWARD", "OUTPUT"},
}

// ruleset is what was read, and what is settled once all of it is.
type ruleset struct{ *walk.Ruleset }

// parser reads texts, line by line, into a ruleset.
type parser struct {
	rs       ruleset
	hooked   bool // the jumps from built-in chains are in the texts
	line     int
	table    string // the one that is open; ""
	seen     map[string]bool
	declared []string                    // the chains of the open table, so far
	chains   map[string]map[string]int32 // by table and name
	byName   map[string]int32            // of the open table
	last     int32                       // chain of the rule before
	toks     []rule.Token
	rule     ruleParser
}

// parseSections reads one family's sections into a walker. A table may go on
// in a later section, as under --noflush. Errors name section and line.
//
// What is kube-proxy's must be understood: an unknown match or target in a
// chain of ours, or on the way into one, is an error. A foreign rule that is
// not understood becomes opaque: no packet matches it, and Foreign tells of it.
func parseSections(f ir.Family, sections []emit.Section, hooked bool, a *walk.Around) (*audited, error) {
	p := newParser(f)
	p.hooked = hooked
	p.rs.Around = a
	for _, s := range sections {
		if s.Tool != Tool || s.Family != f {
			return nil, fmt.Errorf("section %s %s: not one that %s loads for %s", s.Tool, s.Family, Tool, f)
		}
		p.rs.Dump = p.rs.Dump || s.Dump
		if err := p.read(string(s.Text)); err != nil {
			return nil, fmt.Errorf("section %s %s: %w", s.Tool, s.Family, err)
		}
	}
	rs, err := p.finish()
	if err != nil {
		return nil, err
	}
	return &audited{walk.New(rs.Ruleset), rs, earlyChains(rs)}, nil
}

func newParser(f ir.Family) *parser {
	p := &parser{
		hooked: true,
		rs:     ruleset{&walk.Ruleset{Family: f}},
		chains: map[string]map[string]int32{},
		last:   -1,
	}
	p.rule.parser = p
	return p
}

// read takes one text in.
func (p *parser) read(text string) error {
	p.line, p.table, p.seen = 0, "", map[string]bool{}
	p.reserve(text)
	for len(text) > 0 {
		var line string
		line, text, _ = strings.Cut(text, "\n")
		p.line++
		if err := p.readLine(line); err != nil {
			return fmt.Errorf("line %d: %w", p.line, err)
		}
	}
	if p.table != "" {
		return fmt.Errorf("line %d: table %s ends without COMMIT", p.line, p.table)
	}
	return nil
}

// reserve makes room for as many rules as there can be, since growing step by
// step would cost as much memory again.
func (p *parser) reserve(text string) {
	n := min(strings.Count(text, "\n")+1, len(text)/32+1)
	p.rs.Rules = append(make([]walk.Rule, 0, len(p.rs.Rules)+n), p.rs.Rules...)
	p.rs.Conds = append(make([]walk.Cond, 0, len(p.rs.Conds)+4*n), p.rs.Conds...)
}

// finish orders the rules by chain and checks that no way leads in a circle.
func (p *parser) finish() (ruleset, error) {
	rs := p.rs
	rs.Order()
	rs.evict()
	if rs.Dump {
		rs.even()
	}
	rs.adopt()
	rs.Late = rs.lateFirewalls()
	return rs, rs.Circles()
}

func (p *parser) readLine(line string) error {
	if len(line) > maxLine {
		return fmt.Errorf("longer than the %d bytes that iptables-restore takes", maxLine)
	}
	if strings.IndexByte(line, 0) >= 0 {
		return fmt.Errorf("has a NUL byte")
	}
	line = strings.TrimRight(line, " \t")
	if line == "" || line[0] == '#' {
		return nil
	}
	if line[0] == '*' {
		return p.openTable(line[1:])
	}
	if p.table == "" {
		return fmt.Errorf("%s: outside a table", emit.Quote(line))
	}
	switch {
	case line == "COMMIT":
		return p.commit()
	case p.strange():
		return nil
	case line[0] == ':':
		return p.chainLine(line[1:])
	case line[0] == '-' || line[0] == '[':
		return p.command(line)
	}
	return fmt.Errorf("%s: neither table, chain, rule nor COMMIT", emit.Quote(line))
}

// commit ends a table, with the jumps from the built-in chains that it lacks.
func (p *parser) commit() error {
	if !p.hooked {
		for _, line := range Jumps(p.table, p.declared) {
			if err := p.readLine(line); err != nil {
				return err
			}
		}
	}
	p.table = ""
	return nil
}

func (p *parser) openTable(name string) error {
	switch {
	case p.table != "":
		return fmt.Errorf("table %s opens before COMMIT of table %s", emit.Quote(name), p.table)
	case builtins[name] == nil && !p.rs.Dump:
		return fmt.Errorf("table %s is unknown", emit.Quote(name))
	case p.seen[name] && p.rs.Dump:
		return fmt.Errorf("table %s is there twice, as where two nodes or iptables-legacy-save and iptables-nft-save were saved to one file: give one", emit.Quote(name))
	case p.seen[name]:
		return fmt.Errorf("table %s opens again", name)
	}
	p.table, p.seen[name], p.last, p.declared = name, true, -1, nil
	p.byName = p.chains[name]
	if p.byName == nil {
		p.byName = map[string]int32{}
		p.chains[name] = p.byName
		for _, c := range builtins[name] {
			p.addChain(walk.Chain{Name: c, Builtin: true, Policy: eval.Accept})
		}
	}
	return nil
}

// strange says that the open table is one of a dump that no Service has to do
// with, and that is not known.
func (p *parser) strange() bool { return builtins[p.table] == nil }

func (p *parser) addChain(c walk.Chain) {
	c.Table, c.Line = p.table, p.line
	p.byName[c.Name] = int32(len(p.rs.Chains))
	p.rs.Chains = append(p.rs.Chains, c)
}

// chainLine reads "NAME POLICY [packets:bytes]".
func (p *parser) chainLine(s string) error {
	f := strings.Fields(s)
	if len(f) < 2 || len(f) > 3 || len(f) == 3 && !rule.IsCounters(f[2]) {
		return fmt.Errorf("a chain line is \":NAME POLICY [0:0]\"")
	}
	if id, ok := p.byName[f[0]]; ok && p.rs.Chains[id].Builtin {
		return p.setPolicy(id, f[1])
	}
	if f[1] != "-" {
		return fmt.Errorf("chain %s is not built in: it has no policy", emit.Quote(f[0]))
	}
	p.declared = append(p.declared, f[0])
	return p.newChain(f[0])
}

func (p *parser) setPolicy(chain int32, policy string) error {
	c := &p.rs.Chains[chain]
	switch {
	case !c.Builtin:
		return fmt.Errorf("chain %s is not built in: it has no policy", c.Name)
	case policy == "ACCEPT" || policy == "-":
		c.Policy = eval.Accept
	case policy == "DROP":
		c.Policy = eval.Drop
	default:
		return fmt.Errorf("policy %s is neither ACCEPT nor DROP", emit.Quote(policy))
	}
	return nil
}

func (p *parser) newChain(name string) error {
	switch {
	case len(name) > maxChainName:
		return fmt.Errorf("chain name %s is longer than %d bytes", emit.Quote(name), maxChainName)
	case strings.HasPrefix(name, "-") || strings.HasPrefix(name, "!") || named(targets, name) != nil || rule.ForeignTargets[name] && !p.rs.Dump:
		return fmt.Errorf("%s cannot be a chain's name", emit.Quote(name))
	}
	if id, ok := p.byName[name]; ok {
		return fmt.Errorf("chain %s is declared again; first at line %d", emit.Quote(name), p.rs.Chains[id].Line)
	}
	p.addChain(walk.Chain{Name: name})
	return nil
}

// ParseAround is Backend.Parse of rules with what is around them. Of a dump it is an
// emit.Auditor.
func ParseAround(f ir.Family, sections []emit.Section, hooked bool, a *walk.Around) (emit.Walker, error) {
	w, err := parseSections(f, sections, hooked, a)
	if err != nil {
		return nil, err
	}
	if !w.rs.Dump {
		return w.Walker, nil
	}
	return w, nil
}

// adopt takes for ours the rules of chains to which chains of ours lead, whatever
// their names: what they decide is decided for packets of ours.
func (rs ruleset) adopt() {
	var todo []int32
	for c := range rs.Chains {
		if ours(rs.Chains[c].Name) {
			todo = append(todo, int32(c))
		}
	}
	adopted := make([]bool, len(rs.Chains))
	for len(todo) > 0 {
		c := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		rules := rs.RulesOf(c)
		for i := range rules {
			rules[i].Flags &^= walk.FlagForeign
			if r := &rules[i]; r.Jumps() && !adopted[r.Target] && !ours(rs.Chains[r.Target].Name) {
				adopted[r.Target] = true
				todo = append(todo, r.Target)
			}
		}
	}
}
