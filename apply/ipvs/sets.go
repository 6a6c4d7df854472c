package ipvs

import (
	"fmt"
	"slices"
	"strings"

	spec "svcc/emit/ipvs"
	"svcc/ir"
)

// setEdit is what one set needs.
type setEdit struct {
	family ir.Family
	have   *spec.Set // nil if it is not there
	want   *spec.Set // nil if it is to go
	// first is what the set holds until everything that goes has gone: what is
	// wanted, and what proves that to be ours.
	first *spec.Set
	busy  bool // it is to go, and cannot: others use it
	used  bool // rules refer to it
}

// editSets compares the sets of a family. Sets that are as they should be are
// left out.
func editSets(f ir.Family, have, want *familyState, l *leaving) []*setEdit {
	var out []*setEdit
	for _, name := range spec.SetNames(f) {
		e := &setEdit{family: f, have: have.set(name), want: want.set(name)}
		if e.have == nil && e.want == nil {
			continue
		}
		e.busy, e.used = e.want == nil && have.Busy[name], have.Used[name]
		e.setFirst(l)
		if e.needed() {
			out = append(out, e)
		}
	}
	return out
}

// needed says whether anything is to be done. Entries of a set that others made,
// with options of their own, are not compared: they may come and go by themselves.
func (e *setEdit) needed() bool {
	switch {
	case e.busy:
		return len(e.have.Entries) > 0
	case e.have == nil || e.want == nil || !sameShape(e.have, e.want):
		return true
	}
	return e.want.Odd == "" && !slices.Equal(e.have.Entries, e.want.Entries)
}

// setFirst makes room for all that has to be in the set for now.
func (e *setEdit) setFirst(l *leaving) {
	if e.want == nil {
		return
	}
	first := *e.want
	e.first = &first
	if e.have == nil {
		return
	}
	if !e.have.Swaps(e.want, e.family) {
		// Another type's. Where rules use it, they go first.
		if e.used {
			e.first = e.have
		}
		return
	}
	first.Entries = slices.Clone(first.Entries)
	for _, x := range more(e.have, e.want) {
		if l.needs(e.have, x) {
			first.Entries = append(first.Entries, x)
		}
	}
	slices.Sort(first.Entries)
	if first.MaxElem > 0 {
		first.MaxElem = max(first.MaxElem, len(first.Entries))
	}
}

// sameShape says that a set need not be made anew to be another. The kernel
// lets the hash table grow by itself.
func sameShape(a, b *spec.Set) bool {
	return a.Type == b.Type && a.MaxElem == b.MaxElem && a.Odd == b.Odd
}

// fewEntries is how many entries are edited in any set, however small.
const fewEntries = 16

// edited says whether to edit a set rather than to fill a new one and swap it
// in. Swapped, all entries come and go at one moment; but each entry stands for
// itself, and what a change costs must not depend on how large a set is. So one
// is swapped if its size is to be another, or more than a quarter of it changes.
func edited(have, want *spec.Set) bool {
	if !sameShape(have, want) {
		return false
	}
	n := len(more(have, want)) + len(more(want, have))
	return n <= max(fewEntries, len(want.Entries)/4)
}

// without are the elements of a sorted list that another has not.
func without[T any](a, b []T, compare func(T, T) int) []T {
	var out []T
	for _, x := range a {
		for len(b) > 0 && compare(b[0], x) < 0 {
			b = b[1:]
		}
		if len(b) == 0 || compare(b[0], x) != 0 {
			out = append(out, x)
		}
	}
	return out
}

// more are the entries that the one set has and the other has not.
func more(a, b *spec.Set) []string { return without(a.Entries, b.Entries, strings.Compare) }

// setsText collects commands of ipset restore.
type setsText struct{ strings.Builder }

func (t *setsText) line(format string, args ...any) { fmt.Fprintf(t, format+"\n", args...) }

func (t *setsText) each(verb, name string, entries []string) {
	for _, x := range entries {
		t.WriteString(verb + " " + name + " " + x + "\n")
	}
}

// turn makes of one set another that has its name.
func (t *setsText) turn(f ir.Family, have, want *spec.Set) {
	switch {
	case have == nil:
		t.line("%s", want.Create(f))
		t.each("add", want.Name, want.Entries)
	case !have.Swaps(want, f):
		t.line("destroy %s", have.Name)
		t.turn(f, nil, want)
	case edited(have, want):
		t.each("add", want.Name, more(want, have))
	default:
		temporary := spec.Temporary(want.Name)
		t.line("%s", want.CreateTemporary(f))
		t.each("add", temporary, want.Entries)
		t.line("swap %s %s", temporary, want.Name)
		t.line("destroy %s", temporary)
	}
}

// setsFirst is the input that is safe before anything else: what comes to the
// sets comes, what is not needed any more goes. What makes an exception of
// something (the node ports that are not masqueraded, the ranges that a guard
// lets through) stands later in the order of sets than what it is an exception
// of, so additions go from the last set to the first, and deletions back.
func setsFirst(edits []*setEdit, temporary []string) string {
	var t setsText
	for _, name := range temporary {
		t.line("destroy %s", name)
	}
	for _, e := range slices.Backward(edits) {
		if e.first != nil {
			t.turn(e.family, e.have, e.first)
		}
	}
	for _, e := range edits {
		if e.first != nil && e.have != nil && edited(e.have, e.first) {
			t.each("del", e.first.Name, more(e.have, e.first))
		}
	}
	return t.String()
}

// setsLast is the input for when everything else has gone, but for the sets
// that are to go altogether.
func setsLast(edits []*setEdit) string {
	var t setsText
	for _, e := range edits {
		switch {
		case e.late():
			t.turn(e.family, nil, e.want)
		case e.first == nil || slices.Equal(e.first.Entries, e.want.Entries):
		case edited(e.first, e.want):
			t.each("del", e.want.Name, more(e.first, e.want))
		default:
			t.turn(e.family, e.first, e.want)
		}
	}
	return t.String()
}

// late says that a set of another type is made anew when no rule uses it any more.
func (e *setEdit) late() bool { return e.first != nil && e.first == e.have }

// setsLate are the sets that must go before they are made anew.
func setsLate(edits []*setEdit) (names []string) {
	for _, e := range edits {
		if e.late() {
			names = append(names, e.have.Name)
		}
	}
	return names
}

// setsGone are the sets that are to go; the busy ones are those that others use.
func setsGone(edits []*setEdit) (gone, busy []string) {
	for _, e := range edits {
		switch {
		case e.busy:
			busy = append(busy, e.have.Name)
		case e.want == nil:
			gone = append(gone, e.have.Name)
		}
	}
	return gone, busy
}
