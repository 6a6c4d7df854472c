package manifest

import (
	"bytes"

	yaml2 "go.yaml.in/yaml/v2" // what sigs.k8s.io/yaml parses with
)

// sniff guesses apiVersion and kind of a YAML mapping from lines that look as
// if they gave them. It decides only which way is tried first: a parser checks
// what it says.
func sniff(text []byte, first int) (t typeMeta) {
	col := indent(text, first)
	if col < 0 {
		return t
	}
	for line := first - col; line+col < len(text); line = nextLine(text, line) {
		if len(bytes.TrimLeft(text[line:line+col], " ")) > 0 {
			continue
		}
		switch s := text[line+col:]; s[0] {
		case 'k':
			sniffValue(s, "kind:", &t.kind)
		case 'a':
			sniffValue(s, "apiVersion:", &t.api)
		}
	}
	return t
}

func nextLine(text []byte, at int) int {
	i := bytes.IndexByte(text[at:], '\n')
	if i < 0 {
		return len(text)
	}
	return at + i + 1
}

func sniffValue(line []byte, key string, into *string) {
	if !bytes.HasPrefix(line, []byte(key)) {
		return
	}
	value := line[len(key):lineEnd(line, 0)]
	if i := bytes.Index(value, []byte(" #")); i >= 0 {
		value = value[:i]
	}
	*into = string(bytes.Trim(value, " \t\"'"))
}

// skim parses YAML for apiVersion and kind alone. It fails where the text is
// broken, but neither expands aliases nor minds what the rest says.
func skim(text []byte) (typeMeta, error) {
	var t struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string `yaml:"kind"`
	}
	err := yaml2.Unmarshal(text, &t)
	return typeMeta{t.APIVersion, t.Kind}, err
}
