package cluster

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The words of which names are made.
var (
	teams = []string{
		"payments", "orders", "catalog", "search", "identity", "billing", "inventory", "shipping",
		"reviews", "media", "notifications", "analytics", "fraud", "pricing", "checkout", "ledger",
	}
	stages = []string{"prod", "staging", "dev"}
	roles  = []string{"api", "web", "worker", "cache", "db", "gateway", "proxy", "queue", "auth", "sync", "store", "events"}
)

// servicesPerNamespace is the average.
const servicesPerNamespace = 20

// namespace gives the name of a random namespace, and its team.
func (g *generator) namespace() (name, team string) {
	n := g.IntN(max(4, g.Options.Services/servicesPerNamespace))
	team = teams[n%len(teams)]
	n /= len(teams)
	return fmt.Sprintf("%s-%s-%d", team, stages[n%len(stages)], n/len(stages)), team
}

// epoch is when the oldest object was made; others follow within a year.
var epoch = metav1.NewTime(time.Date(2026, time.March, 1, 8, 0, 0, 0, time.UTC))

// meta gives what the API server writes into every object.
func (g *generator) meta(namespace, name string) metav1.ObjectMeta {
	age := time.Duration(g.IntN(365*24*60*60)) * time.Second
	return metav1.ObjectMeta{
		Name: name, Namespace: namespace,
		UID:               uidOf(g.uid()),
		ResourceVersion:   strconv.Itoa(g.between(1_000_000, 99_999_999)),
		CreationTimestamp: metav1.NewTime(epoch.Add(age)),
	}
}

// serviceMeta names the i-th Service and labels it: two in three as Helm does,
// the rest as "kubectl apply" leaves them.
func (g *generator) serviceMeta(i int) metav1.ObjectMeta {
	namespace, team := g.namespace()
	meta := g.meta(namespace, fmt.Sprintf("%s-%s-%d", team, pick(g.draw, roles), i))
	meta.Labels = map[string]string{"app": meta.Name, "team": team}
	if !g.chance(0.66) {
		return meta
	}
	version := fmt.Sprintf("%d.%d.%d", g.between(0, 4), g.IntN(30), g.IntN(12))
	meta.Labels["app.kubernetes.io/instance"] = meta.Name
	meta.Labels["app.kubernetes.io/managed-by"] = "Helm"
	meta.Labels["app.kubernetes.io/name"] = team
	meta.Labels["app.kubernetes.io/version"] = version
	meta.Labels["helm.sh/chart"] = team + "-" + version
	meta.Annotations = map[string]string{
		"meta.helm.sh/release-name":      meta.Name,
		"meta.helm.sh/release-namespace": namespace,
	}
	return meta
}

// lastApplied is kubectl's annotation: the object as the user wrote it.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// annotate adds to a finished Service what tools leave behind.
func (g *generator) annotate(s *corev1.Service) {
	add := func(key, value string) { metav1.SetMetaDataAnnotation(&s.ObjectMeta, key, value) }
	if g.chance(0.2) && len(s.Spec.Ports) > 0 {
		add("prometheus.io/port", strconv.Itoa(int(s.Spec.Ports[len(s.Spec.Ports)-1].Port)))
		add("prometheus.io/scrape", "true")
	}
	if s.Annotations["meta.helm.sh/release-name"] == "" {
		add(lastApplied, asApplied(s))
	}
}

func asApplied(s *corev1.Service) string {
	text, _ := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Service",
		"metadata": map[string]any{"annotations": map[string]any{}, "labels": s.Labels, "name": s.Name, "namespace": s.Namespace},
		"spec":     map[string]any{"ports": s.Spec.Ports, "selector": s.Spec.Selector, "type": s.Spec.Type},
	})
	return string(text) + "\n"
}
