package manifest

import (
	"bytes"
	"testing"
	"unicode/utf8"
)

// FuzzLoad holds the reader to its promises for any input: no panic, no
// fault of its own, and places that lie in the input.
func FuzzLoad(f *testing.F) {
	for _, s := range []string{
		service, service + "---\n" + named("b") + "...\n", "\ufeff" + service, utf16Text(service), "%YAML 1.1\n---\n" + service,
		`{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1","x":1}}]}`,
		"kind: NodeList\napiVersion: v1\nitems:\n- metadata: {name: n1}\n- metadata: {name: m}\nmetadata: {}\n",
		"kind: NodeList\napiVersion: v1\nitems: &i\n  - &a {metadata: {name: n1, <<: *a}}\n  - *a\n  -\n",
		service + "spec:\n  ports:\n  - port: x\n    name: 1\n    port: 2\n", service + "a: &a [x]\nb: &b [*a,*a]\nspec: {ports: *b}\n",
		"kind: Foo\rapiVersion: v1\r---\r" + service, "a: |\n ---\n---\nb: >-\n\u2028---\n", "? {a: b}\n: c\n", "{a: b} c: d", "- - -\n- ? ", `{"a":"\ud800","b":[`, "!!binary x: <<\n<<: [1]\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<16 {
			t.Skip()
		}
		set, diags := Load([]string{"-"}, bytes.NewReader(data), Options{Endpoints: true})
		lines := bytes.Split(data, []byte("\n"))
		converted := bytes.HasPrefix(data, []byte{0xfe, 0xff}) || bytes.HasPrefix(data, []byte{0xff, 0xfe})
		for _, d := range diags {
			if d.Code.Info().Title == "" || d.Code == "SVCC1017" {
				t.Errorf("%v", d)
			}
			if d.Pos.Line == 0 || converted {
				continue
			}
			if d.Pos.Line > len(lines) || d.Pos.Col > len(lines[d.Pos.Line-1])+1 {
				t.Errorf("no such place: %v", d)
			}
			if !utf8.ValidString(d.Message) {
				t.Errorf("message is not text: %q", d.Message)
			}
		}
		for _, o := range set.Services {
			o.At("spec", "ports", 0, "port")
			o.At("metadata", "name")
		}
	})
}
