package diag

import (
	"regexp"
	"strings"
)

var template = regexp.MustCompile(`\{\{[^}]*\}\}|\$\{[^}]*\}|\$\([A-Za-z_][^)]*\)|<%.*%>`)

// TemplateHint is what to do about text that still holds a template, as {{ .Values.x }}
// or ${PORT}; "" for any other.
func TemplateHint(text string) string {
	switch found := template.FindString(text); {
	case found == "" && strings.Contains(text, "{{"), strings.HasPrefix(found, "{{"):
		return `this looks like a template: render it first, as with "helm template"`
	case found != "":
		return "this looks like a template: render it first, as with envsubst"
	}
	return ""
}

// Templates gives those errors whose message quotes a template the hint that says so.
func (l List) Templates() {
	for i := range l {
		if hint := TemplateHint(l[i].Message); hint != "" && l[i].Severity == Error {
			l[i].Hint = hint
		}
	}
}
