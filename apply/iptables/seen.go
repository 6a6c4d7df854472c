package iptables

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"svcc/apply"
	"svcc/apply/sums"
	rules "svcc/emit/iptables"
	"svcc/ir"
)

// Kernel reads tables in the kernel's own form: package sums.
type Kernel interface {
	Read(f ir.Family, table string, nft bool) (sums.Table, error)
	Changed(f ir.Family, table string, nft bool, since sums.Table) (bool, error)
	Policies(f ir.Family, table string) ([]sums.Policy, error)
	Chains(f ir.Family, table string, nft bool) ([]string, error)
	Used(f ir.Family, table string, nft bool) (bool, error)
	Sets(names []string) ([]uint16, error)
}

// seenTable is a table that was read by the tool, with the sums of what the
// kernel held at that moment. Where the kernel holds the same bytes again, the
// same rules are in force: what is bound to a sum is a fact that does not age,
// and no mark that somebody could leave standing over other rules.
type seenTable struct {
	all    sums.Sum
	others sums.Sum            // of the chains that are not ours alone, iptables-nft's
	chains map[string]sums.Sum // of those that are
	sets   map[string]uint16   // that rules name, by the numbers that the bytes have for them
	table  *table
}

type tableKey struct {
	family ir.Family
	name   string
}

// mostAsked is of how many chains one by one are asked; of more, reading the
// table as a whole costs less.
const mostAsked = 50

// readTable reads a table: as it was seen, if the kernel holds the same bytes;
// else chain by chain what differs, else the whole. Whatever is odd on the way
// ends in the whole.
func (t *Target) readTable(ctx context.Context, f ir.Family, name string) (*table, error) {
	if t.Kernel == nil || t.version == nil {
		out, _, err := t.readWhole(ctx, f, name)
		return out, err
	}
	key, nft := tableKey{f, name}, t.version.NFT
	none := &table{index: map[string]int{}, unused: true}
	if !nft && t.unused(f, name) {
		return none, nil
	}
	now, err := t.Kernel.Read(f, name, nft)
	if err != nil {
		out, _, err := t.readWhole(ctx, f, name)
		return out, err
	}
	if nft && len(now.Chains) == 0 { // of iptables-nft's, Read makes none
		return none, nil
	}
	was := t.seen[key]
	if was != nil && !t.sameSets(was) {
		was = nil
	}
	if was != nil && was.all == now.All {
		return was.table, nil
	}
	var dump []byte // nil for what was read in parts
	out := t.readParts(ctx, key, was, now)
	if out == nil {
		if out, dump, err = t.readWhole(ctx, f, name); err != nil {
			return nil, err
		}
	}
	// While rules name sets, these keep their numbers: so it is asked for them
	// before it is known that the rules have not changed.
	sets, unknown := t.setsOf(out)
	changed, err := t.Kernel.Changed(f, name, nft, now)
	if err == nil && !changed {
		if err := agrees(dump, name, now); dump != nil && err != nil {
			return nil, fmt.Errorf("%s: %w", t.tool(f, "save"), err)
		}
		if unknown == nil {
			t.sawTable(key, now, out, sets)
		}
		return out, nil
	}
	// Somebody else writes. What the tool says in one go is one state.
	out, _, err = t.readWhole(ctx, f, name)
	return out, err
}

func (t *Target) readWhole(ctx context.Context, f ir.Family, name string) (out *table, dump []byte, err error) {
	if dump, err = t.saved(ctx, f, name); err != nil {
		return nil, nil, err
	}
	return readDump(name, f, dump), dump, nil
}

func (t *Target) sawTable(key tableKey, now sums.Table, out *table, sets map[string]uint16) {
	s := &seenTable{all: now.All, others: sumOfOthers(key.name, now), table: out, chains: map[string]sums.Sum{}, sets: sets}
	for _, c := range now.Chains {
		if oursAlone(key.name, c.Name) {
			s.chains[c.Name] = c.Sum
		}
	}
	if t.seen == nil {
		t.seen = map[tableKey]*seenTable{}
	}
	t.seen[key] = s
}

