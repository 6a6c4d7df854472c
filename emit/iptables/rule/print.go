package rule

import (
	"fmt"
	"strings"
)

func Append(b []byte, r *Rule) ([]byte, error) {
	b = append(append(b, "-A "...), r.Chain...)
	for _, m := range r.Early {
		b = m.AppendTo(b)
	}
	b, err := appendComment(b, r.Comment)
	if err != nil {
		return nil, err
	}
	for _, m := range r.Matches {
		b = m.AppendTo(b)
	}
	if r.Action != nil {
		b = r.Action.AppendTo(b)
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
