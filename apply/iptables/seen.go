package iptables

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
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
}

// seenTable is a table that was read by the tool, with the sums of what the
// kernel held at that moment. Where the kernel holds the same bytes again, the
// same rules are in force: what is bound to a sum is a fact that does not age,
// and no mark that somebody could leave standing over other rules.
type seenTable struct {
	all    sums.Sum
	chains map[string]sums.Sum // of ours, iptables-nft's
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
		return t.readWhole(ctx, f, name)
	}
	key, nft := tableKey{f, name}, t.version.NFT
	now, err := t.Kernel.Read(f, name, nft)
	if err != nil {
		return t.readWhole(ctx, f, name)
	}
	was := t.seen[key]
	if was != nil && was.all == now.All {
		return was.table, nil
	}
	out := t.readParts(ctx, key, was, now)
	if out == nil {
		if out, err = t.readWhole(ctx, f, name); err != nil {
			return nil, err
		}
	}
	changed, err := t.Kernel.Changed(f, name, nft, now)
	if err == nil && !changed {
		t.sawTable(key, now, out)
		return out, nil
	}
	// Somebody else writes. What the tool says in one go is one state.
	return t.readWhole(ctx, f, name)
}

func (t *Target) readWhole(ctx context.Context, f ir.Family, name string) (*table, error) {
	dump, err := t.Runner.Run(ctx, apply.Input{Tool: t.tool(f, "save"), Args: []string{"-t", name}})
	if err != nil {
		return nil, err
	}
	return readDump(name, f, dump)
}

func (t *Target) sawTable(key tableKey, now sums.Table, out *table) {
	s := &seenTable{all: now.All, table: out, chains: map[string]sums.Sum{}}
	for _, c := range now.Chains {
		if out.chain(c.Name) != nil {
			s.chains[c.Name] = c.Sum
		}
	}
	if t.seen == nil {
		t.seen = map[tableKey]*seenTable{}
	}
	t.seen[key] = s
}

// readParts makes what the save tool would print of the rules of chains as they
// were seen, and of what the tool says of others: all that are not ours, those
// that are not ours alone, and those that differ. It is nil if that cannot be.
func (t *Target) readParts(ctx context.Context, key tableKey, was *seenTable, now sums.Table) *table {
	if was == nil || len(now.Chains) == 0 {
		return nil
	}
	var dump bytes.Buffer
	var ask []string
	for _, c := range now.Chains {
		if c.Base != slices.Contains(builtins[key.name], c.Name) || !plainName(c.Name) {
			return nil
		}
		fmt.Fprintf(&dump, ":%s - [0:0]\n", c.Name)
		sum, seen := was.chains[c.Name]
		if !seen || sum != c.Sum || c.Name == rules.SharedChain {
			ask = append(ask, c.Name)
		}
	}
	if len(ask) > mostAsked {
		return nil
	}
	for _, c := range now.Chains {
		if own := was.table.chain(c.Name); own != nil && !slices.Contains(ask, c.Name) {
			for _, r := range was.table.rulesOf(own) {
				dump.WriteString(r + "\n")
			}
		}
	}
	for _, name := range ask {
		said, err := t.Runner.Run(ctx, apply.Input{Tool: t.tool(key.family, ""), Args: []string{"-t", key.name, "-S", name}})
		if err != nil || !addRules(&dump, name, said) {
			return nil
		}
	}
	out, err := readDump(key.name, key.family, dump.Bytes())
	if err != nil {
		return nil
	}
	return out
}

// addRules takes the rules out of what "-S CHAIN" printed.
func addRules(dump *bytes.Buffer, chain string, said []byte) bool {
	for line := range bytes.Lines(said) {
		switch {
		case bytes.HasPrefix(line, []byte("-A "+chain+" ")):
			dump.Write(line)
		case !bytes.HasPrefix(line, []byte("-N ")) && !bytes.HasPrefix(line, []byte("-P ")):
			return false
		}
	}
	return true
}

// plainName says whether a name can stand in a command and a dump: chains that
// other tools made may have any.
func plainName(name string) bool {
	odd := func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\'' || r == '\\' }
	return name != "" && name[0] != '-' && name[0] != '!' && !strings.ContainsFunc(name, odd)
}

const seenHead = "svcc iptables seen v1"

// Seen implements apply.Recalling: the sums, then what was read, as
// observed.Marshal has it; at the top the sum of it all.
func (t *Target) Seen() []byte {
	o := &observed{}
	var b strings.Builder
	for i, f := range families {
		o.families[i].tables = map[string]*table{}
		for _, name := range tables {
			s := t.seen[tableKey{f, name}]
			if s == nil {
				continue
			}
			o.families[i].tables[name] = s.table
			fmt.Fprintf(&b, "sum %s %s %x\n", f, name, s.all)
			for _, c := range s.table.chains {
				if sum, ok := s.chains[c.name]; ok {
					fmt.Fprintf(&b, "sum %s %s %x %s\n", f, name, sum, c.name)
				}
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

// Recall implements apply.Recalling. What is no such text is not recalled.
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

// recallSum reads "sum FAMILY TABLE SUM [CHAIN]".
func recallSum(seen map[tableKey]*seenTable, o *observed, f []string) error {
	if len(f) < 4 || len(f) > 5 {
		return errors.New("not a sum")
	}
	family, err := ir.ParseFamily(f[1])
	if err != nil {
		return err
	}
	raw, err := hex.DecodeString(f[3])
	if err != nil || len(raw) != len(sums.Sum{}) {
		return errors.New("not a sum")
	}
	sum := sums.Sum(raw)
	key := tableKey{family, f[2]}
	if len(f) == 4 {
		t := o.families[slices.Index(families, family)].tables[f[2]]
		if t == nil {
			return errors.New("the sum of a table that was not read")
		}
		seen[key] = &seenTable{all: sum, table: t, chains: map[string]sums.Sum{}}
		return nil
	}
	s := seen[key]
	if s == nil || s.table.chain(f[4]) == nil {
		return errors.New("the sum of a chain that was not read")
	}
	s.chains[f[4]] = sum
	return nil
}
