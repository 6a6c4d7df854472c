package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
)

// The functions here find their way in JSON text by offsets. They do not judge
// it: a value is taken to end where its brackets do, and sigs.k8s.io/json says
// later whether what lies between is right. On broken text they stop early.

// span is a stretch of text.
type span struct{ at, end int }

func (s span) of(text []byte) []byte { return text[s.at:s.end] }

var (
	errJSONEnd  = errors.New("unexpected end of JSON")
	errJSONDeep = errors.New("nested too deep")
)

// jsonSpace is the offset of the first byte from at on that is not a blank.
func jsonSpace(b []byte, at int) int {
	for at < len(b) && (b[at] == ' ' || b[at] == '\t' || b[at] == '\n' || b[at] == '\r') {
		at++
	}
	return at
}

// jsonString is the end of the string that starts at at, behind its quote.
func jsonString(b []byte, at int) int {
	for at++; at < len(b); at++ {
		switch b[at] {
		case '\\':
			at++
		case '"':
			return at + 1
		}
	}
	return len(b)
}

// jsonValue is the end of the value that starts at at.
func jsonValue(b []byte, at int) (int, error) {
	depth := 0
	for at < len(b) {
		switch b[at] {
		case '"':
			at = jsonString(b, at)
		case '{', '[':
			if depth++; depth > maxDepth {
				return at, errJSONDeep
			}
			at++
		case '}', ']':
			depth--
			at++
		case ' ', '\t', '\n', '\r', ',', ':':
			at++
		default:
			at = jsonWord(b, at)
		}
		if depth <= 0 {
			return at, nil
		}
	}
	return at, errJSONEnd
}

// jsonWord is the end of a number, true, false or null.
func jsonWord(b []byte, at int) int {
	for at < len(b) {
		switch b[at] {
		case ' ', '\t', '\n', '\r', ',', ':', '{', '}', '[', ']', '"':
			return at
		}
		at++
	}
	return at
}

// jsonMembers calls see for each member of the object at at, until it says no.
func jsonMembers(b []byte, at int, see func(key string, keyAt int, value span) bool) {
	for at = jsonSpace(b, at+1); at < len(b) && b[at] == '"'; {
		keyAt, keyEnd := at, jsonString(b, at)
		at = jsonSpace(b, jsonSpace(b, keyEnd)+1) // behind the colon
		end, err := jsonValue(b, at)
		if err != nil || !see(jsonText(b[keyAt:keyEnd]), keyAt, span{at, end}) {
			return
		}
		if at = jsonSpace(b, end); at == len(b) || b[at] != ',' {
			return
		}
		at = jsonSpace(b, at+1)
	}
}

// jsonElements calls see for each element of the array at at.
func jsonElements(b []byte, at int, see func(i int, value span)) {
	at = jsonSpace(b, at+1)
	for i := 0; at < len(b) && b[at] != ']'; i++ {
		end, err := jsonValue(b, at)
		if err != nil {
			return
		}
		see(i, span{at, end})
		if at = jsonSpace(b, end); at == len(b) || b[at] != ',' {
			return
		}
		at = jsonSpace(b, at+1)
	}
}

// jsonText is what a quoted string says, "" if it is none.
func jsonText(quoted []byte) string {
	if n := len(quoted); n > 1 && quoted[0] == '"' && bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : n-1])
	}
	var s string
	if json.Unmarshal(quoted, &s) != nil {
		return ""
	}
	return s
}

// jsonField is the last member of that name of the object that b holds.
func jsonField(b []byte, name string) (value span, found bool) {
	at := jsonSpace(b, 0)
	if at == len(b) || b[at] != '{' {
		return span{}, false
	}
	jsonMembers(b, at, func(key string, _ int, v span) bool {
		if key == name {
			value, found = v, true
		}
		return true
	})
	return value, found
}

// jsonStrings reads top-level members that are strings, in the order of names.
func jsonStrings(b []byte, names ...string) []string {
	out := make([]string, len(names))
	for i, name := range names {
		if v, ok := jsonField(b, name); ok {
			out[i] = jsonText(v.of(b))
		}
	}
	return out
}

// jsonValues cuts text into the values that stand one after another in it.
func jsonValues(text []byte, at int) (values []span, err error) {
	for at = jsonSpace(text, at); at < len(text); at = jsonSpace(text, at) {
		end, err := jsonValue(text, at)
		if err != nil {
			return append(values, span{at, len(text)}), err
		}
		values = append(values, span{at, end})
		at = end
	}
	return values, nil
}
