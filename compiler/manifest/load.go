package manifest

import (
	"bytes"
	"io"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/yaml"

	"svcc/ir/diag"
)

// Options say how to read.
type Options struct {
	Endpoints bool // also read core/v1 Endpoints

	config bool // read a KubeProxyConfiguration out of a ConfigMap too; see LoadConfig
}

// Load reads files, directories (recursively: .yaml, .yml, .json) and "-",
// which is stdin. It reads on after an error, so that all are told; an object
// with an error is not in the Set, or is Broken, one with a warning is. Both results are in
// the order of the paths, names within a directory sorted, and of the documents
// in each file. The namespace of an object that names none is "default".
func Load(paths []string, stdin io.Reader, o Options) (*Set, diag.List) {
	inputs, diags := findInputs(paths)
	var docs []*work
	held := map[string]bool{} // paths that something was found in, or went wrong with
	for _, in := range inputs {
		src, bad := readSource(in, stdin)
		diags = append(diags, bad...)
		var found []*work
		if src != nil {
			found = documents(src, o)
		}
		held[in.path] = held[in.path] || src == nil || len(bad) > 0 || slices.ContainsFunc(found, (*work).says)
		docs = append(docs, found...)
	}
	for _, in := range inputs {
		if !held[in.path] {
			held[in.path] = true
			diags.Add(diag.NothingFound, diag.Pos{File: in.path}, "", "no manifests found in %q", in.path).
				Hint = "it is empty, or has nothing but comments; a List without items counts as a manifest"
		}
	}
	run(docs)
	m := newMerger(diags)
	for _, w := range docs {
		m.work(w)
	}
	m.breakTwice()
	return m.set, m.diags
}

// work is a document with what it is cut into.
type work struct {
	whole   unit
	parts   []unit
	results []result // of the parts
}

// says that a document has content.
func (w *work) says() bool {
	d := w.whole.doc
	if d.first < d.span.at {
		return false
	}
	text := string(bytes.TrimSpace(d.src.text[d.first:d.span.end]))
	return text != "null" && text != "~"
}

// documents cuts a source into documents.
func documents(src *source, o Options) []*work {
	var docs []*work
	add := func(list ...*document) {
		for _, d := range list {
			docs = append(docs, &work{whole: unit{doc: d, opts: o}})
		}
	}
	if src.isJSON() {
		list, _ := jsonDocuments(src, 0, len(src.text))
		add(list...)
		return docs
	}
	for _, s := range cutYAML(src.text) {
		first := s.at + firstToken(s.of(src.text))
		if list, ok := jsonDocuments(src, first, s.end); ok {
			add(list...)
		} else {
			add(&document{src: src, span: s, first: first})
		}
	}
	return docs
}

// jsonDocuments cuts a stretch into JSON values. ok is false if it cannot be
// a stream of JSON objects; a mapping in YAML's flow style may pass for one.
func jsonDocuments(src *source, at, end int) (docs []*document, ok bool) {
	if !src.isJSON() && !looksJSON(src.text[at:end]) {
		return nil, false
	}
	values, err := jsonValues(src.text[:end], at)
	ok = err == nil
	for _, v := range values {
		docs = append(docs, &document{src: src, span: v, first: v.at, json: true})
		ok = ok && src.text[v.at] == '{'
	}
	return docs, ok
}

func looksJSON(text []byte) bool {
	if len(text) == 0 || text[0] != '{' {
		return false
	}
	at := jsonSpace(text, 1)
	return at < len(text) && (text[at] == '"' || text[at] == '}')
}

// run decodes all documents, first cutting long ones, with a bounded number of
// workers.
func run(docs []*work) {
	var cut, decode errgroup.Group
	cut.SetLimit(runtime.GOMAXPROCS(0))
	decode.SetLimit(runtime.GOMAXPROCS(0))
	for _, w := range docs {
		cut.Go(func() error { w.cut(); return nil })
	}
	_ = cut.Wait()
	for _, w := range docs {
		for i, u := range w.parts {
			decode.Go(func() error { w.results[i] = u.decode(); return nil })
		}
	}
	_ = decode.Wait()
	for _, w := range docs {
		w.mend()
	}
}

// cut turns the items of a list into parts.
func (w *work) cut() {
	w.parts = []unit{w.whole}
	if parts := w.items(); parts != nil {
		w.parts = parts
	}
	w.results = make([]result, len(w.parts))
}

func (w *work) items() (parts []unit) {
	defer func() {
		if recover() != nil {
			parts = nil // the whole will tell
		}
	}()
	if w.whole.doc.json {
		return w.jsonItems()
	}
	return w.yamlItems()
}

func (w *work) jsonItems() (parts []unit) {
	d := w.whole.doc
	text := d.span.of(d.src.text)
	if _, err := checkJSON(text); err != nil {
		return nil
	}
	t := typeOf(text)
	items, ok := jsonField(text, "items")
	if !ok || !t.isList() || text[items.at] != '[' {
		return nil
	}
	parts = []unit{}
	jsonElements(text, items.at, func(i int, v span) {
		parts = append(parts, unit{doc: d.kid(i, v), list: t, checked: true, opts: w.whole.opts})
	})
	return parts
}

func (w *work) yamlItems() (parts []unit) {
	d := w.whole.doc
	text := d.span.of(d.src.text)
	if t := sniff(text, d.first-d.span.at); !t.isList() {
		return nil
	}
	items, header := cutList(text)
	data, err := yaml.YAMLToJSONStrict(header)
	if items == nil || err != nil || !typeOf(data).isList() {
		return nil
	}
	for _, s := range items {
		item := &document{src: d.src, span: span{d.span.at + s.at, d.span.at + s.end}, item: true}
		item.first = item.span.at + max(firstToken(item.text()), 0)
		parts = append(parts, unit{doc: item, list: typeOf(data), opts: w.whole.opts})
	}
	return parts
}

// mend reads a list as a whole if an item of it did not parse: either the list
// was cut wrongly, or its error is told best in its own terms.
func (w *work) mend() {
	if len(w.parts) == 1 && w.parts[0].doc == w.whole.doc || w.whole.doc.span.end-w.whole.doc.span.at > maxDocument {
		return
	}
	for _, r := range w.results {
		if r.broken {
			w.parts, w.results = []unit{w.whole}, []result{w.whole.decode()}
			return
		}
	}
}
