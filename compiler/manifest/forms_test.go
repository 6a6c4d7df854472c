package manifest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"svcc/ir/diag"
)

// oddTexts are values that a cutter of text may stumble over.
var oddTexts = []string{"", "plain", "yes", "---", "- x", "a\n---\nb: c\n", "\n\n- y\n- z\n", "items:\n- a", "kind: Node", "'\"", "ä: ö", "#", " lead", "{", "[a", "%x", "*a &b", strings.Repeat("long words ", 30)}

func drawMeta(t *rapid.T, i int) metav1.ObjectMeta {
	odd := rapid.SampledFrom(oddTexts)
	return metav1.ObjectMeta{
		Name:        fmt.Sprintf("web-%d", i),
		Namespace:   rapid.SampledFrom([]string{"demo", "default"}).Draw(t, "ns"),
		Annotations: map[string]string{"a": odd.Draw(t, "a"), "items": odd.Draw(t, "b")},
	}
}

func drawObject(t *rapid.T, i int) any {
	if rapid.Bool().Draw(t, "slice") {
		return &discoveryv1.EndpointSlice{
			TypeMeta:    metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"},
			ObjectMeta:  drawMeta(t, i),
			AddressType: "IPv4",
			Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"192.0.2.1"}}},
		}
	}
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: drawMeta(t, i),
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: rapid.Int32Range(1, 65535).Draw(t, "port")}}},
	}
}

func mustJSON(t *rapid.T, v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func mustYAML(t *rapid.T, v any) string {
	b, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// forms writes the same objects in every way that they may come.
func forms(t *rapid.T, objects []any) map[string]string {
	list := map[string]any{"apiVersion": "v1", "kind": "List", "items": objects, "metadata": map[string]any{"resourceVersion": ""}}
	var docs, texts []string
	for _, o := range objects {
		docs = append(docs, mustYAML(t, o))
		texts = append(texts, mustJSON(t, o))
	}
	block := mustYAML(t, list)
	return map[string]string{
		"documents":      strings.Join(docs, "---\n"),
		"CRLF":           strings.ReplaceAll(strings.Join(docs, "---\n"), "\n", "\r\n"),
		"UTF-16":         utf16Text(strings.Join(docs, "---\n")),
		"list":           block,
		"indented list":  indentItems(block),
		"JSON list":      mustJSON(t, list),
		"flow list":      "--- &all " + mustJSON(t, list),
		"JSON texts":     strings.Join(texts, "\n"),
		"JSON documents": "---\n" + strings.Join(texts, "\n---\n"),
	}
}

// indentItems moves a list's items to the right, as some tools write them.
func indentItems(block string) string {
	head, rest, _ := strings.Cut(block, "items:\n")
	items, tail, found := strings.Cut(rest, "\nkind: List")
	if !found {
		return block
	}
	return head + "items:\n    " + strings.ReplaceAll(items, "\n", "\n    ") + "\nkind: List" + tail
}

// values is what a Set holds, without places.
func values(s *Set) (out []string) {
	add := func(v any) {
		b, _ := json.Marshal(v)
		out = append(out, string(b))
	}
	for _, o := range s.Services {
		add(o.Value)
	}
	for _, o := range s.Slices {
		add(o.Value)
	}
	return out
}

// Every form of the same objects gives the same Set, and places that hold what
// they are said to hold.
func TestForms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var objects []any
		want := &Set{}
		for i := range rapid.IntRange(1, 5).Draw(t, "n") {
			o := drawObject(t, i)
			objects = append(objects, o)
			want.add(found{value: o})
		}
		for form, text := range forms(t, objects) {
			set, diags := loadText(text)
			if len(diags) > 0 {
				t.Fatalf("%s: %q\n%s", form, told(diags), text)
			}
			if d := cmp.Diff(values(want), values(set)); d != "" {
				t.Fatalf("%s: -want +got\n%s\n%s", form, d, text)
			}
			for _, o := range set.Services {
				holds(t, form, text, o.At("metadata", "name"), `name`)
				holds(t, form, text, o.At("spec", "ports", 0, "port"), `port`)
			}
		}
	})
}

func holds(t *rapid.T, form, text string, pos diag.Pos, want string) {
	if form == "UTF-16" {
		return // counted in another text; TestAt has it
	}
	line := strings.Split(text, "\n")[pos.Line-1][pos.Col-1:]
	if !strings.HasPrefix(strings.TrimPrefix(line, `"`), want) {
		t.Fatalf("%s: at %v stands %.20q, not %s\n%s", form, pos, line, want, text)
	}
}

// A typed list gives its items their kind, in YAML and in JSON.
func TestTypedList(t *testing.T) {
	yamlText := "apiVersion: v1\nkind: ServiceList\nitems:\n- metadata:\n    name: a\n  spec:\n    ports:\n    - port: 1\n- metadata:\n    name: b\n"
	asJSON, err := yaml.YAMLToJSON([]byte(yamlText))
	if err != nil {
		t.Fatal(err)
	}
	a, _ := loadText(yamlText)
	b, _ := loadText(string(asJSON))
	if d := cmp.Diff(values(a), values(b)); d != "" || len(a.Services) != 2 {
		t.Errorf("%d services, -YAML +JSON\n%s", len(a.Services), d)
	}
}

// The order of the Set is that of the input, however the work was shared out.
func TestOrder(t *testing.T) {
	var b strings.Builder
	for i := range 500 {
		fmt.Fprintf(&b, "---\n%s", named(fmt.Sprintf("s%03d", i)))
	}
	set, _ := loadText(b.String())
	for i, o := range set.Services {
		if want := fmt.Sprintf("s%03d", i); o.Value.Name != want || o.Pos.Line != 4*i+2 {
			t.Fatalf("%d is %s at %v", i, o.Value.Name, o.Pos)
		}
	}
}

func TestName(t *testing.T) {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "a\n-A"}}
	if got, want := Name(s), `Service demo/"a\n-A"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := Name(&ProxyConfig{}); got != "KubeProxyConfiguration" {
		t.Errorf("got %s", got)
	}
}
