package diag

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Pos is a place in the input. Line and Col count from 1, in lines and bytes;
// 0 means unknown.
type Pos struct {
	File string
	Line int
	Col  int
}

// String gives "file:line:col", without the parts that are not known.
func (p Pos) String() string {
	p.File = PlainLine(p.File) // files are named by whoever made them
	switch {
	case p.File == "" && p.Line == 0:
		return "-"
	case p.Line == 0:
		return p.File
	case p.Col == 0:
		return fmt.Sprintf("%s:%d", p.File, p.Line)
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Col)
}

// IsZero says that nothing is known of the place.
func (p Pos) IsZero() bool { return p == Pos{} }

// Compare orders places by file, line and column.
func (p Pos) Compare(q Pos) int {
	return cmp.Or(cmp.Compare(p.File, q.File), cmp.Compare(p.Line, q.Line), cmp.Compare(p.Col, q.Col))
}

// Severity says what a finding does to the work.
type Severity uint8

// The severities, from the mildest.
const (
	Note    Severity = iota // information only
	Warning                 // the work is done, the user should look
	Error                   // the object is not compiled; without --keep-going, nothing is
)

func (s Severity) String() string { return [...]string{"note", "warning", "error"}[s] }

// Related is a further place that a diagnostic speaks of.
type Related struct {
	Pos     Pos
	Message string
}

// Diagnostic is one finding.
type Diagnostic struct {
	Code     Code
	Severity Severity
	Pos      Pos
	Object   string // "Service demo/web"; empty where no object is concerned
	Message  string // one sentence without a full stop
	Hint     string // what to do; may be empty
	Related  []Related
}

// String gives "file:line:col: severity: Kind ns/name: message [CODE]", on one line.
func (d Diagnostic) String() string {
	return fmt.Sprintf("%s: %s: %s [%s]", d.Place(), d.Severity, d.Text(), d.Code)
}

// Place is where the finding stands. One without a place is svcc's own: "-" would be
// standard input.
func (d Diagnostic) Place() string {
	if d.Pos.IsZero() {
		return "svcc"
	}
	return d.Pos.String()
}

// Text is the message, behind the object that it speaks of unless it names that.
func (d Diagnostic) Text() string {
	if d.Object == "" || strings.Contains(d.Message, d.Object) {
		return d.Message
	}
	return PlainLine(d.Object) + ": " + d.Message
}

// List is what a stage found, in any order; Sort gives it the one order in
// which it is shown.
type List []Diagnostic

// Add appends a finding of the code's own severity. What the message quotes of
// the input cannot reach a terminal as a command to it.
func (l *List) Add(code Code, pos Pos, object, format string, args ...any) *Diagnostic {
	*l = append(*l, Diagnostic{Code: code, Severity: code.severity(), Pos: pos, Object: object, Message: PlainLine(fmt.Sprintf(format, args...))})
	return &(*l)[len(*l)-1]
}

// Sort orders the list by place, code, object and message, and drops repeats.
func (l List) Sort() List {
	slices.SortStableFunc(l, func(a, b Diagnostic) int {
		return cmp.Or(a.Pos.Compare(b.Pos), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Object, b.Object), cmp.Compare(a.Message, b.Message))
	})
	return slices.CompactFunc(l, func(a, b Diagnostic) bool {
		return a.Pos == b.Pos && a.Code == b.Code && a.Object == b.Object && a.Message == b.Message
	})
}

// Errors is the part of the list with severity Error.
func (l List) Errors() List {
	var out List
	for _, d := range l {
		if d.Severity == Error {
			out = append(out, d)
		}
	}
	return out
}

// Strict gives a copy of the list in which the warnings that --strict turns
// into errors are errors (see Info.Strict).
func (l List) Strict() List {
	out := slices.Clone(l)
	for i := range out {
		if table[out[i].Code].Strict {
			out[i].Severity = Error
		}
	}
	return out
}
