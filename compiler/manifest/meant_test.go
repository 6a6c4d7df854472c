package manifest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"svcc/ir/diag"
)

// An explicit key wins over a merged one wherever it stands, the earlier of several
// merges over the later (https://yaml.org/type/merge.html).
func TestMerges(t *testing.T) {
	const head = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec:\n  ports:\n"
	for _, c := range []struct{ name, ports, want string }{
		{"explicit after", "  - &p {name: a, port: 80}\n  - <<: *p\n    name: b\n    port: 81\n", "a:80 b:81"},
		{"explicit before", "  - &p {name: a, port: 80}\n  - name: b\n    port: 81\n    <<: *p\n", "a:80 b:81"},
		{"in part", "  - &p {name: a, port: 80}\n  - {<<: *p, name: b}\n", "a:80 b:80"},
		{"list of merges", "  - &p {name: a, port: 80}\n  - &q {name: b, port: 81, protocol: UDP}\n  - {<<: [*p, *q], name: c}\n", "a:80 b:81/UDP c:80/UDP"},
		{"merge of a merge", "  - &p {name: a, port: 80}\n  - &q {<<: *p, name: b}\n  - {<<: *q, name: c}\n", "a:80 b:80 c:80"},
		{"a name that looks like a boolean", "  - &p {name: \"yes\", port: 80}\n  - {<<: *p, port: 81}\n", "yes:80 yes:81"},
	} {
		set, list := loadText(head + c.ports)
		if len(list) > 0 || len(set.Services) != 1 {
			t.Errorf("%s: %v", c.name, list)
			continue
		}
		var got []string
		for _, p := range set.Services[0].Value.Spec.Ports {
			text := p.Name + ":" + string(rune('0'+p.Port/10)) + string(rune('0'+p.Port%10))
			if p.Protocol != "" {
				text += "/" + string(p.Protocol)
			}
			got = append(got, text)
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s: %s, want %s", c.name, s, c.want)
		}
	}
	for name, text := range map[string]string{
		"a key given twice":   head + "  - &p {name: a, port: 80}\n  - {<<: *p, name: b, name: c}\n",
		"a merge given twice": head + "  - &p {name: a, port: 80}\n  - {<<: *p, name: b, <<: *p}\n",
	} {
		if set, list := loadText(text); len(list) != 1 || list[0].Code != diag.DuplicateKey || list[0].Pos.Line != 7 || len(set.Services) == 1 && !set.Services[0].Broken {
			t.Errorf("%s: %v", name, list)
		}
	}
	// A file without a word in it is refused as any such path is.
	path := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(path, []byte("# nothing\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, list := LoadConfig(path, nil); len(list) != 1 || list[0].Code != diag.NothingFound {
		t.Errorf("empty: %v", list)
	}
}

// A value of a wrong type hides nothing else of its object, which is Broken; what the
// value is clearly meant to be is taken.
func TestWrongTypesHideNothing(t *testing.T) {
	set, list := loadText("apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec:\n  clusterIp: x\n  ports:\n  - {name: 80, port: \"8080\"}\n  - {name: b, port: http, nodePort: 30000}\n")
	codes := map[diag.Code]int{}
	for _, d := range list {
		codes[d.Code]++
	}
	if codes[diag.WrongType] != 3 || codes[diag.UnknownField] != 1 || len(list) != 4 {
		t.Fatalf("%v", list)
	}
	s := set.Services[0]
	if p := s.Value.Spec.Ports; !s.Broken || p[0].Port != 8080 || p[0].Name != "80" || p[1].Port != 0 || p[1].NodePort != 30000 {
		t.Errorf("broken %v, ports %v", s.Broken, p)
	}
	for _, c := range []struct {
		path []any
		want bool
	}{
		{[]any{"spec", "ports", 0, "port"}, true},
		{[]any{"spec", "ports", 1}, true},
		{[]any{"spec", "ports", 1, "nodePort"}, false},
		{[]any{"metadata", "name"}, false},
	} {
		if got := s.Doubtful(c.path...); got != c.want {
			t.Errorf("%v doubtful: %v", c.path, got)
		}
	}
}

// A template is told as one, where it stands.
func TestTemplates(t *testing.T) {
	const head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ok}\n---\napiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec:\n  ports:\n  - port: "
	for value, want := range map[string]string{
		"{{ port }}":             "helm template",
		"{{ .Values.port }}":     "helm template",
		`"{{ .Values.port }}"`:   "helm template",
		`'{{- .Values.port -}}'`: "helm template",
		"${PORT}":                "envsubst",
		"$(PORT)":                "envsubst",
		"<%= @port %>":           "envsubst",
	} {
		_, list := loadText(head + value + "\n")
		if len(list) != 1 || !strings.Contains(list[0].Hint, want) || list[0].Pos.Line != 10 || strings.Contains(list[0].Message, "interface") {
			t.Errorf("%s: %v, hint %q", value, list, list[0].Hint)
		}
	}
	if _, list := loadText(head + "text\n"); len(list) != 1 || strings.Contains(list[0].Hint, "template") {
		t.Errorf("%v", list)
	}
}

