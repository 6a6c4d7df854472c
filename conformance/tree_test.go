package conformance

import (
	"bytes"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// tree is an object as any decoder of JSON has it: map[string]any, []any and
// scalars; and beside them raw.
type tree = map[string]any

// raw is a scalar as it stands in YAML, which may be no JSON: 0x50, yes, ~.
type raw string

// again at the end of a key makes of it the same key a second time.
const again = "\x00"

// clone copies a tree.
func clone(v any) any {
	switch v := v.(type) {
	case tree:
		out := tree{}
		for k, x := range v {
			out[k] = clone(x)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = clone(x)
		}
		return out
	}
	return v
}

// lines writes an object as YAML: a line for each of its fields, in flow style.
func lines(o tree) []byte {
	var b bytes.Buffer
	for _, k := range slices.Sorted(maps.Keys(o)) {
		b.WriteString(strings.TrimSuffix(k, again) + ": ")
		writeFlow(&b, o[k])
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// flow writes a tree as JSON, or as YAML in flow style if it holds what is none.
func flow(v any) []byte {
	var b bytes.Buffer
	writeFlow(&b, v)
	return b.Bytes()
}

func writeFlow(b *bytes.Buffer, v any) {
	switch v := v.(type) {
	case tree:
		b.WriteByte('{')
		for i, k := range slices.Sorted(maps.Keys(v)) {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(strconv.Quote(strings.TrimSuffix(k, again)) + ": ")
			writeFlow(b, v[k])
		}
		b.WriteByte('}')
	case []any:
		b.WriteByte('[')
		for i, x := range v {
			if i > 0 {
				b.WriteString(", ")
			}
			writeFlow(b, x)
		}
		b.WriteByte(']')
	case raw:
		b.WriteString(string(v))
	default:
		text, err := json.Marshal(v)
		if err != nil {
			panic(err) // a scalar of the tests' own
		}
		b.Write(text)
	}
}

// plain says that a tree holds nothing but what JSON has.
func plain(v any) bool {
	switch v := v.(type) {
	case tree:
		for k, x := range v {
			if strings.HasSuffix(k, again) || !plain(x) {
				return false
			}
		}
	case []any:
		return !slices.ContainsFunc(v, func(x any) bool { return !plain(x) })
	case raw:
		return false
	}
	return true
}

// spot is a place in a tree: what holds it, and its key there.
type spot struct {
	in  any // tree or *[]any's holder
	key string
	at  int
	set func([]any) // puts another list in the place of in, if that is one
}

// find walks along a path such as "spec.ports[].port". Of a list it takes any
// element; what is not there it makes, unless something else is in the way.
func find(r *rand.Rand, root tree, path string) (spot, bool) {
	var here any = root
	s := spot{}
	for part := range strings.SplitSeq(strings.ReplaceAll(path, "[]", ".[]"), ".") {
		if s.in != nil {
			if here = s.get(); here == nil {
				here = s.make(part)
			}
		}
		switch h := here.(type) {
		case tree:
			if part == "[]" {
				return s, false
			}
			s = spot{in: h, key: strings.ReplaceAll(part, "~", ".")}
		case []any:
			if part != "[]" {
				return s, false
			}
			parent := s
			if len(h) == 0 {
				h = []any{nil}
				parent.put(h)
			}
			s = spot{in: h, at: r.IntN(len(h)), set: func(l []any) { parent.put(l) }}
		default:
			return s, false
		}
	}
	return s, true
}

func (s spot) get() any {
	switch in := s.in.(type) {
	case tree:
		return in[s.key]
	case []any:
		return in[s.at]
	}
	return nil
}

func (s spot) put(v any) {
	switch in := s.in.(type) {
	case tree:
		in[s.key] = v
	case []any:
		in[s.at] = v
	}
}

// make puts what a part of a path goes on from.
func (s spot) make(part string) any {
	var v any = tree{}
	if part == "[]" {
		v = []any{}
	}
	s.put(v)
	return v
}

// remove takes the place away.
func (s spot) remove() {
	switch in := s.in.(type) {
	case tree:
		delete(in, s.key)
	case []any:
		s.set(slices.Delete(slices.Clone(in), s.at, s.at+1))
	}
}

// double has the place twice.
func (s spot) double() {
	switch in := s.in.(type) {
	case tree:
		in[s.key+again] = clone(in[s.key])
	case []any:
		s.set(append(slices.Clone(in), clone(in[s.at])))
	}
}

// rename gives the place's key another spelling.
func (s spot) rename(to string) {
	if in, ok := s.in.(tree); ok {
		v := in[s.key]
		delete(in, s.key)
		in[to] = v
	}
}
