package rule

import (
	"fmt"
	"strings"
)

// Table is one table of a restore input.
type Table struct {
	Name   string
	Brief  bool     // chains are declared without counters, which nobody reads
	Chains []string // user chains, in the order of declaration
	Rules  []Rule   // in the order of writing
}

// AppendTable prints a table as iptables-restore reads it. Its errors
// are those of Append.
func AppendTable(b []byte, t *Table) ([]byte, error) {
	b = append(append(append(b, '*'), t.Name...), '\n')
	end := " - [0:0]\n"
	if t.Brief {
		end = " -\n"
	}
	for _, c := range t.Chains {
		b = append(append(append(b, ':'), c...), end...)
	}
	for i := range t.Rules {
		var err error
		if b, err = Append(b, &t.Rules[i]); err != nil {
			return nil, err
		}
	}
	return append(b, "COMMIT\n"...), nil
}

// Append prints a line "-A CHAIN ...", with its end. A comment that is not plain text
// is an error: names are validated long before, so it is a fault of svcc.
func Append(b []byte, r *Rule) ([]byte, error) {
	b = append(append(b, "-A "...), r.Chain...)
	for _, m := range r.Early {
		b = m.appendTo(b)
	}
	b, err := appendComment(b, r.Comment)
	if err != nil {
		return nil, err
	}
	for _, m := range r.Matches {
		b = m.appendTo(b)
	}
	if r.Action != nil {
		b = r.Action.appendTo(b)
	}
	return append(b, '\n'), nil
}

// appendComment quotes a comment where it has blanks, as kube-proxy does.
func appendComment(b []byte, c string) ([]byte, error) {
	if c == "" {
		return b, nil
	}
	if i := strings.IndexFunc(c, func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' || r == '\'' }); i >= 0 {
		return nil, fmt.Errorf("comment %q holds a character that could end it", c)
	}
	b = append(b, " -m comment --comment "...)
	if strings.Contains(c, " ") {
		return append(append(append(b, '"'), c...), '"'), nil
	}
	return append(b, c...), nil
}
