package walk

import (
	"fmt"
	"net/netip"

	"svcc/emit"
	"svcc/ir"
	"svcc/ir/eval"
)

// Ruleset is what iptables-restore text or an iptables-save dump says, for one
// family. It is flat: rules of a chain lie side by side in one slice, and what
// rules refer to lies in slices too, so that 150,000 rules cost a few large
// allocations.
type Ruleset struct {
	Family   ir.Family
	Chains   []Chain
	Rules    []Rule // once finished: ordered by chain
	Conds    []Cond
	wide     []wideMask       // IPv6 addresses with masks, of condSrc6 and condDst6
	Dests    []netip.AddrPort // of doDNAT; without port 0, without address invalid
	Shares   []eval.Share     // of condStatistic
	Ranges   []PortRange      // of CondPorts
	names    []string         // interfaces and recent lists
	nameIDs  map[string]uint32
	Troubles []string // why rules are opaque
	Around   *Around  // nil where there is nothing but rules
	Late     []LateJump
	Dump     bool // what a node has, of whatever programs; see parse_dump.go
}

// Chain is a chain of one table, or a place for one that was deleted.
type Chain struct {
	Table    string
	Name     string
	Line     int
	Builtin  bool
	Policy   eval.Verdict // of a built-in chain: Accept or Drop
	first, N int32        // its rules, once the ruleset is finished
	Inserted int32        // how many of them came by -I
	Refs     int32        // jumps to it
}

// Rule is one rule.
type Rule struct {
	Text        string // as written, from -A on
	Line        int32
	Chain       int32
	First       int32 // its conditions in ruleset.conds
	N           uint16
	Do          Verb
	Flags       Flags
	Target      int32 // of a jump or goto: the chain; of DNAT: ruleset.dests; opaque: ruleset.troubles
	Value, Mask uint32
}

// Flags are what a reader knows of a rule beside its words.
type Flags uint8

const (
	// flagForeign is a rule that is not kube-proxy's: in a chain of somebody
	// else's or a built-in one, and not jumping into one of ours.
	FlagForeign Flags = 1 << iota
	// flagOpaque is a foreign rule that has a match or target without a model.
	FlagOpaque
	FlagInserted
	// flagLeadsOn is a rule for which leadsOn holds.
	flagLeadsOn
	// flagFurniture is a rule that is there whatever the Services are.
	FlagFurniture
	// flagNodePorts is a rule that sends on to node ports what it takes to be for the
	// node.
	FlagNodePorts
)

// maxDepth is how many chains a packet may be in at once. The kernel's limits
// differ by flavour; none of our layouts comes near.
const maxDepth = 64

// Jumps says that a rule leads to another chain (Rule.Target).
func (r *Rule) Jumps() bool { return r.Do == DoJump || r.Do == DoGoto }

// Order puts each chain's rules side by side: those that came by -I first, the
// last one on top.
func (rs *Ruleset) Order() {
	first := int32(0)
	next := make([]int32, len(rs.Chains)) // where the next appended rule goes
	top := make([]int32, len(rs.Chains))  // after where the next inserted one goes
	for i := range rs.Chains {
		c := &rs.Chains[i]
		c.first = first
		top[i] = first + c.Inserted
		next[i] = top[i]
		first += c.N
	}
	out := make([]Rule, len(rs.Rules))
	for i := range rs.Rules {
		r := &rs.Rules[i]
		if r.Flags&FlagInserted != 0 {
			top[r.Chain]--
			out[top[r.Chain]] = *r
			continue
		}
		out[next[r.Chain]] = *r
		next[r.Chain]++
	}
	rs.Rules = out
}

// RulesOf are a chain's rules.
func (rs *Ruleset) RulesOf(chain int32) []Rule {
	c := &rs.Chains[chain]
	return rs.Rules[c.first : c.first+c.N]
}

// Circles is an error where a way leads in a circle, or deeper than chains may lie.
func (rs *Ruleset) Circles() error {
	d := depths{rs: rs, depth: make([]int32, len(rs.Chains))}
	for c := range rs.Chains {
		if err := d.visit(int32(c), 0); err != nil {
			return err
		}
	}
	return nil
}

// depths finds how many chains lie below each one.
type depths struct {
	rs    *Ruleset
	depth []int32 // 0: not visited yet; -1: on the way
}

func (d *depths) visit(chain, above int32) error {
	if d.depth[chain] > 0 {
		return nil
	}
	d.depth[chain] = -1
	deepest := int32(0)
	rules := d.rs.RulesOf(chain)
	for i := range rules {
		r := &rules[i]
		if !r.Jumps() {
			continue
		}
		if d.depth[r.Target] == -1 {
			return r.error(fmt.Errorf("jumps in a circle"))
		}
		if above < maxDepth {
			if err := d.visit(r.Target, above+1); err != nil {
				return err
			}
		}
		deepest = max(deepest, d.depth[r.Target])
		if above >= maxDepth || deepest >= maxDepth {
			return r.error(fmt.Errorf("jumps more than %d chains deep", maxDepth))
		}
	}
	d.depth[chain] = deepest + 1
	return nil
}

// error places an error at a rule.
func (r *Rule) error(err error) error {
	return fmt.Errorf("line %d: %s: %w", r.Line, emit.Quote(r.Text), err)
}

// Builtin is the built-in chain of a table by its name; -1 for none.
func (rs *Ruleset) Builtin(table, name string) int32 {
	for i := range rs.Chains {
		if c := &rs.Chains[i]; c.Builtin && c.Table == table && c.Name == name {
			return int32(i)
		}
	}
	return -1
}

func (rs *Ruleset) condsOf(r *Rule) []Cond {
	return rs.Conds[r.First : r.First+int32(r.N)]
}

// Verb is what a rule does to a packet that it matches.
type Verb uint8

const (
	DoNothing Verb = iota
	DoJump         // into target; back when that chain ends
	DoGoto         // into target; that chain ends where ours would
	DoReturn
	DoAccept
	DoDrop
	DoReject
	DoMark // mark = mark &^ mask ^ value
	DoDNAT
	DoMasquerade
	DoBroken // see ruleParser.broken
)

// errBroken is what happens to a packet that meets a broken rule.
func (rs *Ruleset) errBroken(r *Rule) error {
	return brokenError{fmt.Sprintf("cannot be read (%s); %s", rs.Troubles[r.Target], likelyCause)}
}

// brokenError is emit.ErrUnreadable, told for one rule.
type brokenError struct{ text string }

func (e brokenError) Error() string { return e.text }

func (e brokenError) Unwrap() error { return emit.ErrUnreadable }

// likelyCause is why the tool that prints rules may not understand them itself.
const likelyCause = "an iptables of another version than the one that printed it may have written it: " +
	"print the rules with the one that kube-proxy uses"
