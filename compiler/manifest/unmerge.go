package manifest

import (
	"errors"

	yaml3 "go.yaml.in/yaml/v3"
)

// unmerged is a YAML document with its merges (<<) written out: a mapping has the
// keys of those that it merges, the earlier of a list before the later, but for its
// own, which win wherever they stand (https://yaml.org/type/merge.html).
func unmerged(text []byte) ([]byte, error) {
	var doc yaml3.Node
	if err := yaml3.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	m := merges{done: map[*yaml3.Node]bool{}}
	if err := m.expand(&doc); err != nil {
		return nil, err
	}
	return yaml3.Marshal(&doc)
}

type merges struct{ done map[*yaml3.Node]bool }

var errBadMerge = errors.New("what is merged is no mapping")

// expand writes out the merges of a node and of all below it.
func (m merges) expand(n *yaml3.Node) error {
	if m.done[n] {
		return nil
	}
	m.done[n] = true
	if n.Alias != nil {
		return m.expand(n.Alias)
	}
	for _, kid := range n.Content {
		if err := m.expand(kid); err != nil {
			return err
		}
	}
	if n.Kind != yaml3.MappingNode {
		return nil
	}
	return expandMapping(n)
}

// expandMapping does so for a mapping whose values have been expanded.
func expandMapping(n *yaml3.Node) error {
	var own, from []*yaml3.Node
	have := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Tag == "!!merge" {
			from = append(from, merged(value)...)
			continue
		}
		own = append(own, key, value)
		have[key.Value] = true
	}
	for _, x := range from {
		if x.Kind != yaml3.MappingNode {
			return errBadMerge
		}
		for i := 0; i+1 < len(x.Content); i += 2 {
			if key := x.Content[i]; !have[key.Value] {
				have[key.Value] = true
				own = append(own, key, x.Content[i+1])
			}
		}
	}
	n.Content = own
	return nil
}

// merged is the mappings that a merge names.
func merged(value *yaml3.Node) []*yaml3.Node {
	value = target(value)
	if value.Kind != yaml3.SequenceNode {
		return []*yaml3.Node{value}
	}
	var out []*yaml3.Node
	for _, kid := range value.Content {
		out = append(out, target(kid))
	}
	return out
}

func target(n *yaml3.Node) *yaml3.Node {
	for n.Alias != nil {
		n = n.Alias
	}
	return n
}
