package iptables

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// setsOf gives the numbers of the sets that the rules of ours in a table name.
// The kernel's bytes have nothing but those, and a set that is made anew may get
// another's.
func (t *Target) setsOf(out *table) (map[string]uint16, error) {
	sets := map[string]uint16{}
	for _, line := range out.rules {
		for _, name := range setNames(line) {
			sets[name] = 0
		}
	}
	names := slices.Sorted(maps.Keys(sets))
	numbers, err := t.Kernel.Sets(names)
	if err != nil {
		return nil, err
	}
	for i, name := range names {
		sets[name] = numbers[i]
	}
	return sets, nil
}

// sameSets says whether the names of sets in what was seen still stand for the
// numbers that they stood for.
func (t *Target) sameSets(was *seenTable) bool {
	names := slices.Sorted(maps.Keys(was.sets))
	numbers, err := t.Kernel.Sets(names)
	if err != nil {
		return false
	}
	for i, name := range names {
		if was.sets[name] != numbers[i] {
			return false
		}
	}
	return true
}

// setOptions are those that name a set: of the match, and of the target SET.
var setOptions = []string{"--match-set ", "--add-set ", "--del-set ", "--map-set "}

// setNames are the sets that a rule asks or changes.
func setNames(line string) (out []string) {
	if !strings.Contains(line, "-set ") {
		return nil
	}
	for _, option := range setOptions {
		for _, rest := range strings.Split(line, option)[1:] {
			name, _, _ := strings.Cut(rest, " ")
			out = append(out, name)
		}
	}
	return out
}

// recallSet takes in a set's number.
func (s *seenTable) recallSet(number, name string) error {
	n, err := strconv.ParseUint(number, 10, 16)
	if s == nil || err != nil {
		return errors.Join(errors.New("the number of a set in a table that was not read"), err)
	}
	s.sets[name] = uint16(n)
	return nil
}
