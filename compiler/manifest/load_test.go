package manifest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"svcc/ir/diag"
)

const service = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\n" // three lines

// loadText reads text from standard input.
func loadText(text string) (*Set, diag.List) {
	return Load([]string{"-"}, strings.NewReader(text), Options{})
}

// told lists diagnostics as they are shown, with their related places.
func told(diags diag.List) []string {
	var out []string
	for _, d := range diags {
		s := d.String()
		for _, r := range d.Related {
			s += "; " + r.Pos.String()
		}
		out = append(out, s)
	}
	return out
}

func names(s *Set) string {
	var out []string
	for _, o := range s.Services {
		out = append(out, o.Name()+"@"+o.Pos.String())
	}
	for _, o := range s.Slices {
		out = append(out, o.Name()+"@"+o.Pos.String())
	}
	for _, o := range s.Nodes {
		out = append(out, o.Name()+"@"+o.Pos.String())
	}
	return strings.Join(out, " ")
}

// What is read, and where it is said to stand.
func TestFinds(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"one", service, "Service default/web@-:1:1"},
		{"helm", "---\n# Source: web/templates/a.yaml\n\n---\n# Source: b\n" + service + "---\n", "Service default/web@-:6:1"},
		{"marker with comment", "--- # first\n" + service + "--- \nkind: Node\napiVersion: v1\nmetadata:\n  name: n1\n", "Service default/web@-:2:1 Node n1@-:6:1"},
		{"end marker", service + "...\n# between\n" + strings.Replace(service, "web", "b", 1), "Service default/web@-:1:1 Service default/b@-:6:1"},
		{"directive", "%YAML 1.1\n---\n" + service, "Service default/web@-:3:1"},
		{"directive after end", service + "...\n%YAML 1.1\n---\n" + strings.Replace(service, "web", "b", 1), "Service default/web@-:1:1 Service default/b@-:7:1"},
		{"flow on the marker's line", "--- {apiVersion: v1, kind: Service, metadata: {name: web}}\n", "Service default/web@-:1:5"},
		{"flow that looks like JSON", `{"apiVersion": v1, "kind": Service, metadata: {name: web}}`, "Service default/web@-:1:1"},
		{"tags and anchors", "apiVersion: &v v1\nkind: !!str Service\nmetadata: {name: &n web, labels: {v: *v, n: *n}}\n", "Service default/web@-:1:1"},
		{"BOM", "\ufeff" + service, "Service default/web@-:1:1"},
		{"BOM in the middle", service + "\ufeff---\n" + strings.Replace(service, "web", "b", 1), "Service default/web@-:1:1 Service default/b@-:5:1"},
		{"CRLF", strings.ReplaceAll("---\n"+service+"---\n"+strings.Replace(service, "web", "b", 1), "\n", "\r\n"), "Service default/web@-:2:1 Service default/b@-:6:1"},
		{"CR alone", strings.ReplaceAll(service+"---\n"+strings.Replace(service, "web", "b", 1), "\n", "\r"), "Service default/web@-:1:1 Service default/b@-:1:56"},
		{"marker in a block scalar's column", "kind: Service\napiVersion: v1\nmetadata:\n  name: web\n  annotations:\n    a: |\n      x\n      ---\n      kind: Node\n", "Service default/web@-:1:1"},
		{"JSON", `{"apiVersion":"v1","kind":"Service","metadata":{"name":"web"}}`, "Service default/web@-:1:1"},
		{"JSON texts", "{\"apiVersion\":\"v1\",\"kind\":\"Service\",\"metadata\":{\"name\":\"web\"}}\n {\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":\"n1\"}}", "Service default/web@-:1:1 Node n1@-:2:2"},
		{"JSON and YAML", "{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":\"n1\"}}\n---\n" + service, "Service default/web@-:3:1 Node n1@-:1:1"},
		{"list", "apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Service\n  metadata: {name: web, namespace: demo}\n- metadata: {name: n1}\n  kind: Node\n  apiVersion: v1\nkind: List\nmetadata: {resourceVersion: \"\"}\n", "Service demo/web@-:3:3 Node n1@-:6:3"},
		{"typed list", "apiVersion: v1\nkind: ServiceList\nitems:\n  # first\n  -\n    metadata: {name: web}\n", "Service default/web@-:6:5"},
		{"typed list in flow", "{apiVersion: discovery.k8s.io/v1, kind: EndpointSliceList, items: [\n {metadata: {name: web}, addressType: IPv4}]}\n", "EndpointSlice default/web@-:2:2"},
		{"list in JSON", `{"kind":"NodeList","apiVersion":"v1","items":[{"metadata":{"name":"n1"}}, {"metadata":{"name":"m"}}]}`, "Node n1@-:1:47 Node m@-:1:75"},
		{"list in list", "kind: List\napiVersion: v1\nitems:\n- kind: List\n  apiVersion: v1\n  items:\n  - " + strings.ReplaceAll(service, "\n", "\n    ") + "\n", "Service default/web@-:7:5"},
		{"list without items", "kind: List\napiVersion: v1\n", ""},
		{"list with anchors across items", "kind: NodeList\napiVersion: v1\nitems:\n- metadata: {name: n1, labels: &l {a: b}}\n- metadata: {name: m, labels: *l}\n", "Node n1@-:4:3 Node m@-:5:3"},
		{"list whose item looks cut", "kind: NodeList\napiVersion: v1\nitems:\n- metadata: {name: n1, labels: {a: \"x\n- y\"}}\n", "Node n1@-:4:3"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			set, diags := loadText(tt.text)
			if len(diags) > 0 {
				t.Errorf("unexpected: %q", told(diags))
			}
			if got := names(set); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// What is wrong with a text, and where. The rest of the text is not lost.
func TestFaults(t *testing.T) {
	tests := []struct {
		name, text string
		want       []string
	}{
		{"unknown field", service + "spec:\n  ports:\n  - port: 80\n  - {prot: TCP, port: 81}\n", []string{
			`-:7:6: warning: Service web: unknown field "prot" in spec.ports[1] [SVCC1013]`}},
		{"unknown field in the second document", "---\na: 1\nkind: Foo\napiVersion: x/v1\n---\n" + service + "sepc: {}\n", []string{
			`-:9:1: warning: Service web: unknown field "sepc" in the object [SVCC1013]`}},
		{"unknown field of odd name", service + "spec:\n  a.b[0]: 1\n", []string{
			`-:5:3: warning: Service web: unknown field "a.b[0]" in spec [SVCC1013]`}},
		{"unknown field in a list", "kind: List\napiVersion: v1\nitems:\n- kind: Node\n  apiVersion: v1\n  metadata: {name: n1}\n  spek: {}\n", []string{
			`-:7:3: warning: Node n1: unknown field "spek" in the object [SVCC1013]`}},
		{"unknown field in a list in flow", "{kind: List, apiVersion: v1, items: [\n  {kind: Node, apiVersion: v1, metadata: {name: n1}, spek: {}}]}", []string{
			`-:2:54: warning: Node n1: unknown field "spek" in the object [SVCC1013]`}},
		{"unknown field in JSON", "{\"kind\":\"Node\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"n\"},\n \"spek\":1}", []string{
			`-:2:2: warning: Node n: unknown field "spek" in the object [SVCC1013]`}},
		{"case counts", service + "Spec: {}\n", []string{
			`-:4:1: warning: Service web: unknown field "Spec" in the object [SVCC1013]`}},
		{"duplicate key", service + "spec:\n  type: ClusterIP\n  ports: []\n  type: NodePort\n", []string{
			`-:7:3: error: Service web: key "type" is given twice [SVCC1011]; -:5:3`}},
		{"duplicate key in a list", "kind: NodeList\napiVersion: v1\nitems:\n- metadata: {name: n1}\n- metadata: {name: m}\n  metadata: {name: o}\n", []string{
			`-:6:3: error: Node o: key "metadata" is given twice [SVCC1011]; -:5:3`}},
		{"duplicate key in JSON", "{\"kind\":\"Node\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"n\",\n\"name\":\"m\"}}", []string{
			`-:2:1: error: Node m: key "name" is given twice [SVCC1011]; -:1:46`}},
		{"duplicate key where it does not matter", "apiVersion: apps/v1\nkind: Deployment\nspec: {a: 1, a: 2}\n", nil},
		{"text for a number", service + "spec:\n  ports:\n  - port: 80\n  - name: b\n    port: http\n  - port: x\n", []string{
			`-:8:5: error: Service web: spec.ports[1].port is text where a whole number of 32 bits is expected [SVCC1012]`,
			`-:9:5: error: Service web: spec.ports[2].port is text where a whole number of 32 bits is expected [SVCC1012]`}},
		{"number too large", service + "spec:\n  ports:\n  - port: 4294967377\n", []string{
			`-:6:5: error: Service web: spec.ports[0].port is number 4294967377 where a whole number of 32 bits is expected [SVCC1012]`}},
		{"number for text", "apiVersion: v1\nkind: Service\nmetadata:\n  name: web\n  labels: {a: b,\n    version: 1}\n", []string{
			`-:6:5: error: Service web: metadata.labels.version is a number where text is expected [SVCC1012]`}},
		{"list for a mapping", service + "spec: []\n", []string{
			`-:4:1: error: Service web: spec is a list where a mapping is expected [SVCC1012]`}},
		{"type that decodes itself", service + "spec:\n  ports:\n  - port: 80\n    targetPort: [1]\n", []string{
			`-:7:5: error: Service web: spec.ports[0].targetPort is a list where a whole number of 32 bits is expected [SVCC1012]`}},
		{"wrong type in JSON", "{\"kind\":\"Node\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"n\"},\n \"spec\":{\"podCIDRs\":[\"a\",\n 1]}}", []string{
			`-:3:2: error: Node n: spec.podCIDRs[1] is a number where text is expected [SVCC1012]`}},
		{"twice", service + "---\n" + service + "---\nkind: Node\napiVersion: v1\nmetadata: {name: web}\n", []string{
			`-:5:1: error: Service default/web is defined twice, first at -:1:1 [SVCC1014]; -:1:1`}},
		{"twice by the default namespace", service + "---\n" + strings.Replace(service, "web", "web, namespace: default", 1), []string{
			`-:5:1: error: Service default/web is defined twice, first at -:1:1 [SVCC1014]; -:1:1`}},
		{"no name", "apiVersion: v1\nkind: Service\nmetadata:\n  labels: {}\n", []string{
			`-:3:1: error: Service has no name [SVCC1015]`}},
		{"generateName", "apiVersion: v1\nkind: Service\nmetadata:\n  generateName: web-\n", []string{
			`-:4:3: error: Service has a generateName but no name [SVCC1015]`}},
		{"no kind", "apiVersion: v1\nmetadata: {name: web}\n---\n" + service, []string{
			`-:1:1: error: not a Kubernetes object: kind is missing [SVCC1009]`}},
		{"no apiVersion", "\n# x\nkind: Service\nmetadata: {name: web}\n", []string{
			`-:3:1: error: not a Kubernetes object: apiVersion is missing [SVCC1009]`}},
		{"neither", "replicas: 1\n", []string{
			`-:1:1: error: not a Kubernetes object: apiVersion and kind are missing [SVCC1009]`}},
		{"a scalar", "hello\n", []string{
			`-:1:1: error: not a Kubernetes object: it is not a mapping [SVCC1009]`}},
		{"a list's empty item", "kind: List\napiVersion: v1\nitems:\n- \n- {}\n", []string{
			`-:4:1: error: not a Kubernetes object: it is not a mapping [SVCC1009]`,
			`-:5:3: error: not a Kubernetes object: apiVersion and kind are missing [SVCC1009]`}},
		{"old version", "apiVersion: discovery.k8s.io/v1beta1\nkind: EndpointSlice\nmetadata: {name: web}\n", []string{
			`-:1:1: warning: EndpointSlice web: EndpointSlice of discovery.k8s.io/v1beta1 is not read [SVCC1016]`}},
		{"a kind of that name elsewhere", "apiVersion: serving.knative.dev/v1\nkind: Service\nmetadata: {name: web}\n", nil},
		{"broken YAML", service + "spec:\n  a: b: c\n---\n" + service, []string{
			`-:5:3: error: broken YAML: mapping values are not allowed in this context [SVCC1005]`}},
		{"broken YAML of the parser", "---\n" + service + "spec:\n  - a\n  b: c\n", []string{
			`-:7:3: error: broken YAML: did not find expected '-' indicator [SVCC1005]`}},
		{"broken YAML of no interest", "kind: Deployment\napiVersion: apps/v1\nspec: {\n", []string{
			`-:4:1: error: broken YAML: did not find expected node content [SVCC1005]`}},
		{"broken item", "kind: NodeList\napiVersion: v1\nitems:\n- metadata: {name: n1}\n- metadata: {name: [}\n", []string{
			`-:5:1: error: broken YAML: did not find expected node content [SVCC1005]`}},
		{"unknown anchor", service + "spec: {type: *x}\n", []string{
			`-:4:14: error: broken YAML: unknown anchor 'x' referenced [SVCC1005]`}},
		{"outdented", "  apiVersion: v1\n  kind: Service\n  metadata: {name: web}\nspec: {}\n", []string{
			`-:4:1: error: broken YAML: this does not belong to what was begun on line 1, see the indentation [SVCC1005]`}},
		{"behind a flow mapping", "{apiVersion: v1, kind: Service, metadata: {name: web}}\nspec: {}\n", []string{
			`-:2:1: error: broken YAML: this does not belong to what was begun on line 1, see the indentation [SVCC1005]`}},
		{"NUL", service + "a: \"x\x00\"\n", []string{`-:4:6: error: control character U+0000 in YAML [SVCC1004]`}},
		{"invalid UTF-8", service + "a: \xff\n", []string{`-:4:4: error: byte 0xff is not UTF-8 [SVCC1004]`}},
		{"broken JSON", "{\"apiVersion\": \"v1\",\n \"kind\" \"Service\"}", []string{
			`-:2:9: error: broken JSON: invalid character '"' after object key [SVCC1006]`}},
		{"a name of another line", "apiVersion: v1\nkind: Node\nmetadata: {name: \"a\\n-A\", x: 1}\n", []string{
			`-:3:27: warning: Node "a\n-A": unknown field "x" in metadata [SVCC1013]`}},
		{"merge keys", "apiVersion: v1\nkind: Node\nmetadata: &m {name: n1}\nspec:\n  <<: &s {podCIDR: a,\n    podd: b}\n", []string{
			`-:6:5: warning: Node n1: unknown field "podd" in spec [SVCC1013]`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, diags := loadText(tt.text)
			if d := cmp.Diff(tt.want, told(diags.Sort())); d != "" {
				t.Errorf("-want +got\n%s", d)
			}
		})
	}
}

func TestSkipsAndCounts(t *testing.T) {
	text := "kind: Deployment\napiVersion: apps/v1\nspec: {nonsense: [}]}\n"
	text = strings.Replace(text, "[}]", "[]", 1)
	text += "---\nkind: PodList\napiVersion: v1\nitems:\n- metadata: {name: a}\n- metadata: {name: b}\n"
	text += "---\n{\"kind\":\"Pod\",\"apiVersion\":\"v1\"}\n---\nkind: IPList\napiVersion: example.com/v1\nitems: [192.0.2.1, 192.0.2.2]\n"
	text += "---\nkind: AllowList\napiVersion: example.com/v1\nspec: {}\n---\nkind: Endpoints\napiVersion: v1\nmetadata: {name: web}\n"
	set, diags := loadText(text)
	want := map[string]int{"apps/v1/Deployment": 1, "v1/Pod": 3, "example.com/v1/IPList": 2, "example.com/v1/AllowList": 1, "v1/Endpoints": 1}
	if d := cmp.Diff(want, set.Skipped); d != "" || len(diags) > 0 {
		t.Errorf("-want +got\n%s%q", d, told(diags))
	}
	set, _ = Load([]string{"-"}, strings.NewReader(text), Options{Endpoints: true})
	if len(set.Endpoints) != 1 || set.Skipped["v1/Endpoints"] != 0 {
		t.Errorf("%d Endpoints read on request, want 1", len(set.Endpoints))
	}
}

func TestProxyConfig(t *testing.T) {
	set, diags := loadText("apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: iptables\niptables:\n  masqueradeBit: 7\n  syncPeriod: 30s\n  typo: 1\n")
	want := []string{`-:7:3: warning: KubeProxyConfiguration: unknown field "typo" in iptables [SVCC1013]`}
	if d := cmp.Diff(want, told(diags)); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	if len(set.ProxyConfigs) != 1 || *set.ProxyConfigs[0].Value.IPTables.MasqueradeBit != 7 {
		t.Errorf("got %+v", set.ProxyConfigs)
	}
}

// The places of fields in one text, which At finds whatever the form.
func TestAt(t *testing.T) {
	head, spec := "# ä\n---\n", "spec:\n  type: \"ä\"\n  ports:\n  - {name: \"ö\", port: 80}\n  -\n    port: 81\n"
	tests := []struct {
		path []any
		want string
	}{
		{nil, "-:3:1"},
		{[]any{"kind"}, "-:4:1"},
		{[]any{"spec", "ports"}, "-:8:3"},
		{[]any{"spec", "ports", 0}, "-:9:5"},
		{[]any{"spec", "ports", 0, "port"}, "-:9:18"},
		{[]any{"spec", "ports", 1, "port"}, "-:11:5"},
		{[]any{"spec", "ports", 1, "nodePort"}, "-:11:5"},
		{[]any{"spec", "ports", 7, "port"}, "-:8:3"},
		{[]any{"status", "loadBalancer"}, "-:3:1"},
	}
	for _, text := range []string{head + service + spec, strings.ReplaceAll(head+service+spec, "\n", "\r\n"), "\ufeff" + head + service + spec, utf16Text(head + service + spec)} {
		set, diags := loadText(text)
		if len(set.Services) != 1 {
			t.Fatalf("no service: %q", told(diags))
		}
		for _, tt := range tests {
			if got := set.Services[0].At(tt.path...).String(); got != tt.want {
				t.Errorf("At(%v) = %s, want %s", tt.path, got, tt.want)
			}
		}
	}
	if pos := (&Object[int]{Pos: diag.Pos{File: "x"}}).At("spec"); pos.File != "x" {
		t.Errorf("an object made by hand is at %v", pos)
	}
}

// utf16Text is text as UTF-16, big endian, with a byte order mark.
func utf16Text(text string) string {
	var b strings.Builder
	for _, r := range "\ufeff" + text {
		b.Write([]byte{byte(r >> 8), byte(r)})
	}
	return b.String()
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
