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

// The codes. The right-hand sides never change: they are an interface.
const (
	// 1: reading
	ReadFailed Code = "SVCC1001"

	// 3: across objects
	ClaimedTwice Code = "SVCC3001"

	// 4: the node
	NodeNeeded Code = "SVCC4001"
)

// table documents each code once, for lint --list and explain.
var table = map[Code]Info{
	ReadFailed:   {Error, "unreadable input", "A file or directory named on the command line could not be read.", false},
	ClaimedTwice: {Error, "one destination, two services", "Two service ports claim the same address, port and protocol, or the same node port. kube-proxy picks one at random; svcc refuses. With --keep-going the service whose name sorts first keeps it.", false},
	NodeNeeded:   {Error, "the node is not known", "Rules for some services depend on a fact of the node (its name, address, zone or pod ranges) that neither the manifests nor the flags tell.", false},
}
