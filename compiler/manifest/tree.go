package manifest

import (
	"bytes"
	"strconv"
	"strings"

	yaml3 "go.yaml.in/yaml/v3"
)

// node is a value of a document as far as places go. It is made from YAML and
// from JSON.
type node struct {
	off  int     // of the first token, in the document's text
	keys []key   // of a mapping, as they stand there
	kids []*node // the values of keys, or the elements of a list
}

type key struct {
	name string
	off  int
}

// yamlTree gives nil if text does not parse.
func yamlTree(text []byte) *node {
	var doc yaml3.Node
	if yaml3.Unmarshal(text, &doc) != nil || len(doc.Content) == 0 {
		return nil
	}
	b := treeBuilder{text: text, line: []int{0}, made: map[*yaml3.Node]*node{}}
	return b.node(doc.Content[0])
}

type treeBuilder struct {
	text []byte
	line []int // offsets of the lines met so far
	last struct{ line, col, off int }
	made map[*yaml3.Node]*node
}

func (b *treeBuilder) node(y *yaml3.Node) *node {
	if y.Kind == yaml3.AliasNode && y.Alias != nil {
		y = y.Alias
	}
	if n, ok := b.made[y]; ok {
		return n
	}
	n := &node{off: b.offset(y)}
	b.made[y] = n
	if y.Kind == yaml3.SequenceNode {
		for _, kid := range y.Content {
			n.kids = append(n.kids, b.node(kid))
		}
	}
	if y.Kind == yaml3.MappingNode {
		for i := 0; i+1 < len(y.Content); i += 2 {
			n.keys = append(n.keys, key{y.Content[i].Value, b.offset(y.Content[i])})
			n.kids = append(n.kids, b.node(y.Content[i+1]))
		}
	}
	return n
}

// offset turns the library's line and column, which count YAML line breaks and
// characters from 1, into bytes.
func (b *treeBuilder) offset(y *yaml3.Node) int {
	for len(b.line) < y.Line {
		at := lineEnd(b.text, b.line[len(b.line)-1])
		b.line = append(b.line, at+breakLen(b.text[at:]))
	}
	col, at := 1, b.line[max(y.Line-1, 0)]
	if b.last.line == y.Line && b.last.col <= y.Column {
		col, at = b.last.col, b.last.off // a long line is gone along once
	}
	for ; col < y.Column && at < len(b.text); col++ {
		at += runeLen(b.text, at)
	}
	b.last.line, b.last.col, b.last.off = y.Line, col, at
	return at
}

func runeLen(text []byte, at int) int {
	n := 1
	for at+n < len(text) && text[at+n]&0xc0 == 0x80 {
		n++
	}
	return n
}

// jsonTree reads the value at at.
func jsonTree(text []byte, at int) *node {
	n := &node{off: at}
	switch {
	case at >= len(text):
	case text[at] == '{':
		jsonMembers(text, at, func(name string, keyAt int, v span) bool {
			n.keys = append(n.keys, key{name, keyAt})
			n.kids = append(n.kids, jsonTree(text, v.at))
			return true
		})
	case text[at] == '[':
		jsonElements(text, at, func(_ int, v span) { n.kids = append(n.kids, jsonTree(text, v.at)) })
	}
	return n
}

// find follows path as far as it leads: the offset of the last key, or of the
// element's first token. A key that a merge (<<) brings is found where it stands.
func (n *node) find(path []any) int {
	off := n.off
	for _, step := range path {
		next, at := n.step(step)
		if next == nil {
			return off
		}
		n, off = next, at
	}
	return off
}

func (n *node) step(step any) (*node, int) {
	switch s := step.(type) {
	case int:
		if n.keys == nil && s >= 0 && s < len(n.kids) {
			return n.kids[s], n.kids[s].off
		}
	case string:
		return n.member(s, 10)
	}
	return nil, 0
}

