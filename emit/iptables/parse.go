package iptables

import (
	"fmt"
	"net/netip"
	"strings"

	"svcc/emit"
	"svcc/ir"
	"svcc/ir/eval"
)

// maxLine is how long a line iptables-restore reads; it would take the rest
// for a line of its own.
const maxLine = 10240 - 1

// maxChainName is the length at which the kernel's chain names end.
const maxChainName = 28

// ruleset is what iptables-restore text or an iptables-save dump says, for one
// family. It is flat: rules of a chain lie side by side in one slice, and what
// rules refer to lies in slices too, so that 150,000 rules cost a few large
// allocations.
type ruleset struct {
	family   ir.Family
	chains   []parsedChain
	rules    []parsedRule // once finished: ordered by chain
	conds    []condition
	wide     []wideMask       // IPv6 addresses with masks, of condSrc6 and condDst6
	dests    []netip.AddrPort // of doDNAT; without port 0, without address invalid
	shares   []eval.Share     // of condStatistic
	ranges   []portRange      // of condMultiport
	names    []string         // interfaces and recent lists
	nameIDs  map[string]uint32
	troubles []string // why rules are opaque
	around   *Around  // nil where there is nothing but rules
	dump     bool     // what a node has, of whatever programs; see parse_dump.go
}

// parsedChain is a chain of one table, or a place for one that was deleted.
type parsedChain struct {
	table    string
	name     string
	line     int
	builtin  bool
	policy   eval.Verdict // of a built-in chain: Accept or Drop
	first, n int32        // its rules, once the ruleset is finished
	inserted int32        // how many of them came by -I
	refs     int32        // jumps to it
}

// parsedRule is one rule.
type parsedRule struct {
	text        string // as written, from -A on
	line        int32
	chain       int32
	first       int32 // its conditions in ruleset.conds
	n           uint16
	do          verb
	flags       ruleFlags
	target      int32 // of a jump or goto: the chain; of DNAT: ruleset.dests; opaque: ruleset.troubles
	value, mask uint32
}

type ruleFlags uint8

const (
	// flagForeign is a rule that is not kube-proxy's: in a chain of somebody
	// else's or a built-in one, and not jumping into one of ours.
	flagForeign ruleFlags = 1 << iota
	// flagOpaque is a foreign rule that has a match or target without a model.
	flagOpaque
	flagInserted
	// flagLeadsOn is a rule for which ruleset.leadsOn holds.
	flagLeadsOn
	// flagFurniture is a rule that ruleParser.furniture knows.
	flagFurniture
)

// builtins are the tables and their built-in chains.
var builtins = map[string][]string{
	"filter":   {"INPUT", "FORWARD", "OUTPUT"},
	"nat":      {"PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"},
	"mangle":   {"PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"},
	"raw":      {"PREROUTING", "OUTPUT"},
	"security": {"INPUT", "FORWARD", "OUTPUT"},
}

// parser reads texts, line by line, into a ruleset.
type parser struct {
	rs     *ruleset
	line   int
	table  string // the one that is open; ""
	seen   map[string]bool
	chains map[string]map[string]int32 // by table and name
	byName map[string]int32            // of the open table
	last   int32                       // chain of the rule before
	toks   []token
	rule   ruleParser
}

// parseRules reads text that iptables-restore loads or that iptables-save
// prints. Errors are "line N: ...".
//
// What is kube-proxy's must be understood: an unknown match or target in a
// chain of ours, or on the way into one, is an error. A foreign rule that is
// not understood becomes opaque: no packet matches it, and walker.Foreign
// tells of it.
func parseRules(f ir.Family, text []byte) (*ruleset, error) {
	p := newParser(f)
	if err := p.read(string(text)); err != nil {
		return nil, err
	}
	return p.finish()
}

// parseSections reads one family's sections into a walker. A table may go on
// in a later section, as under --noflush. Errors name section and line.
func parseSections(f ir.Family, sections []emit.Section, a *Around) (*walker, error) {
	p := newParser(f)
	p.rs.around = a
	for _, s := range sections {
		if s.Tool != Tool || s.Family != f {
			return nil, fmt.Errorf("section %s %s: not one that %s loads for %s", s.Tool, s.Family, Tool, f)
		}
		p.rs.dump = p.rs.dump || s.Dump
		if err := p.read(string(s.Text)); err != nil {
			return nil, fmt.Errorf("section %s %s: %w", s.Tool, s.Family, err)
		}
	}
	rs, err := p.finish()
	if err != nil {
		return nil, err
	}
	return newWalker(f, rs)
}

