package ipvs

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"svcc/emit"
	rules "svcc/emit/iptables"
	spec "svcc/emit/ipvs"
	"svcc/ir"
)

// state is what of the kernel is ours, or is to be, but for the glue.
type state struct {
	Link      bool // whether spec.Link is there
	Families  [2]familyState
	Timeouts  Timeouts
	Temporary []string // sets that an interrupted run was filling
}

// familyState is one family's part.
type familyState struct {
	Sets      []*spec.Set // in the order of spec.SetNames
	Addresses []netip.Addr
	Servers   []*Server // sorted by key
	// Busy are the sets that others' rules or sets refer to.
	Busy map[string]bool `json:"-"`
	// Used are the sets that anybody's refer to, ours included.
	Used map[string]bool `json:"-"`
}

// filled says whether any set has an entry. Empty ones may be left over.
func (f *familyState) filled() bool {
	return slices.ContainsFunc(f.Sets, func(s *spec.Set) bool { return len(s.Entries) > 0 })
}

func (f *familyState) set(name string) *spec.Set {
	for _, s := range f.Sets {
		if s.Name == name {
			return s
		}
	}
	return nil
}

// wanted is what a ruleset asks for: the state, and its sections for iptables.
// Whether it is of this mode does not matter: another's has no virtual servers.
func wanted(rs *emit.Ruleset) (*state, *emit.Ruleset, error) {
	out := &state{}
	if rs == nil {
		return out, nil, nil
	}
	glue := &emit.Ruleset{Head: rs.Head}
	var rest [2][]emit.Section
	for _, s := range rs.Sections {
		i := slices.Index(ir.Families, s.Family)
		switch {
		case i < 0:
			return nil, nil, fmt.Errorf("a section of %s", s.Family)
		case s.Tool == rules.Tool:
			glue.Sections = append(glue.Sections, s)
		default:
			rest[i] = append(rest[i], s)
			out.Link = out.Link || s.Tool == spec.ToolAddresses
		}
	}
	for i, f := range ir.Families {
		if err := out.Families[i].want(f, rest[i]); err != nil {
			return nil, nil, err
		}
	}
	return out, glue, nil
}

// want takes in the sections of one family, and says what in them cannot be.
func (f *familyState) want(family ir.Family, sections []emit.Section) error {
	s, err := spec.ReadState(family, sections)
	if err != nil {
		return err
	}
	names := spec.SetNames(family)
	for _, set := range s.Sets {
		if !slices.Contains(names, set.Name) {
			return fmt.Errorf("the ruleset has set %s, which is not one of svcc's", set.Name)
		}
	}
	f.Sets, f.Addresses = inOrder(names, s.Sets), s.Addresses
	o := f.owner()
	for _, v := range s.Servers {
		w, err := wantedServer(v)
		if err != nil {
			return err
		}
		if !o.owns(w.Key) {
			return fmt.Errorf("the ruleset has virtual server %s, but neither its address nor a set of it: it could not be told to be svcc's", v.Key)
		}
		f.Servers = append(f.Servers, w)
	}
	return nil
}

// inOrder sorts sets as their names are.
func inOrder(names []string, sets []*spec.Set) []*spec.Set {
	slices.SortFunc(sets, func(a, b *spec.Set) int { return slices.Index(names, a.Name) - slices.Index(names, b.Name) })
	return sets
}

// readSets takes what is ours of what "ipset save" printed.
func (s *state) readSets(dump []byte) error {
	var own [2]strings.Builder
	for line := range strings.Lines(string(dump)) {
		words := strings.SplitN(line, " ", 3)
		if len(words) < 3 || !spec.OwnedSet(words[1]) {
			continue
		}
		if i := familyOfSet(words[1]); i >= 0 {
			own[i].WriteString(line)
		} else if words[0] == "create" {
			s.Temporary = append(s.Temporary, words[1])
		}
	}
	slices.Sort(s.Temporary)
	for i, f := range ir.Families {
		sets, err := spec.ReadSets(f, []byte(own[i].String()))
		if err != nil {
			return fmt.Errorf("ipset save: %w", err)
		}
		s.Families[i].Sets = inOrder(spec.SetNames(f), sets)
	}
	return nil
}

// familyOfSet is the index in ir.Families of a set's; -1 for a temporary name.
func familyOfSet(name string) int {
	return slices.IndexFunc(ir.Families, func(f ir.Family) bool { return slices.Contains(spec.SetNames(f), name) })
}
