package conformance

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/apis/core"
	coreinstall "k8s.io/kubernetes/pkg/apis/core/install"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/apis/discovery"
	discoveryinstall "k8s.io/kubernetes/pkg/apis/discovery/install"
	discoveryvalidation "k8s.io/kubernetes/pkg/apis/discovery/validation"
)

// scheme and codecs are the API server's for what svcc reads, strict as kubectl
// asks for.
var scheme, codecs = func() (*runtime.Scheme, serializer.CodecFactory) {
	s := runtime.NewScheme()
	coreinstall.Install(s)
	discoveryinstall.Install(s)
	return s, serializer.NewCodecFactory(s, serializer.EnableStrict)
}()

// gates are the feature gates as an API server of this release starts with them.
var gates = func() map[string]bool {
	out := map[string]bool{}
	for name := range utilfeature.DefaultMutableFeatureGate.GetAll() {
		out[string(name)] = utilfeature.DefaultFeatureGate.Enabled(name)
	}
	return out
}()

// refusal is one reason for which the API server refuses an object.
type refusal struct {
	field  string // with [] for every index and key; "" where it does not decode
	detail string
}

func (r refusal) String() string { return r.field + ": " + r.detail }

// create is what the API server does with text that asks for an object: decode,
// default, validate. The object is the v1 one with its defaults, nil if the text
// does not decode.
func create(text []byte) (runtime.Object, []refusal) {
	internal, _, err := codecs.UniversalDecoder().Decode(text, nil, nil)
	if err != nil {
		return nil, []refusal{{"", err.Error()}}
	}
	errs := admit(internal)
	versioned, err := scheme.ConvertToVersion(internal, version(internal))
	if err != nil {
		return nil, []refusal{{"", err.Error()}}
	}
	errs = append(errs, scheme.Validate(context.Background(), gates, versioned)...)
	var out []refusal
	for _, e := range errs {
		out = append(out, refusal{anyIndex(e.Field), fmt.Sprintf("%s: %s", e.Type, e.ErrorBody())})
	}
	return versioned, out
}

func version(o runtime.Object) runtime.GroupVersioner {
	if _, ok := o.(*discovery.EndpointSlice); ok {
		return discoveryv1.SchemeGroupVersion
	}
	return corev1.SchemeGroupVersion
}

// admit does what an object's strategy does on creation, and validates.
func admit(o runtime.Object) field.ErrorList {
	switch o := o.(type) {
	case *core.Service:
		named(&o.ObjectMeta)
		allocate(o)
		return append(validation.ValidateServiceCreate(o),
			validation.ValidateLoadBalancerStatus(&o.Status.LoadBalancer, nil, field.NewPath("status", "loadBalancer"), &o.Spec)...)
	case *discovery.EndpointSlice:
		named(&o.ObjectMeta)
		for i := range o.Endpoints {
			o.Endpoints[i].DeprecatedTopology = nil // dropped from what a v1 client writes
		}
		return discoveryvalidation.ValidateEndpointSliceCreate(o)
	case *core.Node:
		named(&o.ObjectMeta)
		o.Namespace = ""
		return validation.ValidateNode(o)
	}
	return field.ErrorList{field.InternalError(nil, fmt.Errorf("%T", o))}
}

// named fills in what client and server do about names.
func named(m *metav1.ObjectMeta) {
	if m.Namespace == "" {
		m.Namespace = metav1.NamespaceDefault
	}
	if m.Name == "" && m.GenerateName != "" {
		m.Name = m.GenerateName + "x2x4x"
	}
}

// allocate fills in what the registry does before it validates
// (pkg/registry/core/service/storage): the plural of a cluster IP, and the port
// for health checks, without which validation refuses.
func allocate(s *core.Service) {
	sp := &s.Spec
	if sp.ClusterIP != "" && len(sp.ClusterIPs) == 0 {
		sp.ClusterIPs = []string{sp.ClusterIP}
	}
	if sp.Type == core.ServiceTypeLoadBalancer && sp.ExternalTrafficPolicy == core.ServiceExternalTrafficPolicyLocal && sp.HealthCheckNodePort == 0 {
		sp.HealthCheckNodePort = 31999
	}
}

// anyIndex writes [] for each index and key of a field's path.
func anyIndex(path string) string {
	var b strings.Builder
	for path != "" {
		before, rest, found := strings.Cut(path, "[")
		b.WriteString(before)
		if !found {
			break
		}
		b.WriteString("[]")
		_, path, _ = strings.Cut(rest, "]")
	}
	return b.String()
}
