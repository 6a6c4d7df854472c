package iptables

import (
	"fmt"
	"strings"
)

// appendTable prints a table as iptables-restore reads it. A comment that is
// not plain text is an error: names are validated long before, so it is a
// fault of svcc.
func appendTable(b []byte, t *table) ([]byte, error) {
	b = append(append(append(b, '*'), t.name...), '\n')
	end := " - [0:0]\n"
	if t.brief {
		end = " -\n"
	}
	for _, c := range t.chains {
		b = append(append(append(b, ':'), c...), end...)
	}
	for i := range t.rules {
		var err error
		if b, err = appendRule(b, &t.rules[i]); err != nil {
			return nil, err
		}
	}
	return append(b, "COMMIT\n"...), nil
}

func appendRule(b []byte, r *rule) ([]byte, error) {
	b = append(append(b, "-A "...), r.chain...)
	for _, m := range r.early {
		b = m.appendTo(b)
	}
	b, err := appendComment(b, r.comment)
	if err != nil {
		return nil, err
	}
	for _, m := range r.matches {
		b = m.appendTo(b)
	}
	if r.action != nil {
		b = r.action.appendTo(b)
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
