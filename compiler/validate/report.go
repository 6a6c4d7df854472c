package validate

import (
	"cmp"
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation"

	"svcc/ir/diag"
)

// path leads to a field: see manifest.Object.At.
type path = []any

// onService adds a finding about a field of a Service, unless the field could not be
// read at all, which was said.
func (c *checker) onService(s *service, code diag.Code, at path, format string, args ...any) *diag.Diagnostic {
	if s.Doubtful(at...) {
		return &diag.Diagnostic{}
	}
	d := c.list.Add(code, s.At(at...), c.object("Service", s.Value.Namespace, s.Value.Name), format, args...)
	c.blame(s.key, d)
	return d
}

// onSlice adds a finding about a field of an EndpointSlice; an error is its
// Service's as well.
func (c *checker) onSlice(x *slice, code diag.Code, at path, format string, args ...any) *diag.Diagnostic {
	if x.Doubtful(at...) {
		return &diag.Diagnostic{}
	}
	d := c.list.Add(code, x.At(at...), c.object("EndpointSlice", x.Value.Namespace, x.Value.Name), format, args...)
	if x.owner != "" {
		c.blame(x.owner, d)
	}
	return d
}

// blame makes a Service faulty if the finding is, or by Options.Strict will
// be, an error. The latter is kept apart: strictness adds no findings and
// hides none.
func (c *checker) blame(key string, d *diag.Diagnostic) {
	switch {
	case d.Severity == diag.Error:
		c.faulty[key] = true
	case c.o.Strict && d.Code.Info().Strict:
		c.strict[key] = true
	}
}

// object names an object for people. A name that breaks the rules is quoted:
// it may hold anything, line ends too.
func (c *checker) object(kind, namespace, name string) string {
	full := name
	if namespace != "" {
		full = namespace + "/" + name
	}
	if !c.names.isSubdomain(name) || namespace != "" && !c.names.isLabel(namespace) {
		full = strconv.Quote(full)
	}
	return kind + " " + full
}

// names remembers which names were found good: a cluster repeats few of them
// very often.
type names struct{ labels, subdomains map[string]bool }

func (n *names) isLabel(s string) bool { return remember(&n.labels, s, validation.IsDNS1123Label) }
func (n *names) isSubdomain(s string) bool {
	return remember(&n.subdomains, s, validation.IsDNS1123Subdomain)
}

func remember(known *map[string]bool, s string, check func(string) []string) bool {
	good, seen := (*known)[s]
	if !seen {
		good = len(check(s)) == 0
		if *known == nil {
			*known = map[string]bool{}
		}
		(*known)[s] = good
	}
	return good
}

func compareObjects(a, b string, p, q diag.Pos) int { return cmp.Or(cmp.Compare(a, b), p.Compare(q)) }

const (
	labelRule     = "use at most 63 lower-case letters, digits and '-', with a letter or digit at both ends"
	subdomainRule = "use at most 253 lower-case letters, digits, '-' and '.', with a letter or digit at both ends"
)
