package conformance

import (
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"svcc/compiler/addr"
	"svcc/ir/diag"
)

// svccRow is something that svcc refuses and the API server's validation takes.
type svccRow struct {
	kind    string
	code    diag.Code
	message string                                     // a regular expression
	only    func(u understood, d diag.Diagnostic) bool // of which objects; nil for all
	reason  string
}

func (r svccRow) matches(kind string, u understood, d diag.Diagnostic) bool {
	return r.kind == kind && r.code == d.Code && regexp.MustCompile(r.message).MatchString(d.Message) && (r.only == nil || r.only(u, d))
}

var svccAlone = []svccRow{
	{"Service", diag.NameMissing, ``, nil, "the API server would invent a name, which nobody knows yet"},
	{"EndpointSlice", diag.NameMissing, ``, nil, "the API server would invent a name, which nobody knows yet"},
	{"Node", diag.NameMissing, ``, nil, "the API server would invent a name, which nobody knows yet"},
	{"Service", diag.BadPort, `^nodePort`, nil, "the API server's allocator, not its validation, refuses a node port that is no port"},
	{"Service", diag.NodePortClash, `by the same Service`, nil, "the API server's allocator, not its validation, refuses a health check port that is a node port"},
	{"Service", diag.SpecialAddress, ``, clusterIPs, "the API server's allocator, not its validation, refuses a cluster IP outside its ranges, which hold no special address"},
	{"Service", diag.BadScheduler, ``, nil, "the annotation is svcc's own"},
	{"EndpointSlice", diag.BadPort, ``, nil, "the API server does not look at a slice's port numbers; one that is none makes iptables-restore refuse the whole file"},
}

// clusterIPs says that a finding is about one of a Service's cluster IPs.
func clusterIPs(u understood, d diag.Diagnostic) bool {
	s, ok := u.object.(*corev1.Service)
	return ok && slices.ContainsFunc(s.Spec.ClusterIPs, func(text string) bool {
		a, _, err := addr.Parse(text)
		return err == nil && strings.HasPrefix(d.Message, a.String()+" is ")
	})
}

// serverRow is something that the API server refuses and svcc does not.
type serverRow struct {
	field  string                  // of the refusal, a regular expression
	detail string                  // the same
	says   diag.Code               // svcc's warning or note about it; "" if it has no use for the field
	only   func(u understood) bool // of which objects; nil for all
	reason string
}

func (r serverRow) matches(u understood, x refusal) bool {
	says := r.says == ""
	for _, d := range u.found {
		says = says || d.Code == r.says
	}
	return says && regexp.MustCompile(r.field).MatchString(x.field) && regexp.MustCompile(r.detail).MatchString(x.detail) && (r.only == nil || r.only(u))
}

var serverAlone = []serverRow{
	{`^$`, `unknown field`, diag.UnknownField, nil, "an unknown field has no effect: svcc warns, and with --strict refuses it"},
	{``, ``, "", noRules, "whatever stands in such an object, no rule is made of it"},
	{`^metadata\.(labels|annotations|finalizers|ownerReferences|managedFields|generateName|uid)`, ``, "", nil, "svcc reads the labels and annotations that it knows by name, and nothing else of metadata but the name"},
	{`^spec\.(clusterIPs|externalIPs|loadBalancerSourceRanges|LoadBalancerSourceRanges)\[\]`, oddText, diag.NotCanonical, nil, "objects stored before Kubernetes 1.36 may have such text, and it has one meaning: svcc warns and says how it reads it"},
	{`^spec\.clusterIPs$`, `first value must match`, diag.NotCanonical, nil, "two ways to write one address are one address"},
	{`^status\.loadBalancer\.ingress\[\]\.ip$`, oddText, diag.NotCanonical, nil, "a status stored before Kubernetes 1.36 may have such text: as above"},
	{`^endpoints\[\]\.addresses(\[\])?$`, oddText, diag.NotCanonical, nil, "a slice stored before Kubernetes 1.36 may have such text: as above"},
	{`^status\.loadBalancer\.ingress\[\]\.ip$`, `valid IP address`, diag.IngressNotAddress, nil, "a controller writes the status; the rest of the Service works without the address"},
	{`^status\.loadBalancer\.ingress\[\]\.hostname$`, ``, "", nil, "the proxy does not look at host names"},
	{`^spec\.ports\[\]\.(targetPort|appProtocol)`, ``, "", nil, "the proxy never reads it"},
	{`^spec\.(selector|loadBalancerClass|externalName)`, ``, "", nil, "the proxy never reads it"},
	{`^spec\.(ipFamilyPolicy|allocateLoadBalancerNodePorts)`, ``, "", nil, "only the allocation of addresses and ports reads it"},
	{`^ports\[\]\.appProtocol`, ``, "", nil, "the proxy never reads it"},
	{`^endpoints\[\]\.(hostname|deprecatedTopology)`, ``, "", nil, "the proxy never reads it"},
	{`^endpoints\[\]\.addresses(\[\])?$`, ``, diag.SeveralAddresses, nil, "of several addresses the proxy reads the first, and svcc warns of the others"},
	{`^endpoints\[\]\.hints\.forZones\[\]\.name`, ``, "", nil, "a zone that is no label's value is no node's, and one named twice is one"},
	{`^endpoints\[\]\.hints\.forNodes\[\]\.name`, `Duplicate`, "", nil, "a node named twice is one"},
	{`^spec\.podCIDRs`, ``, "", nil, "read with --detect-local-mode=NodeCIDR alone, which warns where a family has no range"},
}

// oddText is what the API server says of addresses and ranges with one meaning
// that are not written as it wants them (KEP-4858).
const oddText = `leading 0s|IPv4-mapped|canonical form|bits set beyond`

// noRules says that an object has no part in the rules.
func noRules(u understood) bool {
	switch o := u.object.(type) {
	case *corev1.Service:
		_, foreign := o.Labels["service.kubernetes.io/service-proxy-name"]
		return foreign || o.Spec.Type == corev1.ServiceTypeExternalName || o.Spec.ClusterIP == corev1.ClusterIPNone
	case *discoveryv1.EndpointSlice:
		_, headless := o.Labels[corev1.IsHeadlessService]
		return headless || o.AddressType == discoveryv1.AddressTypeFQDN || o.Labels[discoveryv1.LabelServiceName] == ""
	}
	return false
}
