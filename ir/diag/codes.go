package diag

import (
	"cmp"
	"maps"
	"slices"
)

// Code names a kind of finding, "SVCC1203". The first digit is its Stage.
type Code string

// Stage is what svcc was looking at when it found something.
type Stage byte

// The stages; the value is the digit in a Code.
const (
	StageReading Stage = '1'
	StageObject  Stage = '2' // the fields of one object
	StageAcross  Stage = '3' // several objects
	StageNode    Stage = '4' // the node and the options
	StageMode    Stage = '5' // what a mode or a level cannot do
)

// Stage is that of the finding; 0 if the code has not the form of one.
func (c Code) Stage() Stage {
	if len(c) != len("SVCC1203") {
		return 0
	}
	return Stage(c[len("SVCC")])
}

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
