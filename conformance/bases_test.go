package conformance

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// bases are, by kind, the objects of the golden cases and of the example, as people wrote
// them and as an API server stores them, of which the API server refuses none.
func bases(t *testing.T) map[string][]tree {
	t.Helper()
	out, seen := map[string][]tree{}, map[string]bool{}
	for _, text := range documents(t) {
		var o tree
		if yaml.Unmarshal([]byte(text), &o) != nil || fieldsOf[kindOf(o)] == nil {
			continue
		}
		object, refused := create(flow(o))
		if len(refused) > 0 || seen[string(flow(o))] {
			continue
		}
		seen[string(flow(o))] = true
		out[kindOf(o)] = append(out[kindOf(o)], o, stored(t, object))
	}
	for kind := range fieldsOf {
		if len(out[kind]) < 10 {
			t.Fatalf("only %d objects of kind %s to begin with", len(out[kind]), kind)
		}
	}
	return out
}

func kindOf(o tree) string {
	kind, _ := o["kind"].(string)
	return kind
}

// documents are the YAML documents of the repository's manifests.
func documents(t *testing.T) []string {
	t.Helper()
	var out []string
	add := func(text []byte) { out = append(out, strings.Split(string(text), "\n---\n")...) }
	for _, pattern := range []string{"../golden/cases/*.txtar", "../docs/example/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasSuffix(file, ".txtar") {
				add(text)
				continue
			}
			for _, f := range txtar.Parse(text).Files {
				if strings.HasSuffix(f.Name, ".yaml") {
					add(f.Data)
				}
			}
		}
	}
	return out
}

// stored is a defaulted object as it comes back from an API server, which has
// allocated what was left to it.
func stored(t *testing.T, o runtime.Object) tree {
	t.Helper()
	o = o.DeepCopyObject()
	if s, ok := o.(*corev1.Service); ok && s.Spec.Type != corev1.ServiceTypeExternalName && s.Spec.ClusterIP != corev1.ClusterIPNone {
		allocated(s)
	}
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		t.Fatal(err)
	}
	return clone(any(m)).(tree)
}

// allocated fills in what an API server chooses for a Service.
func allocated(s *corev1.Service) {
	sp := &s.Spec
	if sp.ClusterIP == "" {
		sp.ClusterIP, sp.ClusterIPs = "10.96.7.7", []string{"10.96.7.7"}
	}
	for i := len(sp.IPFamilies); i < len(sp.ClusterIPs); i++ {
		family := corev1.IPv4Protocol
		if strings.Contains(sp.ClusterIPs[i], ":") {
			family = corev1.IPv6Protocol
		}
		sp.IPFamilies = append(sp.IPFamilies, family)
	}
	if sp.IPFamilyPolicy == nil {
		policy := []corev1.IPFamilyPolicy{corev1.IPFamilyPolicySingleStack, corev1.IPFamilyPolicyRequireDualStack}[len(sp.IPFamilies)-1]
		sp.IPFamilyPolicy = &policy
	}
	if slices.Contains([]corev1.ServiceType{corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer}, sp.Type) && (sp.AllocateLoadBalancerNodePorts == nil || *sp.AllocateLoadBalancerNodePorts) {
		for i := range sp.Ports {
			if sp.Ports[i].NodePort == 0 {
				sp.Ports[i].NodePort = int32(30500 + i)
			}
		}
	}
}
