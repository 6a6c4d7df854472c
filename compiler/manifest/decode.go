package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	yaml3 "go.yaml.in/yaml/v3"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"svcc/ir/diag"
)

// unit is a piece of input that one worker decodes: a document or, cut out of a
// list, an item.
type unit struct {
	doc     *document
	list    typeMeta // that the item was cut out of
	checked bool     // known to be JSON
	broken  bool     // a key is given twice in it
	opts    Options
}

// result is what a unit came to.
type result struct {
	found   []found
	skipped []typeMeta
	diags   diag.List
	broken  bool // the text does not parse; an item's list is to be read whole
}

// found is one object.
type found struct {
	value  any
	doc    *document
	pos    diag.Pos
	broken bool    // it has been read in part; the list says what is wrong
	faults [][]any // paths of what could not be read
}

// decode never panics: a library that does leaves a diagnostic.
func (u unit) decode() (r result) {
	defer func() {
		if p := recover(); p != nil {
			r = result{broken: true}
			r.diags.Add(diag.ReaderFault, u.doc.start(), "", "the document cannot be read: %v", p)
		}
	}()
	if u.doc.json {
		u.json(&r)
	} else {
		u.yaml(&r)
	}
	return r
}

func (u unit) json(r *result) {
	text := u.doc.span.of(u.doc.src.text)
	if _, err := jsonValue(text, 0); errors.Is(err, errJSONDeep) {
		u.tooDeep(r)
		return
	}
	off, err := checkJSON(text)
	switch {
	case u.checked || err == nil:
		u.value(r, u.doc, text, u.list)
	case !u.doc.src.isJSON() && u.flow(r):
	default:
		r.diags.Add(diag.BadJSON, u.doc.src.pos(u.doc.span.at+off), "", "broken JSON: %v", err)
	}
}

// checkJSON gives the offset of the first byte that is not JSON.
func checkJSON(text []byte) (off int, err error) {
	var none struct{}
	err = kjson.UnmarshalCaseSensitivePreserveInts(text, &none)
	broken, at := kjson.SyntaxErrorOffset(err)
	if !broken {
		return 0, nil
	}
	return max(int(at)-1, 0), err
}

// flow reads as YAML what looked like JSON and is not.
func (u unit) flow(r *result) bool {
	doc := *u.doc
	doc.json = false
	var again result
	unit{doc: &doc, opts: u.opts}.yaml(&again)
	if again.broken {
		return false
	}
	*r = again
	return true
}

func (u unit) tooDeep(r *result) {
	r.diags.Add(diag.TooDeep, u.doc.start(), "", "mappings and lists are nested more than %d deep", maxDepth)
}

func (u unit) yaml(r *result) {
	text := u.doc.text()
	if len(text) > maxDocument {
		r.diags.Add(diag.TooLarge, u.doc.start(), "", "a YAML document of %d bytes is larger than %d bytes", len(text), maxDocument).
			Hint = "split the document, or give it as JSON"
		return
	}
	first := u.doc.first - u.doc.span.at
	if mayTrail(text, first) && u.trailing(r, text) || u.foreign(r, text, first) || mayAlias(text) && u.aliasesGrow(r, text) {
		return
	}
	data, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		u.yamlFault(r, text, err)
		return
	}
	if _, err := jsonValue(data, 0); errors.Is(err, errJSONDeep) {
		u.tooDeep(r)
		return
	}
	u.value(r, u.doc, data, u.list)
}