// Kinds and versions close to one that counts are told; kinds that exist are not.
func TestMisspeltKinds(t *testing.T) {
	for kind, want := range map[string]string{
		"v1 service": "Service", "v1 Services": "Service", "v1 Sevice": "Service", "v1 Serivce": "Service", "core/v1 Service": "Service",
		"v1 node": "Node", "v1 Nodes": "Node",
		"discovery.k8s.io/v1 Endpointslice": "EndpointSlice", "discovery/v1 EndpointSlice": "EndpointSlice", "discovery.k8s.io EndpointSlice": "EndpointSlice", "dicovery.k8s.io/v1 EndpointSlice": "EndpointSlice",
		"networking.k8s.io/v1 ServiceCidr": "ServiceCIDR", "kubeproxy.config.k8s.io/v1alpha1 KubeProxyConfig": "",
		"v1 ServiceAccount": "", "v1 Secret": "", "v1 Pod": "", "v1 Endpoints": "", "v1 Event": "", "v1 ConfigMap": "", "apps/v1 Deployment": "",
		"serving.knative.dev/v1 Service": "", "networking.k8s.io/v1 Ingress": "", "metrics.k8s.io/v1beta1 NodeMetrics": "", "storage.k8s.io/v1 CSINode": "", "networking.k8s.io/v1 IPAddress": "",
	} {
		api, name, _ := strings.Cut(kind, " ")
		_, list := loadText("apiVersion: " + api + "\nkind: " + name + "\nmetadata: {name: a}\n")
		switch {
		case want == "" && len(list) > 0:
			t.Errorf("%s: %v", kind, list)
		case want != "" && (len(list) != 1 || list[0].Code != diag.KindMisspelt || !strings.Contains(list[0].Hint, "kind "+want+" of")):
			t.Errorf("%s: %v", kind, list)
		}
	}
}

const proxyConfig = `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clusterCIDR: 10.1.0.0/16
mod: x
`

// A configuration is read alone and out of a ConfigMap, with places in the file.
func TestLoadConfig(t *testing.T) {
	indented := "    " + strings.ReplaceAll(strings.TrimSpace(proxyConfig), "\n", "\n    ") + "\n"
	head := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kube-proxy, namespace: kube-system}\ndata:\n  config.conf: "
	for _, c := range []struct {
		name, text string
		line, col  int // of the unknown field
	}{
		{"alone.yaml", proxyConfig, 4, 1},
		{"block.yaml", head + "|-\n" + indented + "  kubeconfig.conf: |\n    a: b\n", 9, 5},
		{"documents.yaml", "apiVersion: v1\nkind: Secret\n---\n" + head + "|\n" + indented, 12, 5},
		{"list.yaml", "apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(strings.TrimSpace(head+"|\n"+indented), "\n", "\n  ") + "\n", 12, 7},
		{"quoted.json", `{"apiVersion":"v1","kind":"ConfigMap","data":{"config.conf":"` + strings.ReplaceAll(proxyConfig, "\n", `\n`) + `"}}`, 4, 1},
	} {
		path := filepath.Join(t.TempDir(), c.name)
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		set, list := LoadConfig(path, nil)
		if len(set.ProxyConfigs) != 1 || set.ProxyConfigs[0].Value.ClusterCIDR != "10.1.0.0/16" {
			t.Errorf("%s: %d configurations, %v", c.name, len(set.ProxyConfigs), list)
		}
		if len(list) != 1 || list[0].Code != diag.UnknownField || list[0].Pos.Line != c.line || list[0].Pos.Col != c.col || !strings.HasPrefix(list[0].Pos.File, path) {
			t.Errorf("%s: %v", c.name, list)
		}
	}
	for name, text := range map[string]string{
		"kubeconfig": "apiVersion: v1\nkind: Config\nclusters: []\n",
		"misspelt":   strings.Replace(proxyConfig, "Configuration", "Config", 1),
		"other map":  "apiVersion: v1\nkind: ConfigMap\ndata: {a: b}\n",
		"service":    service,
	} {
		path := filepath.Join(t.TempDir(), "c.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, list := LoadConfig(path, nil); len(list.Errors()) != 1 || list.Errors()[0].Code != diag.NoProxyConfig || list.Errors()[0].Pos.File != path {
			t.Errorf("%s: %v", name, list)
		}
	}
}
