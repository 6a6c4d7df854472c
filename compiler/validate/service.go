package validate

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"svcc/compiler/manifest"
	"svcc/ir"
	"svcc/ir/diag"
)

// proxyNameLabel hands a Service to another proxy, whatever its value.
const proxyNameLabel = "service.kubernetes.io/service-proxy-name"

// maxAffinitySeconds is the API's limit: one day.
const maxAffinitySeconds = 86400

// service is a Service with what was read of its fields. Addresses keep the
// index of their field; one that cannot be used is the zero Addr.
type service struct {
	*manifest.Object[*corev1.Service]
	key      string // "namespace/name"
	foreign  bool   // another proxy's
	headless bool
	external bool // ExternalName
	compiled bool // has a virtual address of ours, so that rules are made

	clusterIPs  []netip.Addr
	externalIPs []netip.Addr
	vips        []netip.Addr // of the load balancer status, mode VIP only
	slices      []*slice     // of either family, by name
	left        []*slice     // left out, since they are labelled headless
}

func newService(o *manifest.Object[*corev1.Service]) *service {
	sp := &o.Value.Spec
	s := &service{Object: o, key: o.Value.Namespace + "/" + o.Value.Name}
	_, s.foreign = o.Value.Labels[proxyNameLabel]
	s.headless = sp.ClusterIP == corev1.ClusterIPNone
	s.external = sp.Type == corev1.ServiceTypeExternalName
	s.compiled = !s.foreign && !s.headless && !s.external && sp.ClusterIP != ""
	return s
}

// ignored says that no rule will ever be made of the Service, whatever is
// filled in, nor of its slices.
func (s *service) ignored() bool { return s.foreign || s.headless || s.external }

// serves says whether the Service has a cluster IP of the family, without
// which it has no rules in it.
func (s *service) serves(f ir.Family) bool {
	for _, a := range s.clusterIPs {
		if a.IsValid() && f.Of(a) {
			return true
		}
	}
	return false
}

// checkService checks the fields of one Service.
func (c *checker) checkService(s *service) {
	if s.foreign {
		c.onService(s, diag.NotOurs, path{"metadata", "labels", proxyNameLabel}, "no rules: the label %s hands the Service to another proxy", proxyNameLabel)
		return
	}
	c.checkServiceName(s)
	c.checkType(s)
	c.checkClusterIPs(s)
	if s.external {
		return
	}
	c.checkPorts(s)
	c.checkPolicies(s)
	c.checkAffinity(s)
	c.checkExternalIPs(s)
	c.checkIngress(s)
	c.checkSourceRanges(s)
	c.checkHealthCheck(s)
	c.checkDistribution(s)
	c.checkHeadless(s)
	c.checkScheduler(s)
	c.checkPersistence(s)
	c.checkARP(s)
}

func (c *checker) checkServiceName(s *service) {
	m := &s.Value.ObjectMeta
	if !c.names.isLabel(m.Namespace) {
		c.onService(s, diag.BadName, path{"metadata", "namespace"}, "namespace %q is not a DNS label", m.Namespace).Hint = labelRule
	}
	if !c.names.isLabel(m.Name) {
		c.onService(s, diag.BadName, path{"metadata", "name"}, "service name %q is not a DNS label", m.Name).Hint = labelRule
	}
}

func (c *checker) checkType(s *service) {
	if t := s.Value.Spec.Type; !validType(t) {
		c.onService(s, diag.BadServiceType, path{"spec", "type"}, "type %q is unknown", t).Hint = "use ClusterIP, NodePort, LoadBalancer or ExternalName"
	}
}

// validType says that there is such a type. What only one type may have is not
// held against a Service of none: the type is its one fault.
func validType(t corev1.ServiceType) bool {
	switch t {
	case corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeExternalName:
		return true
	}
	return false
}

func (c *checker) checkPolicies(s *service) {
	sp := &s.Value.Spec
	switch p := sp.ExternalTrafficPolicy; {
	case p == "":
	case !validPolicy(p):
		c.onService(s, diag.BadTrafficPolicy, path{"spec", "externalTrafficPolicy"}, "externalTrafficPolicy %q is neither Cluster nor Local", p)
	case !validType(sp.Type): // said already
	case !externallyAccessible(sp):
		c.onService(s, diag.BadTrafficPolicy, path{"spec", "externalTrafficPolicy"}, "externalTrafficPolicy is set on a Service that cannot be reached from outside").
			Hint = "remove it, or did you mean internalTrafficPolicy?"
	case p == corev1.ServiceExternalTrafficPolicyLocal && sp.PublishNotReadyAddresses && s.compiled:
		c.onService(s, diag.LocalPublishNotReady, path{"spec", "publishNotReadyAddresses"}, "externalTrafficPolicy Local counts pods that are not ready as local endpoints")
	}
	if p := sp.InternalTrafficPolicy; p != nil && *p != corev1.ServiceInternalTrafficPolicyCluster && *p != corev1.ServiceInternalTrafficPolicyLocal {
		c.onService(s, diag.BadTrafficPolicy, path{"spec", "internalTrafficPolicy"}, "internalTrafficPolicy %q is neither Cluster nor Local", *p)
	}
}

