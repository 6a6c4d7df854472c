package cluster

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

// WriteYAML stores the cluster as services.yaml, endpointslices.yaml and
// nodes.yaml in dir, which it makes if need be: one document an object, each
// as "kubectl get -o yaml" prints it.
func (c *Cluster) WriteYAML(dir string) error {
	return c.write(dir, ".yaml", func(w *bufio.Writer, objects []any) error {
		for _, o := range objects {
			text, err := yaml.Marshal(o)
			if err != nil {
				return err
			}
			w.WriteString("---\n")
			w.Write(text)
		}
		return w.Flush()
	})
}

// WriteJSON stores the cluster as services.json, endpointslices.json and
// nodes.json in dir: one List a file, as "kubectl get -o json" prints it.
func (c *Cluster) WriteJSON(dir string) error {
	return c.write(dir, ".json", func(w *bufio.Writer, objects []any) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "    ")
		list := map[string]any{"apiVersion": "v1", "kind": "List", "items": objects, "metadata": map[string]string{"resourceVersion": ""}}
		if err := e.Encode(list); err != nil {
			return err
		}
		return w.Flush()
	})
}

func (c *Cluster) write(dir, ext string, put func(*bufio.Writer, []any) error) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, f := range []struct {
		name    string
		objects []any
	}{
		{"services", anys(c.Services)}, {"endpointslices", anys(c.Slices)}, {"nodes", anys(c.Nodes)},
	} {
		if err := writeFile(filepath.Join(dir, f.name+ext), f.objects, put); err != nil {
			return err
		}
	}
	return nil
}

func writeFile(path string, objects []any, put func(*bufio.Writer, []any) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := put(bufio.NewWriterSize(f, 1<<20), objects); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

func anys[T any](list []T) []any {
	out := make([]any, len(list))
	for i, v := range list {
		out[i] = v
	}
	return out
}
