package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
)

// repaired is an object's JSON with other values in place of those of a wrong type,
// so that the rest of it can be looked at: what the text says, where it is clear (a
// number in quotes), else null. No rule is ever made of such an object.
func repaired(data []byte, culprits []culprit) []byte {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var root any
	if dec.Decode(&root) != nil {
		return data
	}
	for _, c := range culprits {
		root = replaced(root, c.path, c.meant())
	}
	out, err := json.Marshal(root)
	if err != nil {
		return data
	}
	return out
}

// replaced is a value in which another stands at a path.
func replaced(in any, path []any, value any) any {
	if len(path) == 0 {
		return value
	}
	switch step := path[0].(type) {
	case string:
		if m, ok := in.(map[string]any); ok {
			m[step] = replaced(m[step], path[1:], value)
		}
	case int:
		if list, ok := in.([]any); ok && step < len(list) {
			list[step] = replaced(list[step], path[1:], value)
		}
	}
	return in
}

// meant is the value of the right type that a culprit is clearly meant to be, or nil.
func (c culprit) meant() any {
	var bad *json.UnmarshalTypeError
	if !errors.As(c.err, &bad) || len(c.value) == 0 {
		return nil
	}
	text := jsonText(c.value)
	switch want := wanted(bad.Type); {
	case want == "text" && c.value[0] != '{' && c.value[0] != '[':
		return string(c.value)
	case want == "true or false" && (text == "true" || text == "false"):
		return text == "true"
	case want != "text":
		if n, err := strconv.ParseInt(text, 10, 32); err == nil && text != "" {
			return n
		}
	}
	return nil
}
