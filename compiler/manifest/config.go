package manifest

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"svcc/ir/diag"
)

var configMap = typeMeta{"v1", "ConfigMap"}

// configKey is where a ConfigMap has the configuration, in kubeadm's clusters.
const configKey = "config.conf"

// LoadConfig reads the KubeProxyConfiguration that a path holds, alone or in a
// ConfigMap as kubeadm keeps it. It is an error if there is none: rules for another
// configuration would be wrong without a word.
func LoadConfig(path string, stdin io.Reader) (*Set, diag.List) {
	set, list := Load([]string{path}, stdin, Options{config: true})
	if len(set.ProxyConfigs) == 0 && len(list.Errors()) == 0 {
		holds := "it is empty"
		if kinds := slices.Sorted(maps.Keys(set.kindsSeen())); len(kinds) > 0 {
			holds = "it holds " + strings.Join(kinds, ", ")
		}
		list.Add(diag.NoProxyConfig, diag.Pos{File: path}, "", "the file holds no KubeProxyConfiguration: %s", holds).
			Hint = "give kube-proxy's configuration file, or the ConfigMap kube-proxy with config.conf in it"
	}
	return set, list
}

// kindsSeen are the kinds of the objects in a Set, as people call them.
func (s *Set) kindsSeen() map[string]bool {
	seen := map[string]bool{}
	for t := range s.Skipped {
		seen[t] = true
	}
	for kind, n := range map[string]int{"Service": len(s.Services), "EndpointSlice": len(s.Slices), "Node": len(s.Nodes), "ServiceCIDR": len(s.ServiceCIDRs)} {
		if n > 0 {
			seen[kind] = true
		}
	}
	return seen
}

// inConfigMap reads the configuration in a ConfigMap, where it stands in the file if
// it is a block of YAML, else as a text of its own.
func (u unit) inConfigMap(r *result, doc *document, data []byte) {
	r.skipped = append(r.skipped, configMap)
	held, ok := jsonField(data, "data")
	if !ok {
		return
	}
	text, ok := jsonField(held.of(data), configKey)
	if !ok {
		return
	}
	value := []byte(jsonText(text.of(held.of(data))))
	inner := doc.block([]any{"data", configKey}, value)
	if inner == nil {
		src := newSource(fmt.Sprintf("%s (%s)", doc.src.name, configKey), value)
		inner = &document{src: src, span: span{0, len(value)}, first: max(firstToken(value), 0)}
	}
	found := unit{doc: inner, opts: u.opts}.decode()
	r.diags = append(r.diags, found.diags...)
	r.found = append(r.found, found.found...)
	r.skipped = append(r.skipped, found.skipped...)
}

// block is the document that a block scalar holds, in its place in the file; nil if
// the value at the path is no literal block with this text.
func (d *document) block(path []any, value []byte) *document {
	if d.json {
		return nil
	}
	root := d.tree()
	if root == nil {
		return nil
	}
	text := d.span.of(d.src.text)
	key := root.find(append(append([]any{}, d.path...), path...))
	at := nextLine(text, key)
	end := at
	for end < len(text) && (isEmptyLine(text[end+blanks(text[end:]):]) || blanks(text[end:]) > indent(text, key)) {
		end = nextLine(text, end)
	}
	if !sameLines(text[at:end], value) {
		return nil
	}
	first := firstToken(text[at:end])
	if first < 0 {
		return nil
	}
	return &document{src: d.src, span: span{d.span.at + at, d.span.at + end}, first: d.span.at + at + first}
}

// sameLines says whether two texts have the same lines but for indentation and what
// is empty.
func sameLines(a, b []byte) bool {
	strip := func(text []byte) []byte {
		var out []byte
		for line := range bytes.Lines(text) {
			if line = bytes.TrimSpace(line); len(line) > 0 {
				out = append(append(out, line...), '\n')
			}
		}
		return out
	}
	return bytes.Equal(strip(a), strip(b))
}
