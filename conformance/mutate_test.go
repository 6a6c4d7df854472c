package conformance

import (
	"math/rand/v2"
	"strings"
)

// fieldsOf are what can be changed in an object of a kind.
var fieldsOf = map[string][]changeable{"Service": serviceFields, "EndpointSlice": sliceFields, "Node": nodeFields}

// mutate changes one to three fields of an object, and says how.
func mutate(r *rand.Rand, o tree) (how []string) {
	fields := fieldsOf[o["kind"].(string)]
	for range 1 + r.IntN(1+r.IntN(3)) {
		f := pick(r, fields)
		s, ok := find(r, o, f.path)
		if !ok {
			continue // an earlier change is in the way
		}
		how = append(how, change(r, s, f))
	}
	return how
}

// change does one of the things that people and programs do to a field.
func change(r *rand.Rand, s spot, f changeable) string {
	switch n := r.IntN(100); {
	case n < 70:
		v := clone(pick(r, f.values))
		s.put(v)
		return f.path + " = " + string(flow(v))
	case n < 80:
		v := clone(pick(r, odd))
		s.put(v)
		return f.path + " = " + string(flow(v))
	case n < 85:
		s.put(nil)
		return f.path + " = null"
	case n < 94:
		s.remove()
		return f.path + " removed"
	case n < 97:
		s.double()
		return f.path + " doubled"
	default:
		to := misspelt(r, f.path)
		s.rename(to)
		return f.path + " renamed " + to
	}
}

// misspelt is a field's name as people write it by mistake.
func misspelt(r *rand.Rand, path string) string {
	name := strings.TrimSuffix(path[strings.LastIndex(path, ".")+1:], "[]")
	switch r.IntN(3) {
	case 0:
		return strings.ToUpper(name[:1]) + name[1:]
	case 1:
		return strings.ToLower(name) + "s"
	}
	return name + "_"
}
