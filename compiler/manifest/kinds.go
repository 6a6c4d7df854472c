package manifest

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// typeMeta tells what an object is.
type typeMeta struct{ api, kind string }

func (t typeMeta) String() string { return t.api + "/" + t.kind }

// isList says that objects may stand in an "items" of it: v1 List, ServiceList
// and so on. A kind of which it is not true may have such a name as well.
func (t typeMeta) isList() bool { return strings.HasSuffix(t.kind, "List") }

// item is what an item of the list is that does not say so itself: in a
// ServiceList, a Service.
func (t typeMeta) item() typeMeta {
	if t.kind == "List" {
		return typeMeta{}
	}
	return typeMeta{t.api, strings.TrimSuffix(t.kind, "List")}
}

// or fills in what t leaves open.
func (t typeMeta) or(u typeMeta) typeMeta {
	if t.kind == "" {
		t.kind = u.kind
	}
	if t.api == "" {
		t.api = u.api
	}
	return t
}

// kind is a row of the table of what is read.
type kind struct {
	make       func() any
	namespaced bool
	onRequest  bool // only with Options.Endpoints
}

var kinds = map[typeMeta]kind{
	{"v1", "Service"}:                        {func() any { return new(corev1.Service) }, true, false},
	{"v1", "Endpoints"}:                      {func() any { return new(corev1.Endpoints) }, true, true}, //lint:ignore SA1019 read on request
	{"v1", "Node"}:                           {func() any { return new(corev1.Node) }, false, false},
	{"discovery.k8s.io/v1", "EndpointSlice"}: {func() any { return new(discoveryv1.EndpointSlice) }, true, false},
	{"networking.k8s.io/v1", "ServiceCIDR"}:  {func() any { return new(networkingv1.ServiceCIDR) }, false, false},
	{"kubeproxy.config.k8s.io/v1alpha1", "KubeProxyConfiguration"}: {func() any { return new(ProxyConfig) }, false, false},
}

// sibling is the type that is read, where t is of the same group and kind but
// another version.
func sibling(t typeMeta) (typeMeta, bool) {
	group := groupOf(t.api)
	for k := range kinds {
		if k != t && k.kind == t.kind && groupOf(k.api) == group {
			return k, true
		}
	}
	return typeMeta{}, false
}

func groupOf(api string) string {
	group, _, found := strings.Cut(api, "/")
	if !found {
		return ""
	}
	return group
}

// Name is how an object is called in messages: "Service demo/web", "Node
// node-0", "KubeProxyConfiguration". Names come from the input and are not
// checked here: one with anything but letters, digits, dots and dashes is quoted
// as Go does, so that the result is one line of plain text.
func Name(v any) string {
	m, ok := v.(metav1.Object)
	if !ok {
		return kindOf(v)
	}
	return nameOf(kindOf(v), m.GetNamespace(), m.GetName())
}

// Name is the object's name for messages; see the function Name.
func (o *Object[T]) Name() string { return Name(o.Value) }

func nameOf(kind, namespace, name string) string {
	switch {
	case name == "":
		return kind
	case namespace == "":
		return kind + " " + plain(name)
	}
	return kind + " " + plain(namespace) + "/" + plain(name)
}

func plain(name string) string {
	for _, c := range []byte(name) {
		if c != '-' && c != '.' && (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') {
			return strconv.Quote(name)
		}
	}
	return name
}

func kindOf(v any) string {
	switch v.(type) {
	case *corev1.Service:
		return "Service"
	case *corev1.Endpoints: //lint:ignore SA1019 read on request
		return "Endpoints"
	case *corev1.Node:
		return "Node"
	case *discoveryv1.EndpointSlice:
		return "EndpointSlice"
	case *networkingv1.ServiceCIDR:
		return "ServiceCIDR"
	case *ProxyConfig:
		return "KubeProxyConfiguration"
	}
	return "object"
}

// SchedulerAnnotation, on a Service, names the scheduler of its virtual servers
// in IPVS mode.
const SchedulerAnnotation = "svcc.io/ipvs-scheduler"
