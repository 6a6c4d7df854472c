package manifest

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	yaml2 "go.yaml.in/yaml/v2"
	yaml3 "go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"svcc/ir/diag"
)

// yamlFault says what is wrong with text that the YAML library refused.
func (u unit) yamlFault(r *result, text []byte, err error) {
	var bad *yaml2.TypeError
	if !errors.As(err, &bad) {
		r.broken = true
		u.syntax(r, text, err)
		return
	}
	// Duplicate keys are the one thing that breaks an otherwise sound document.
	if t, err := skim(text); err == nil {
		if t = t.or(u.list.item()); t.api != "" && t.kind != "" && !u.wants(t) {
			r.skipped = append(r.skipped, t)
			return
		}
	}
	data, err := yaml.YAMLToJSON(text)
	name := ""
	if err == nil {
		if t := typeOf(data).or(u.list.item()); !t.isList() {
			name = nameIn(data, t.kind)
		}
	}
	if n := u.doc.duplicates(r, name); n == 0 {
		u.merging(r, text, bad)
	} else if name != "" {
		u.broken = true // which value counts is unknown; the rest can be looked at
		u.value(r, u.doc, data, u.list)
	}
}

// merging reads what the library calls duplicate keys although no mapping has one
// twice: keys that a merge (<<) brings beside explicit ones, which win.
func (u unit) merging(r *result, text []byte, bad *yaml2.TypeError) {
	data, err := unmerged(text)
	if err == nil {
		data, err = yaml.YAMLToJSONStrict(data)
	}
	if err != nil {
		u.syntax(r, text, errors.New(strings.Join(bad.Errors, "; ")))
		return
	}
	u.value(r, u.doc, data, u.list)
}

// duplicates tells every key that stands twice in its mapping, and how many.
func (d *document) duplicates(r *result, object string) (n int) {
	root := d.object()
	if root == nil {
		return 0
	}
	root.twice(map[*node]bool{}, func(name string, first, again int) {
		n++
		e := r.diags.Add(diag.DuplicateKey, d.src.pos(d.span.at+again), object, "key %q is given twice", name)
		e.Related = []diag.Related{{Pos: d.src.pos(d.span.at + first), Message: "first given here"}}
		e.Hint = "remove one of them"
	})
	return n
}

// syntax places an error of a YAML library.
func (u unit) syntax(r *result, text []byte, err error) {
	msg := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "yaml: "), "unmarshal errors:\n  ")
	if at, c := controlByte(text); at >= 0 {
		r.diags.Add(diag.BadEncoding, u.doc.src.pos(u.doc.span.at+at), "", "control character U+%04X in YAML", c).
			Hint = "write it as an escape in a quoted string; UTF-16 needs a byte order mark"
		return
	}
	line, msg := errorLine(msg)
	pos := u.doc.line(text, line, msg)
	if strings.HasPrefix(msg, "invalid map key") {
		// The library shows Go's own spelling of it, and no line.
		msg = "a mapping or list stands where a key is expected"
		if at := oddKey(text); at >= 0 {
			pos = u.doc.src.pos(u.doc.span.at + at)
		}
	}
	r.diags.Add(diag.BadYAML, pos, "", "broken YAML: %s", msg).Hint = diag.TemplateHint(string(text))
}

// oddKey is the offset of the first key that is no scalar, -1 if there is none.
func oddKey(text []byte) int {
	var doc yaml3.Node
	if yaml3.Unmarshal(text, &doc) != nil {
		return -1
	}
	b := treeBuilder{text: text, line: []int{0}}
	var find func(n *yaml3.Node) int
	find = func(n *yaml3.Node) int {
		for i, kid := range n.Content {
			if n.Kind == yaml3.MappingNode && i%2 == 0 && (kid.Kind == yaml3.MappingNode || kid.Kind == yaml3.SequenceNode) {
				return b.offset(kid)
			}
			if at := find(kid); at >= 0 {
				return at
			}
		}
		return -1
	}
	return find(&doc)
}

var lineOf = regexp.MustCompile(`^line (\d+): `)

// errorLine takes the line off a message; 1 if there is none. For errors of the
// parser, rather than of its scanner, the library gives the line before.
func errorLine(msg string) (line int, rest string) {
	m := lineOf.FindStringSubmatch(msg)
	if m == nil {
		return 1, msg
	}
	line, _ = strconv.Atoi(m[1])
	rest = msg[len(m[0]):]
	if strings.HasPrefix(rest, "did not find expected") && !strings.Contains(rest, "character") && !strings.Contains(rest, "whitespace") {
		line++
	}
	return line, rest
}

// line is the place of the document's n-th line's first token, counted as YAML
// does; of an unknown anchor's alias, which comes without a line, the alias.
func (d *document) line(text []byte, n int, msg string) diag.Pos {
	if name, ok := strings.CutPrefix(msg, "unknown anchor '"); ok {
		name, _, _ = strings.Cut(name, "'")
		if at := bytes.Index(text, []byte("*"+name)); at >= 0 {
			return d.src.pos(d.span.at + at)
		}
	}
	if n <= 1 {
		return d.start()
	}
	at := 0
	for ; n > 1 && at < len(text); n-- {
		at = lineEnd(text, at)
		at += breakLen(text[at:])
	}
	return d.src.pos(d.span.at + min(at+blanks(text[at:]), len(text)))
}

// controlByte finds a character that YAML does not allow.
func controlByte(text []byte) (at int, r rune) {
	for at := 0; at < len(text); {
		r, n := utf8.DecodeRune(text[at:])
		switch {
		case r == '\t', r == '\n', r == '\r', r == 0x85, r >= ' ' && r < 0x7f, r >= 0xa0 && r < 0xfffe, r > 0xffff:
			at += n
		default:
			return at, r
		}
	}
	return -1, 0
}

