package iptables

import (
	"fmt"
	"strings"

	"svcc/emit"
	"svcc/emit/iptables/rule"
	"svcc/emit/walk"
)

// command reads a line that changes a chain.
func (p *parser) command(line string) error {
	var ok bool
	if p.toks, ok = rule.Tokenize(p.toks[:0], line); !ok {
		return fmt.Errorf("a quote is not closed")
	}
	toks := p.toks
	if rule.IsCounters(toks[0].Text) {
		toks, line = toks[1:], strings.TrimLeft(line[len(toks[0].Text):], " \t")
	}
	if len(toks) < 2 {
		return fmt.Errorf("%s: a rule is \"-A CHAIN ...\"", emit.Quote(line))
	}
	name := toks[1].Text
	switch cmd := toks[0].Text; cmd {
	case "-A", "--append":
		return p.addRule(name, toks[2:], line, 0)
	case "-I", "--insert":
		return p.insert(name, toks[2:], line)
	case "-N", "--new-chain":
		return p.newChain(name)
	case "-X", "--delete-chain":
		return p.deleteChain(name)
	case "-P", "--policy":
		return p.policyCommand(name, toks[2:])
	default:
		return fmt.Errorf("command %s is not one that makes rules", emit.Quote(cmd))
	}
}

// insert reads -I with the only position that does not depend on rules that
// may have been there before: the first.
func (p *parser) insert(name string, toks []rule.Token, line string) error {
	if len(toks) > 0 && rule.IsNumber(toks[0].Text) {
		if toks[0].Text != "1" {
			return fmt.Errorf("-I at position %s: only the first is known", emit.Quote(toks[0].Text))
		}
		toks = toks[1:]
	}
	return p.addRule(name, toks, line, walk.FlagInserted)
}

func (p *parser) deleteChain(name string) error {
	id, err := p.chain(name)
	if err != nil {
		return err
	}
	c := &p.rs.Chains[id]
	if c.Builtin || c.Refs > 0 || c.N > 0 {
		return fmt.Errorf("chain %s cannot be deleted: it is built in or in use", emit.Quote(name))
	}
	delete(p.byName, name)
	p.last = -1
	return nil
}

func (p *parser) policyCommand(name string, toks []rule.Token) error {
	id, err := p.chain(name)
	if err != nil {
		return err
	}
	if len(toks) == 0 {
		return fmt.Errorf("-P %s: no policy", emit.Quote(name))
	}
	return p.setPolicy(id, toks[0].Text)
}

// chain finds a declared chain of the open table. Rules of a chain mostly
// follow each other, so the chain before is tried first.
func (p *parser) chain(name string) (int32, error) {
	if p.last >= 0 && p.rs.Chains[p.last].Name == name {
		return p.last, nil
	}
	id, ok := p.byName[name]
	if !ok {
		return 0, fmt.Errorf("chain %s is not declared in table %s", emit.Quote(name), p.table)
	}
	p.last = id
	return id, nil
}

// addRule reads a rule's matches and target.
func (p *parser) addRule(name string, toks []rule.Token, line string, flags walk.Flags) error {
	id, err := p.chain(name)
	if err != nil {
		return err
	}
	r := &p.rule
	r.reset(toks)
	r.read()
	r.check()
	if !ours(name) && !r.jumpsToOurs() {
		flags |= walk.FlagForeign
	}
	if r.do == walk.DoReject && r.value != 0 && flags&walk.FlagForeign == 0 {
		r.fail("REJECT has no model but for port unreachable")
	}
	if r.furniture(name) {
		flags |= walk.FlagFurniture
	}
	if r.table == "nat" && (r.do == walk.DoJump || r.do == walk.DoGoto) && r.rs.Chains[r.target].Name == chainNodePorts {
		flags |= walk.FlagNodePorts
	}
	if r.trouble != "" {
		opaque, err := r.unread(line, flags&walk.FlagForeign != 0)
		if err != nil {
			return err
		}
		flags |= opaque
	}
	p.store(id, flags, line)
	return nil
}

func (r *ruleParser) jumpsToOurs() bool {
	return (r.do == walk.DoJump || r.do == walk.DoGoto) && ours(r.rs.Chains[r.target].Name)
}

