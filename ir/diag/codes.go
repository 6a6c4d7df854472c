package diag

import (
	"cmp"
	"maps"
	"slices"
)

// Code names a kind of finding, "SVCC1203". The first digit is the stage:
// 1 reading, 2 one object's fields, 3 across objects, 4 the node, 5 what a
// mode or a level cannot do.
type Code string

// Info documents a code.
type Info struct {
	Severity Severity
	Title    string // a short name of the fault
	Doc      string // what it means, why it matters, what to do; a sentence or more
	Strict   bool   // an error under --strict
}

// Info gives the table's row for the code; the zero Info for an unknown one.
func (c Code) Info() Info { return table[c] }

func (c Code) severity() Severity { return table[c].Severity }

// Codes lists every code in order.
func Codes() []Code {
	return slices.SortedFunc(maps.Keys(table), func(a, b Code) int { return cmp.Compare(a, b) })
}

// table documents each code once, for lint --list and explain. The codes stand
// in one file a stage; they never change: they are an interface.
var table = merge(reading, objects, nodes)

func merge(parts ...map[Code]Info) map[Code]Info {
	all := map[Code]Info{}
	for _, p := range parts {
		maps.Copy(all, p)
	}
	return all
}