func validPolicy(p corev1.ServiceExternalTrafficPolicy) bool {
	return p == corev1.ServiceExternalTrafficPolicyCluster || p == corev1.ServiceExternalTrafficPolicyLocal
}

func (c *checker) checkAffinity(s *service) {
	sp := &s.Value.Spec
	switch sp.SessionAffinity {
	case corev1.ServiceAffinityNone:
	case corev1.ServiceAffinityClientIP:
		c.checkTimeout(s)
		c.adviseAffinity(s)
	default:
		c.onService(s, diag.BadAffinity, path{"spec", "sessionAffinity"}, "sessionAffinity %q is neither None nor ClientIP", sp.SessionAffinity)
	}
}

func (c *checker) checkTimeout(s *service) {
	conf := s.Value.Spec.SessionAffinityConfig
	if conf == nil || conf.ClientIP == nil || conf.ClientIP.TimeoutSeconds == nil {
		c.onService(s, diag.BadAffinity, path{"spec", "sessionAffinity"}, "sessionAffinity ClientIP has no timeout")
		return
	}
	if t := *conf.ClientIP.TimeoutSeconds; t < 1 || t > maxAffinitySeconds {
		c.onService(s, diag.BadAffinity, path{"spec", "sessionAffinityConfig", "clientIP", "timeoutSeconds"}, "timeoutSeconds %d is not within 1 to 86400", t)
	}
}

func (c *checker) adviseAffinity(s *service) {
	if !s.compiled {
		return
	}
	at := path{"spec", "sessionAffinity"}
	if c.o.Facts.RemembersPerEndpoint {
		c.onService(s, diag.AffinityForgets, at, "in iptables mode each endpoint remembers its last 100 clients").
			Hint = "load xt_recent with a higher ip_list_tot"
	}
	if n := len(s.Value.Spec.Ports); n > 1 {
		c.onService(s, diag.AffinityPerPort, at, "a client sticks to an endpoint of each of the %d ports on its own", n)
	}
}

func (c *checker) checkHealthCheck(s *service) {
	sp, at := &s.Value.Spec, path{"spec", "healthCheckNodePort"}
	wanted := wantsHealthCheck(sp)
	switch p := sp.HealthCheckNodePort; {
	case !validType(sp.Type), sp.ExternalTrafficPolicy != "" && !validPolicy(sp.ExternalTrafficPolicy):
	case p != 0 && !wanted:
		c.onService(s, diag.BadHealthCheckPort, at, "healthCheckNodePort is set without type LoadBalancer and externalTrafficPolicy Local").Hint = "remove it"
	case p == 0 && wanted && s.compiled:
		c.onService(s, diag.NoHealthCheckPort, path{"spec", "externalTrafficPolicy"}, "there is no healthCheckNodePort for the load balancer to probe").Hint = "set spec.healthCheckNodePort"
	case p == 0:
	case !validPort(p):
		c.onService(s, diag.BadPort, at, "healthCheckNodePort %d is not within 1 to 65535", p)
	case s.compiled:
		c.onService(s, diag.HealthCheckNotServed, at, "port %d is opened, but nothing answers the load balancer's health checks there", p)
		c.checkNodePortRange(s, at, p)
	}
}

func wantsHealthCheck(sp *corev1.ServiceSpec) bool {
	return sp.Type == corev1.ServiceTypeLoadBalancer && sp.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

func (c *checker) checkDistribution(s *service) {
	d, at := s.Value.Spec.TrafficDistribution, path{"spec", "trafficDistribution"}
	if d == nil {
		return
	}
	switch *d {
	case corev1.ServiceTrafficDistributionPreferSameZone, corev1.ServiceTrafficDistributionPreferSameNode:
	case corev1.ServiceTrafficDistributionPreferClose:
		c.onService(s, diag.PreferCloseDeprecated, at, "PreferClose is the deprecated name of PreferSameZone").Hint = "write PreferSameZone"
	default:
		c.onService(s, diag.BadDistribution, at, "trafficDistribution %q is unknown", *d).Hint = "use PreferSameZone or PreferSameNode"
	}
}

// checkHeadless says what a headless Service makes useless, as the API server
// warns.
func (c *checker) checkHeadless(s *service) {
	sp := &s.Value.Spec
	if !s.headless {
		return
	}
	ignored := func(field string) {
		c.onService(s, diag.IgnoredByHeadless, path{"spec", field}, "%s has no effect on a headless Service", field)
	}
	if sp.LoadBalancerIP != "" {
		ignored("loadBalancerIP")
	}
	if len(sp.ExternalIPs) > 0 {
		ignored("externalIPs")
	}
	if sp.SessionAffinity != corev1.ServiceAffinityNone {
		ignored("sessionAffinity")
	}
}