// trailing looks for text behind the one value of a document.
func (u unit) trailing(r *result, text []byte) bool {
	var node yaml3.Node
	dec := yaml3.NewDecoder(bytes.NewReader(text))
	if dec.Decode(&node) != nil {
		return false // the other parser shall say what is wrong
	}
	err := dec.Decode(&node)
	if errors.Is(err, io.EOF) {
		return false
	}
	r.broken = true
	line := 1
	if err != nil {
		line, _ = errorLine(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	u.syntax(r, text, fmt.Errorf("line %d: this does not belong to what was begun on line %d, see the indentation", line, u.doc.start().Line))
	return true
}

// foreign skips what is of no interest without decoding it.
func (u unit) foreign(r *result, text []byte, first int) bool {
	t := sniff(text, first).or(u.list.item())
	if t.api == "" || t.kind == "" || u.wants(t) {
		return false
	}
	seen, err := skim(text)
	if err != nil || seen.or(u.list.item()) != t {
		return false
	}
	r.skipped = append(r.skipped, t)
	return true
}

// wants says that it takes more than the type to know what to do.
func (u unit) wants(t typeMeta) bool {
	k, ok := kinds[t]
	if !ok {
		_, ok = sibling(t)
	}
	if !ok {
		_, ok = u.near(t)
	}
	ok = ok || u.opts.config && t == configMap
	return ok && !(k.onRequest && !u.opts.Endpoints) || t.isList()
}

func (u unit) aliasesGrow(r *result, text []byte) bool {
	var node yaml3.Node
	if err := yaml3.Unmarshal(text, &node); err != nil {
		r.broken = true
		u.syntax(r, text, err)
		return true
	}
	if aliasBytes(&node) <= maxAliases {
		return false
	}
	r.diags.Add(diag.AliasesGrow, u.doc.start(), "", "aliases would make the document larger by more than %d bytes", maxAliases).
		Hint = "write out what the aliases stand for, or split the document"
	return true
}

// value takes one document or item as JSON; data has been parsed before.
func (u unit) value(r *result, doc *document, data []byte, list typeMeta) {
	if data = bytes.TrimSpace(data); string(data) == "null" && list == (typeMeta{}) {
		return
	}
	t := typeOf(data)
	if data[0] == '{' {
		t = t.or(list.item())
	}
	if t.api == "" || t.kind == "" {
		u.untyped(r, doc, data, t, list)
		return
	}
	if items, ok := jsonField(data, "items"); ok && t.isList() && data[items.at] == '[' {
		jsonElements(data, items.at, func(i int, v span) {
			u.value(r, doc.kid(i, v), v.of(data), t)
		})
		return
	}
	k, ok := kinds[t]
	read, other := sibling(t)
	meant, near := u.near(t)
	switch {
	case t.api == "v1" && t.kind == "List": // without items
	case u.opts.config && t == configMap:
		u.inConfigMap(r, doc, data)
	case ok && (!k.onRequest || u.opts.Endpoints):
		u.typed(r, doc, data, t, k)
	case !ok && other:
		r.diags.Add(diag.VersionUnread, doc.at(doc.start(), []any{"apiVersion"}), nameIn(data, t.kind), "%s of %s is not read", t.kind, t.api).
			Hint = fmt.Sprintf("convert it to %s", read.api)
		fallthrough
	default:
		if !ok && !other && near {
			r.diags.Add(diag.KindMisspelt, doc.at(doc.start(), []any{"kind"}), nameIn(data, t.kind), "%s of %s is no kind that is read", t.kind, t.api).
				Hint = fmt.Sprintf("did you mean kind %s of apiVersion %s?", meant.kind, meant.api)
		}
		r.skipped = append(r.skipped, t)
	}
}

func typeOf(data []byte) typeMeta {
	s := jsonStrings(data, "apiVersion", "kind")
	return typeMeta{s[0], s[1]}
}

// untyped is for what is no object, or does not say which.
func (u unit) untyped(r *result, doc *document, data []byte, t, list typeMeta) {
	if list != (typeMeta{}) && list.api != "v1" && data[0] != '{' {
		r.skipped = append(r.skipped, list) // a kind of its own that happens to be called a list
		return
	}
	src := doc.src
	chart := t.kind == "" && isChart(src.name)
	if !src.named && list == (typeMeta{}) && (t == (typeMeta{}) || chart) {
		r.diags.Add(diag.PassedOver, doc.start(), "", "passed over: %s", lacks(data, t))
		return
	}
	r.diags.Add(diag.KindMissing, doc.start(), "", "not a Kubernetes object: %s", lacks(data, t)).
		Hint = "begin it with apiVersion and kind, or leave the file out"
}

func lacks(data []byte, t typeMeta) string {
	switch {
	case data[0] != '{':
		return "it is not a mapping"
	case t.api == "" && t.kind == "":
		return "apiVersion and kind are missing"
	case t.api == "":
		return "apiVersion is missing"
	}
	return "kind is missing"
}

// typed decodes an object of a kind that is read.
func (u unit) typed(r *result, doc *document, data []byte, t typeMeta, k kind) {
	v := k.make()
	f := found{doc: doc, pos: doc.start(), broken: u.broken}
	strict, err := kjson.UnmarshalStrict(data, v)
	if err != nil {
		culprits := wrongTypes(r, doc, data, t, k, err)
		v = k.make()
		if strict, err = kjson.UnmarshalStrict(repaired(data, culprits), v); err != nil {
			return
		}
		f.broken = true
		for _, c := range culprits {
			f.faults = append(f.faults, c.path)
		}
	}
	f.value = v
	f.broken = strictFaults(r, doc, Name(v), strict) || f.broken
	m, ok := v.(metav1.Object)
	if ok && m.GetName() == "" {
		noName(r, doc, m, t)
		return
	}
	if ok {
		tidy(m, k)
	}
	r.found = append(r.found, f)
}

func tidy(m metav1.Object, k kind) {
	m.SetManagedFields(nil) // large, and of no use here
	switch {
	case !k.namespaced:
		m.SetNamespace("")
	case m.GetNamespace() == "":
		m.SetNamespace(corev1.NamespaceDefault)
	}
}

// nameIn names an object that is not decoded.
func nameIn(data []byte, kind string) string {
	meta, ok := jsonField(data, "metadata")
	if !ok {
		return kind
	}
	s := jsonStrings(meta.of(data), "namespace", "name")
	return nameOf(kind, s[0], s[1])
}