func newParser(f ir.Family) *parser {
	p := &parser{
		rs:     &ruleset{family: f, nameIDs: map[string]uint32{}},
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
	p.rs.rules = append(make([]parsedRule, 0, len(p.rs.rules)+n), p.rs.rules...)
	p.rs.conds = append(make([]condition, 0, len(p.rs.conds)+4*n), p.rs.conds...)
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
		return fmt.Errorf("%s: outside a table", quote(line))
	}
	switch {
	case line == "COMMIT":
		p.table = ""
		return nil
	case p.strange():
		return nil
	case line[0] == ':':
		return p.chainLine(line[1:])
	case line[0] == '-' || line[0] == '[':
		return p.command(line)
	}
	return fmt.Errorf("%s: neither table, chain, rule nor COMMIT", quote(line))
}

func (p *parser) openTable(name string) error {
	switch {
	case p.table != "":
		return fmt.Errorf("table %s opens before COMMIT of table %s", quote(name), p.table)
	case builtins[name] == nil && !p.rs.dump:
		return fmt.Errorf("table %s is unknown", quote(name))
	case p.seen[name] && p.rs.dump:
		return fmt.Errorf("table %s is there twice, as where two nodes or iptables-legacy-save and iptables-nft-save were saved to one file: give one", quote(name))
	case p.seen[name]:
		return fmt.Errorf("table %s opens again", name)
	}
	p.table, p.seen[name], p.last = name, true, -1
	p.byName = p.chains[name]
	if p.byName == nil {
		p.byName = map[string]int32{}
		p.chains[name] = p.byName
		for _, c := range builtins[name] {
			p.addChain(parsedChain{name: c, builtin: true, policy: eval.Accept})
		}
	}
	return nil
}

// strange says that the open table is one of a dump that no Service has to do
// with, and that is not known.
func (p *parser) strange() bool { return builtins[p.table] == nil }

func (p *parser) addChain(c parsedChain) {
	c.table, c.line = p.table, p.line
	p.byName[c.name] = int32(len(p.rs.chains))
	p.rs.chains = append(p.rs.chains, c)
}

// chainLine reads "NAME POLICY [packets:bytes]".
func (p *parser) chainLine(s string) error {
	f := strings.Fields(s)
	if len(f) < 2 || len(f) > 3 || len(f) == 3 && !isCounters(f[2]) {
		return fmt.Errorf("a chain line is \":NAME POLICY [0:0]\"")
	}
	if id, ok := p.byName[f[0]]; ok && p.rs.chains[id].builtin {
		return p.setPolicy(id, f[1])
	}
	if f[1] != "-" {
		return fmt.Errorf("chain %s is not built in: it has no policy", quote(f[0]))
	}
	return p.newChain(f[0])
}

func (p *parser) setPolicy(chain int32, policy string) error {
	c := &p.rs.chains[chain]
	switch {
	case !c.builtin:
		return fmt.Errorf("chain %s is not built in: it has no policy", c.name)
	case policy == "ACCEPT" || policy == "-":
		c.policy = eval.Accept
	case policy == "DROP":
		c.policy = eval.Drop
	default:
		return fmt.Errorf("policy %s is neither ACCEPT nor DROP", quote(policy))
	}
	return nil
}

func (p *parser) newChain(name string) error {
	switch {
	case len(name) > maxChainName:
		return fmt.Errorf("chain name %s is longer than %d bytes", quote(name), maxChainName)
	case strings.HasPrefix(name, "-") || strings.HasPrefix(name, "!") || targetNamed(name) != nil || foreignTargets[name] && !p.rs.dump:
		return fmt.Errorf("%s cannot be a chain's name", quote(name))
	}
	if id, ok := p.byName[name]; ok {
		return fmt.Errorf("chain %s is declared again; first at line %d", quote(name), p.rs.chains[id].line)
	}
	p.addChain(parsedChain{name: name})
	return nil
}

// isCounters says whether a word is "[packets:bytes]".
func isCounters(s string) bool {
	if len(s) < 5 || s[0] != '[' || s[len(s)-1] != ']' {
		return false
	}
	a, b, ok := strings.Cut(s[1:len(s)-1], ":")
	return ok && isNumber(a) && isNumber(b)
}

func isNumber(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// quote shows text that may be of any length and content.
func quote(s string) string {
	if len(s) > 80 {
		return fmt.Sprintf("%q...", s[:80])
	}
	return fmt.Sprintf("%q", s)
}