func oursAlone(table, chain string) bool {
	return rules.Owned(table, chain) && chain != rules.SharedChain
}

// sumOfOthers is of all in which others have rules: while it is the same, so are
// hooks, and what of ours others jump to.
func sumOfOthers(table string, now sums.Table) sums.Sum {
	h := sha256.New()
	for _, c := range now.Chains {
		if !oursAlone(table, c.Name) {
			fmt.Fprintf(h, "%q %v %x\n", c.Name, c.Base, c.Sum)
		}
	}
	return sums.Sum(h.Sum(nil))
}

// readParts makes what the save tool would print of the rules of chains as they
// were seen, and of what the tool says of those that differ; of all that are not
// ours alone as well, if one of them does. It is nil if that cannot be.
func (t *Target) readParts(ctx context.Context, key tableKey, was *seenTable, now sums.Table) *table {
	if was == nil || len(now.Chains) == 0 {
		return nil
	}
	var dump bytes.Buffer
	same := was.others == sumOfOthers(key.name, now)
	ask := map[string]int{} // how many rules each of these has
	for _, c := range now.Chains {
		if c.Base != slices.Contains(builtins[key.name], c.Name) || !plainName(c.Name) {
			return nil
		}
		fmt.Fprintf(&dump, ":%s - [0:0]\n", c.Name)
		as := same
		if sum, seen := was.chains[c.Name]; oursAlone(key.name, c.Name) {
			as = seen && sum == c.Sum
		}
		if !as {
			ask[c.Name] = c.Rules
			continue
		}
		if own := was.table.chain(c.Name); own != nil {
			writeDump(&dump, was.table.rulesOf(own))
		}
	}
	if len(ask) > mostAsked || !t.ask(ctx, key, ask, &dump) {
		return nil
	}
	out := readDump(key.name, key.family, dump.Bytes())
	if same {
		out.keepOthers(was.table)
	}
	return out
}

func writeDump(dump *bytes.Buffer, lines []string) {
	for _, l := range lines {
		dump.WriteString(l + "\n")
	}
}

// ask adds the rules of these chains, as the tool prints them, if it prints as
// many as the kernel has.
func (t *Target) ask(ctx context.Context, key tableKey, chains map[string]int, dump *bytes.Buffer) bool {
	for _, name := range slices.Sorted(maps.Keys(chains)) {
		said, err := t.Runner.Run(ctx, apply.Input{Tool: t.tool(key.family, ""), Args: []string{"-t", key.name, "-S", name}})
		if err != nil || addRules(dump, name, said) != chains[name] {
			return false
		}
	}
	return true
}

// keepOthers takes over what a table's reading told of others' rules, which are
// the same. They jump to no chain of ours that has come since: then it was not
// there to jump to.
func (t *table) keepOthers(was *table) {
	t.builtin = was.builtin
	for i := range t.chains {
		if h := was.chain(t.chains[i].name); h != nil {
			t.chains[i].pinned, t.chains[i].foreign = h.pinned, h.foreign
		}
	}
}

// addRules takes the rules out of what "-S CHAIN" printed, and says how many they
// are; -1 for what the tool would not print.
func addRules(dump *bytes.Buffer, chain string, said []byte) int {
	n := 0
	for line := range bytes.Lines(said) {
		switch {
		case line[len(line)-1] != '\n':
			return -1
		case bytes.HasPrefix(line, []byte("-A "+chain+" ")):
			dump.Write(line)
			n++
		case !bytes.HasPrefix(line, []byte("-N ")) && !bytes.HasPrefix(line, []byte("-P ")):
			return -1
		}
	}
	return n
}

// plainName says whether a name can stand in a command and a dump: chains that
// other tools made may have any.
func plainName(name string) bool {
	odd := func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\'' || r == '\\' }
	return name != "" && name[0] != '-' && name[0] != '!' && !strings.ContainsFunc(name, odd)
}

