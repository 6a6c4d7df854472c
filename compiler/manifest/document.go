package manifest

import (
	"bytes"
	"sync"

	"svcc/ir/diag"
)

// document is where one object stands, kept to find places in it. It shares
// the text of its source.
type document struct {
	src   *source
	span  span
	first int // offset of the first token in the source
	json  bool
	item  bool   // cut out of a block list: its dash stands for a blank
	path  []any  // of the object in the document, where it was not cut out
	whole *whole // of a document that holds several objects
}

// whole keeps the tree of a large document, which many objects may ask for.
type whole struct {
	once sync.Once
	root *node
}

// latest keeps the tree of the document that was asked last: findings about one
// object mostly come one after the other.
type latest struct {
	mu   sync.Mutex
	of   span
	root *node
}

func (l *latest) tree(d *document) *node {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.root == nil || l.of != d.span {
		l.of, l.root = d.span, d.parse()
	}
	return l.root
}

// text is what to parse.
func (d *document) text() []byte {
	text := d.span.of(d.src.text)
	if !d.item {
		return text
	}
	text = bytes.Clone(text)
	text[bytes.IndexByte(text, '-')] = ' '
	return text
}

func (d *document) start() diag.Pos { return d.src.pos(d.first) }

// at is the place of what path leads to. Objects made by hand have no document
// and know only their start.
func (d *document) at(start diag.Pos, path []any) diag.Pos {
	if d == nil {
		return start
	}
	full := append(append([]any{}, d.path...), path...)
	if len(full) == 0 {
		return start
	}
	if root := d.tree(); root != nil {
		if off := root.find(full); off > root.off {
			return d.src.pos(d.span.at + off)
		}
	}
	return start
}

// tree parses the text for places; nil if that fails.
func (d *document) tree() *node {
	if d.whole == nil {
		return d.src.latest.tree(d)
	}
	d.whole.once.Do(func() { d.whole.root = d.parse() })
	return d.whole.root
}

func (d *document) parse() (root *node) {
	defer func() {
		if recover() != nil {
			root = nil // the library failed: the start will have to do
		}
	}()
	if d.json {
		return jsonTree(d.span.of(d.src.text), d.first-d.span.at)
	}
	return yamlTree(d.text())
}

// object is the part of tree that this object is.
func (d *document) object() *node {
	n := d.tree()
	for _, step := range d.path {
		if n == nil {
			return nil
		}
		n, _ = n.step(step)
	}
	return n
}

// kid is the i-th item of the list that d holds; at is where it stands in the
// JSON text of d.
func (d *document) kid(i int, at span) *document {
	if d.json {
		off := d.span.at + at.at
		return &document{src: d.src, span: span{off, d.span.at + at.end}, first: off, json: true}
	}
	k := *d
	if k.whole == nil {
		k.whole = &whole{}
	}
	d.whole = k.whole
	k.path = append(append([]any{}, d.path...), "items", i)
	k.first = k.find(k.path)
	return &k
}

// find is the offset in the source.
func (d *document) find(path []any) int {
	if root := d.tree(); root != nil && len(path) > 0 {
		return d.span.at + root.find(path)
	}
	return d.first
}