func (p *parser) store(chain int32, flags walk.Flags, line string) {
	rs, r := p.rs, &p.rule
	rule := walk.Rule{
		Text: line, Line: int32(p.line), Chain: chain, First: int32(len(rs.Conds)),
		Do: r.do, Flags: flags, Target: r.target, Value: r.value, Mask: r.mask,
	}
	rs.Conds = append(append(rs.Conds, r.plain...), r.conds...)
	rule.N = uint16(len(rs.Conds) - int(rule.First))
	if rule.Jumps() {
		rs.Chains[r.target].Refs++
	}
	c := &rs.Chains[chain]
	c.N++
	if flags&walk.FlagInserted != 0 {
		c.Inserted++
	}
	rs.Rules = append(rs.Rules, rule)
}

func (rs ruleset) addTrouble(s string) int32 {
	rs.Troubles = append(rs.Troubles, s)
	return int32(len(rs.Troubles) - 1)
}

// ours says whether a chain is kube-proxy's, of whatever service, or will be
// taken for one. Other programs of Kubernetes have chains of that prefix too.
func ours(chain string) bool {
	if !strings.HasPrefix(chain, "KUBE-") {
		return false
	}
	for _, p := range []string{"ROUTER-", "NWPLCY-", "POD-FW-", "KUBELET-", "IPTABLES-HINT", "HOSTPORTS", "HP-"} {
		if strings.HasPrefix(chain[len("KUBE-"):], p) {
			return false
		}
	}
	return true
}

// ruleParser holds one rule while it is read. The first thing that is not
// understood becomes its trouble, and the rule is read on for its target.
type ruleParser struct {
	*parser
	toks    []rule.Token
	not     bool        // a ! stands before the option
	plain   []walk.Cond // source, destination, interface, protocol: asked first
	conds   []walk.Cond // of the modules, in order: their side effects are ordered
	modules []*module
	proto   uint32 // of -p, if it is not negated
	to      *module
	do      walk.Verb
	target  int32
	value   uint32
	mask    uint32
	trouble string
	// undeclared says that the trouble is the target, which no table could load.
	undeclared bool
}

func (r *ruleParser) reset(toks []rule.Token) {
	*r = ruleParser{parser: r.parser, toks: toks, plain: r.plain[:0], conds: r.conds[:0], modules: r.modules[:0], target: -1}
}

// fail notes why a rule cannot be modelled.
func (r *ruleParser) fail(format string, args ...any) {
	if r.trouble == "" {
		r.trouble = fmt.Sprintf(format, args...)
	}
}

// word takes the next word; "" and a trouble if there is none.
func (r *ruleParser) word(of string) string {
	if len(r.toks) == 0 {
		r.fail("%s has no value", of)
		return ""
	}
	t := r.toks[0]
	r.toks = r.toks[1:]
	return t.Text
}

func (r *ruleParser) read() {
	for len(r.toks) > 0 {
		t := r.toks[0]
		r.toks = r.toks[1:]
		if t.Text == "!" && !t.Quoted {
			if r.not {
				r.fail("! twice")
			}
			r.not = true
			continue
		}
		r.option(t)
		r.not = false
	}
	if r.not {
		r.fail("! at the end")
	}
}

// option reads an option and its values.
func (r *ruleParser) option(t rule.Token) {
	switch t.Text {
	case "-s", "--source", "--src":
		r.address(walk.CondSrc, r.word(t.Text))
	case "-d", "--destination", "--dst":
		r.address(walk.CondDst, r.word(t.Text))
	case "-p", "--protocol", "--proto":
		r.protocol(r.word(t.Text))
	case "-i", "--in-interface":
		r.ifname(r.word(t.Text))
	case "-o", "--out-interface":
		r.word(t.Text)
		r.fail("-o: the interface of exit is not known")
	case "-m", "--match":
		if r.not {
			r.fail("! before %s", t.Text)
		}
		r.load(r.word(t.Text))
	case "-j", "--jump", "-g", "--goto":
		r.setTarget(r.word(t.Text), t.Text)
	case "-c", "--set-counters":
		r.word(t.Text)
		r.word(t.Text)
	default:
		r.moduleOption(t)
	}
}