// strictFaults tells of unknown fields and, in JSON, of keys given twice, and
// whether there are any of the latter.
func strictFaults(r *result, doc *document, object string, errs []error) (twice bool) {
	if len(errs) > 0 && doc.whole == nil {
		doc.whole = &whole{} // parse once for all of them
		defer func() { doc.whole = nil }()
	}
	for _, err := range errs {
		var field kjson.FieldError
		switch {
		case errors.As(err, &field) && !strings.HasPrefix(err.Error(), "duplicate"):
			unknownField(r, doc, object, field.FieldPath())
		case !twice:
			twice = true
			if doc.duplicates(r, object) == 0 {
				r.diags.Add(diag.DuplicateKey, doc.start(), object, "%v", err)
			}
		}
	}
	return twice
}

func unknownField(r *result, doc *document, object, written string) {
	var path []any
	if root := doc.object(); root != nil {
		path = root.path(written)
	}
	name, parent := written, "the object"
	if len(path) > 0 {
		name = pathString(path[len(path)-1:])
	}
	if len(path) > 1 {
		parent = pathString(path[:len(path)-1])
	}
	r.diags.Add(diag.UnknownField, doc.at(doc.start(), path), object, "unknown field %q in %s", name, parent).
		Hint = "check its spelling and indentation; it has no effect"
}

func noName(r *result, doc *document, m metav1.Object, t typeMeta) {
	if m.GetGenerateName() != "" {
		r.diags.Add(diag.NameMissing, doc.at(doc.start(), []any{"metadata", "generateName"}), t.kind, "%s has a generateName but no name", t.kind).
			Hint = "give metadata.name: a generated name is known to the API server alone"
		return
	}
	r.diags.Add(diag.NameMissing, doc.at(doc.start(), []any{"metadata"}), t.kind, "%s has no name", t.kind).
		Hint = "give metadata.name"
}

// wrongTypes finds which fields keep data from being decoded. The decoder
// itself names the first alone, without list indices, and none at all where a
// type decodes itself. So each part is tried by itself, down to the smallest
// that fails.
func wrongTypes(r *result, doc *document, data []byte, t typeMeta, k kind, err error) []culprit {
	b := &blame{try: func(b []byte) error {
		return kjson.UnmarshalCaseSensitivePreserveInts(b, k.make())
	}, kind: k}
	b.in(nil, data, nil, nil)
	if len(b.found) == 0 {
		b.found = append(b.found, culprit{err: err})
	}
	for _, c := range b.found {
		what, quote := b.words(c.err)
		if len(c.path) > 0 {
			what = pathString(c.path) + " " + what
		}
		d := r.diags.Add(diag.WrongType, doc.at(doc.start(), c.path), nameIn(data, t.kind), "%s", what)
		if quote {
			d.Hint = "put the value in quotes"
		}
		if hint := diag.TemplateHint(jsonText(c.value)); hint != "" {
			d.Hint = hint
		}
	}
	return b.found
}

// blame narrows a failure down.
type blame struct {
	try   func([]byte) error
	kind  kind
	found []culprit
}

type culprit struct {
	path  []any
	value []byte // as JSON
	err   error
}

func (b *blame) in(before, value, after []byte, path []any) {
	if len(b.found) >= maxFaults {
		return
	}
	whole := bytes.Join([][]byte{before, value, after}, nil)
	if b.try(whole) == nil {
		return
	}
	n := len(b.found)
	b.parts(before, value, after, func(open string, part []byte, end string, step any) {
		b.in(append(bytes.Clone(before), open...), part, append([]byte(end), after...), append(path[:len(path):len(path)], step))
	})
	if len(b.found) == n {
		var std *stdjson.UnmarshalTypeError // says more than the other's text
		err := stdjson.Unmarshal(whole, b.kind.make())
		if !errors.As(err, &std) {
			err = b.try(whole)
		}
		b.found = append(b.found, culprit{path, bytes.Clone(value), err})
	}
}

// parts takes a mapping or list apart, unless one is out of place there even
// when empty.
func (b *blame) parts(before, value, after []byte, see func(open string, part []byte, end string, step any)) {
	empty := []byte{value[0], value[len(value)-1]}
	if b.try(bytes.Join([][]byte{before, empty, after}, nil)) != nil {
		return
	}
	switch value[0] {
	case '{':
		jsonMembers(value, 0, func(key string, keyAt int, v span) bool {
			see("{"+string(value[keyAt:jsonString(value, keyAt)])+":", v.of(value), "}", key)
			return true
		})
	case '[':
		jsonElements(value, 0, func(i int, v span) { see("[", v.of(value), "]", i) })
	}
}

// words says what is wrong, and whether quotes would help.
func (b *blame) words(err error) (what string, quote bool) {
	var bad *stdjson.UnmarshalTypeError
	if !errors.As(err, &bad) {
		return "cannot be read: " + strings.TrimPrefix(err.Error(), "json: "), false
	}
	is := map[string]string{"string": "text", "bool": "true or false", "array": "a list", "object": "a mapping", "number": "a number"}[bad.Value]
	if is == "" {
		is = bad.Value // "number 1.5"
	}
	want := wanted(bad.Type)
	return "is " + is + " where " + want + " is expected", want == "text" && (bad.Value == "bool" || strings.HasPrefix(bad.Value, "number"))
}

func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "a mapping"
	case reflect.Int32:
		return "a whole number of 32 bits"
	case reflect.Pointer:
		return wanted(t.Elem())
	}
	return "a whole number"
}

func isChart(name string) bool { return filepath.Base(name) == "Chart.yaml" }