// adopt keeps what was seen in the words of the ruleset, with which it was found
// to agree: the next comparison then is one of texts.
func (t *Target) adopt(key tableKey, have, want *table) {
	s := t.seen[key]
	if s == nil || s.table != have {
		return
	}
	adopted := *have
	adopted.rules = slices.Clone(have.rules)
	for i := range adopted.chains {
		c := &adopted.chains[i]
		if w := want.chain(c.name); w != nil && w.n == c.n && oursAlone(key.name, c.name) {
			copy(adopted.rulesOf(c), want.rulesOf(w))
		}
	}
	s.table = &adopted
}

const seenHead = "svcc iptables seen v2"

// Seen implements apply.Target: the sums, then what was read, as
// observed.Marshal has it; at the top the sum of it all.
func (t *Target) Seen() []byte {
	o := &observed{}
	var b strings.Builder
	for i, f := range ir.Families {
		o.families[i].tables = map[string]*table{}
		for _, name := range tables {
			s := t.seen[tableKey{f, name}]
			if s == nil {
				continue
			}
			o.families[i].tables[name] = s.table
			fmt.Fprintf(&b, "table %s %s %x %x\n", f, name, s.all, s.others)
			for _, c := range s.table.chains {
				if sum, ok := s.chains[c.name]; ok {
					fmt.Fprintf(&b, "chain %s %s %x %s\n", f, name, sum, c.name)
				}
			}
			for _, set := range slices.Sorted(maps.Keys(s.sets)) {
				fmt.Fprintf(&b, "set %s %s %d %s\n", f, name, s.sets[set], set)
			}
		}
	}
	if b.Len() == 0 {
		return nil
	}
	b.WriteString("\n")
	b.Write(o.Marshal())
	text := b.String()
	return fmt.Appendf(nil, "%s %x\n%s", seenHead, sha256.Sum256([]byte(text)), text)
}

// Recall implements apply.Target. What is no such text is not recalled.
func (t *Target) Recall(text []byte) error {
	head, rest, _ := bytes.Cut(text, []byte("\n"))
	if string(head) != fmt.Sprintf("%s %x", seenHead, sha256.Sum256(rest)) {
		return errors.New("not what was seen, or damaged")
	}
	list, kept, _ := strings.Cut(string(rest), "\n\n")
	o, err := loadObserved(kept)
	if err != nil {
		return err
	}
	seen := map[tableKey]*seenTable{}
	for line := range strings.SplitSeq(list, "\n") {
		if err := recallSum(seen, o, strings.Fields(line)); err != nil {
			return err
		}
	}
	t.seen = seen
	return nil
}

// recallSum reads "table FAMILY TABLE SUM SUM", "chain FAMILY TABLE SUM CHAIN" or
// "set FAMILY TABLE NUMBER SET".
func recallSum(seen map[tableKey]*seenTable, o *observed, f []string) error {
	if len(f) != 5 {
		return errors.New("not a sum")
	}
	family, err := ir.ParseFamily(f[1])
	if err != nil {
		return err
	}
	key := tableKey{family, f[2]}
	if f[0] == "set" {
		return seen[key].recallSet(f[3], f[4])
	}
	sum, err := parseSum(f[3])
	if err != nil {
		return err
	}
	if f[0] == "table" {
		t := o.families[slices.Index(ir.Families, family)].tables[f[2]]
		if t == nil {
			return errors.New("the sum of a table that was not read")
		}
		others, err := parseSum(f[4])
		seen[key] = &seenTable{all: sum, others: others, table: t, chains: map[string]sums.Sum{}, sets: map[string]uint16{}}
		return err
	}
	s := seen[key]
	if s == nil || s.table.chain(f[4]) == nil {
		return errors.New("the sum of a chain that was not read")
	}
	s.chains[f[4]] = sum
	return nil
}

func parseSum(text string) (sums.Sum, error) {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != len(sums.Sum{}) {
		return sums.Sum{}, errors.New("not a sum")
	}
	return sums.Sum(raw), nil
}