// member looks for a key, through at most so many merges.
func (n *node) member(name string, merges int) (*node, int) {
	for i := len(n.keys) - 1; i >= 0; i-- {
		if n.keys[i].name == name {
			return n.kids[i], n.keys[i].off
		}
	}
	for i, k := range n.keys {
		if k.name != "<<" || merges == 0 {
			continue
		}
		for _, from := range n.kids[i].merged() {
			if kid, off := from.member(name, merges-1); kid != nil {
				return kid, off
			}
		}
	}
	return nil, 0
}

// merged is the mappings that a merge of n brings: n, or those listed in it.
func (n *node) merged() []*node {
	if n.keys != nil {
		return []*node{n}
	}
	return n.kids
}

// path reads a path written as "spec.ports[0].name", as the JSON library
// writes it, where a key may itself hold dots and brackets.
func (n *node) path(s string) []any {
	var path []any
	for s != "" && n != nil {
		step, rest := n.head(s)
		if step == nil {
			return append(path, strings.TrimPrefix(s, "."))
		}
		path = append(path, step)
		n, _ = n.step(step)
		s = rest
	}
	return path
}

// head takes the first step off s: the longest key, or the index, that fits.
func (n *node) head(s string) (step any, rest string) {
	if inner, ok := strings.CutPrefix(s, "["); ok {
		number, rest, _ := strings.Cut(inner, "]")
		if i, err := strconv.Atoi(number); err == nil && n.keys == nil {
			return i, rest
		}
	}
	s = strings.TrimPrefix(s, ".")
	best := ""
	for _, k := range n.keys {
		rest, ok := strings.CutPrefix(s, k.name)
		if ok && (rest == "" || rest[0] == '.' || rest[0] == '[') && len(k.name) > len(best) {
			best = k.name
		}
	}
	if best == "" {
		return nil, s
	}
	return best, s[len(best):]
}

// twice calls see for each key that its mapping has more than once, with the
// offsets of the first and of the later one.
func (n *node) twice(met map[*node]bool, see func(name string, first, again int)) {
	if met[n] {
		return // by an alias
	}
	met[n] = true
	seen := map[string]int{}
	for _, k := range n.keys {
		if first, ok := seen[k.name]; ok {
			see(k.name, first, k.off)
		} else {
			seen[k.name] = k.off
		}
	}
	for _, kid := range n.kids {
		kid.twice(met, see)
	}
}

// pathString writes a path as messages show it.
func pathString(path []any) string {
	var b strings.Builder
	for _, step := range path {
		switch s := step.(type) {
		case int:
			b.WriteString("[" + strconv.Itoa(s) + "]")
		case string:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(s)
		}
	}
	return b.String()
}

// aliasBytes is by how many bytes aliases make the document that text holds
// larger; it stops counting somewhere above maxAliases.
func aliasBytes(doc *yaml3.Node) int {
	c := aliasCounter{sizes: map[*yaml3.Node]int{}}
	c.size(doc)
	return c.added
}

type aliasCounter struct {
	sizes map[*yaml3.Node]int
	added int
}

// size of a node as the text that it stands for. Aliases within an anchor are
// counted at each use of the anchor, since its size has them.
func (c *aliasCounter) size(y *yaml3.Node) int {
	if n, ok := c.sizes[y]; ok {
		return n
	}
	c.sizes[y] = 0 // within itself; the decoder refuses that
	n := len(y.Value) + 8
	for _, kid := range y.Content {
		n += c.size(kid)
	}
	if y.Kind == yaml3.AliasNode && y.Alias != nil {
		n = c.size(y.Alias)
		c.added = min(c.added+n, 2*maxAliases)
	}
	n = min(n, 2*maxAliases)
	c.sizes[y] = n
	return n
}

// mayAlias says whether text may hold anchors and aliases to them.
func mayAlias(text []byte) bool {
	return bytes.IndexByte(text, '&') >= 0 && bytes.IndexByte(text, '*') >= 0
}
