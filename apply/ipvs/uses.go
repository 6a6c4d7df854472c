package ipvs

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"svcc/apply"
	"svcc/apply/iptables"
	spec "svcc/emit/ipvs"
	"svcc/ir"
)

// readUses finds out which sets of ours others use: those that the kernel counts
// more references to than our rules have.
func (t *Target) readUses(ctx context.Context, o *observed) error {
	if len(o.state.Families[0].Sets)+len(o.state.Families[1].Sets) == 0 {
		return nil
	}
	text, err := t.Runner.Run(ctx, apply.Input{Tool: "ipset", Args: []string{"list", "-t"}})
	if err != nil {
		return fmt.Errorf("reading who uses the sets: %w", err)
	}
	heads := setHeads(text)
	own := iptables.SetUses(o.glue)
	for i := range ir.Families {
		f := &o.state.Families[i]
		f.Busy, f.Used = map[string]bool{}, map[string]bool{}
		for _, set := range f.Sets {
			head, told := heads[set.Name]
			if !told || head.entries >= 0 && set.Odd == "" && head.entries != len(set.Entries) {
				return fmt.Errorf("ipset: %w: set %s has %d entries by \"ipset save\", and by \"ipset list -t\" %s",
					apply.ErrAnswer, set.Name, len(set.Entries), head.text(told))
			}
			f.Busy[set.Name] = head.references > own[set.Name]
			f.Used[set.Name] = head.references > 0
		}
	}
	return nil
}

// setHead is what the kernel says of a set as a whole.
type setHead struct {
	references int
	entries    int // -1 where it does not say, as old kernels do not
}

func (h setHead) text(told bool) string {
	if !told {
		return "it is not there"
	}
	return strconv.Itoa(h.entries)
}

// setHeads reads what "ipset list -t" printed.
func setHeads(text []byte) map[string]setHead {
	out := map[string]setHead{}
	name := ""
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		head := out[name]
		n, err := strconv.Atoi(value)
		switch {
		case key == "Name":
			name = value
			out[name] = setHead{entries: -1}
		case key == "References" && err == nil:
			head.references = n
			out[name] = head
		case key == "Number of entries" && err == nil:
			head.entries = n
			out[name] = head
		}
	}
	return out
}

// kernelSets are the sets by our names that the kernel says it has, without a
// tool; none where it cannot be asked.
func (t *Target) kernelSets() (out []string) {
	if t.Glue.Kernel == nil {
		return nil
	}
	for _, f := range ir.Families {
		for _, name := range spec.SetNames(f) {
			for _, name := range []string{name, spec.Temporary(name)} {
				if _, err := t.Glue.Kernel.Sets([]string{name}); err == nil {
					out = append(out, name)
				}
			}
		}
	}
	return out
}

// believe compares the sets that ipset told of with those that the kernel has.
func (t *Target) believe(s *state) error {
	for _, name := range t.kernelSets() {
		i := familyOfSet(name)
		if i >= 0 && s.Families[i].set(name) == nil || i < 0 && !slices.Contains(s.Temporary, name) {
			return fmt.Errorf("ipset save: %w: it does not have the set %s, and the kernel does", apply.ErrAnswer, name)
		}
	}
	return nil
}