// load reads -m NAME.
func (r *ruleParser) load(name string) {
	m := named(modules, name)
	if m == nil || m.around && r.rs.Around == nil {
		r.fail("match %s has no model", emit.Quote(name))
		return
	}
	r.modules = append(r.modules, m)
	if m.first != walk.CondNone {
		r.add(walk.Cond{Kind: m.first})
	}
}

// moduleOption gives an option to the module that was loaded last of those
// that know it, then to the target, then to the protocol's own module, which
// -p loads by itself.
func (r *ruleParser) moduleOption(t rule.Token) {
	if t.Quoted {
		r.fail("%s: not an option", emit.Quote(t.Text))
		return
	}
	for i := len(r.modules) - 1; i >= 0; i-- {
		if r.take(r.modules[i], t.Text) {
			return
		}
	}
	if r.to != nil && r.take(r.to, t.Text) {
		return
	}
	if m := protocolModule(r.proto); m != nil && r.take(m, t.Text) {
		return
	}
	r.fail("option %s has no model", emit.Quote(t.Text))
	r.skip()
}

// take reads an option of a module; false if it is none, or has no model.
func (r *ruleParser) take(m *module, name string) bool {
	i := m.term.Option(name)
	if i < 0 || m.options[i].set == nil {
		return false
	}
	o, value := &m.options[i], ""
	if m.term.Options[i].Takes() {
		value = r.word(name)
	}
	if r.not && !o.not {
		r.fail("! %s has no model", name)
	}
	if err := o.set(r, value); err != "" {
		r.fail("%s %s: %s", name, emit.Quote(value), err)
	}
	return true
}

// skip passes over the values of an option that is not known: up to the next
// word that every rule may have.
func (r *ruleParser) skip() {
	for len(r.toks) > 0 {
		t := r.toks[0]
		if !t.Quoted && (t.Text == "!" || len(t.Text) == 2 && t.Text[0] == '-') {
			return
		}
		r.toks = r.toks[1:]
	}
}

// addPlain appends a condition of which a rule can have one a kind.
func (r *ruleParser) addPlain(c walk.Cond) {
	for i := range r.plain {
		if r.plain[i].Kind == c.Kind {
			r.fail("one option twice")
		}
	}
	c.Not = r.not
	r.plain = append(r.plain, c)
}

// add appends a module's condition.
func (r *ruleParser) add(c walk.Cond) {
	c.Not = r.not
	r.conds = append(r.conds, c)
}

// latest is the condition that the last -m of a kind made.
func (r *ruleParser) latest(k walk.CondKind) *walk.Cond {
	for i := len(r.conds) - 1; i >= 0; i-- {
		if r.conds[i].Kind == k {
			return &r.conds[i]
		}
	}
	return nil
}

func (r *ruleParser) setTarget(name, option string) {
	if r.not || r.target >= 0 || r.to != nil {
		r.fail("%s %s: a second target, or !", option, emit.Quote(name))
		return
	}
	id, declared := r.byName[name]
	jumps := option == "-j" || option == "--jump"
	if t := named(targets, name); t != nil && jumps {
		r.to, r.do = t, t.do
		return
	}
	switch {
	case rule.ForeignTargets[name] && jumps && !declared:
		r.fail("target %s has no model", name)
	case !declared:
		r.undeclared = true
		r.fail("jumps to %s, which is neither a target nor a chain declared in table %s", emit.Quote(name), r.table)
	case r.rs.Chains[id].Builtin:
		r.undeclared = true
		r.fail("jumps to %s, which is a built-in chain", name)
	default:
		if r.target, r.do = id, walk.DoJump; !jumps {
			r.do = walk.DoGoto
		}
	}
}

// check asks what only the whole rule can answer.
func (r *ruleParser) check() {
	for _, m := range r.modules {
		if m.proto != 0 && m.proto != r.proto {
			r.fail("-m %s without -p %s", m.name, m.name)
		}
	}
	for i := range r.conds {
		if why := incomplete(&r.conds[i]); why != "" {
			r.fail("%s", why)
		}
	}
	switch {
	case r.do == walk.DoMark && r.value == 0 && r.mask == 0:
		r.fail("MARK without a change of the mark")
	case r.do == walk.DoDNAT && r.target < 0:
		r.fail("DNAT without --to-destination")
	case r.do == walk.DoDNAT && r.rs.Dests[r.target].Port() != 0 && r.proto == 0:
		r.fail("DNAT to a port without -p")
	}
}
