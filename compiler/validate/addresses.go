package validate

import (
	"cmp"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"svcc/compiler/addr"
	"svcc/ir"
	"svcc/ir/diag"
)

// address reads an address of a Service's spec and makes its text canonical.
// It reports and returns the zero Addr where no rule may be made of it.
func (c *checker) address(s *service, text *string, at path) netip.Addr {
	a, canonical, err := addr.Parse(*text)
	if err != nil {
		c.onService(s, diag.BadAddress, at, "%v", err)
		return netip.Addr{}
	}
	if kind := cmp.Or(special(a), c.unbearable(a)); kind != "" {
		c.onService(s, diag.SpecialAddress, at, "%s is %s address", a, kind)
		return netip.Addr{}
	}
	if a.IsMulticast() && s.compiled {
		c.onService(s, diag.MulticastAddress, at, "%s is a multicast address", a)
	}
	if !canonical {
		c.onService(s, diag.NotCanonical, at, "%q is read as %s", *text, a).Hint = "write " + a.String()
		*text = a.String()
	}
	return a
}

// special names the kind of address that the API server lets no Service and no
// endpoint have; "" for all others. Of multicast addresses it refuses those of one
// link (224.0.0.0/24, ff02::/16).
func special(a netip.Addr) string {
	switch {
	case a.IsUnspecified():
		return "the unspecified"
	case a.IsLoopback():
		return "a loopback"
	case a.IsLinkLocalUnicast():
		return "a link-local"
	case a.IsLinkLocalMulticast():
		return "a link-local multicast"
	}
	return ""
}

func (c *checker) checkExternalIPs(s *service) {
	ips := s.Value.Spec.ExternalIPs
	if len(ips) > 0 && s.compiled {
		c.onService(s, diag.ExternalIPsDeprecated, path{"spec", "externalIPs"}, "externalIPs are deprecated: they let a Service capture traffic to any address")
	}
	for i := range ips {
		at := path{"spec", "externalIPs", i}
		a := c.address(s, &ips[i], at)
		s.externalIPs = append(s.externalIPs, a)
		c.checkServed(s, a, at)
		c.checkTaken(s, a, at)
		if who, isNode := c.nodes[a]; isNode && s.compiled {
			c.onService(s, diag.ExternalIPIsNode, at, "external IP %s is an address of %s", a, who)
		}
	}
}

// checkServed reports an address that has no rules because the Service does
// not exist in its family.
func (c *checker) checkServed(s *service, a netip.Addr, at path) {
	if !a.IsValid() || !s.compiled || c.faulty[s.key] {
		return
	}
	if f := ir.FamilyOf(a); c.asked(f) && !s.serves(f) {
		c.onService(s, diag.FamilyNotServed, at, "no rules for %s: the Service has no %s cluster IP", a, familyName(f))
	}
}

func (c *checker) checkIngress(s *service) {
	sp, ingress := &s.Value.Spec, s.Value.Status.LoadBalancer.Ingress
	if sp.Type != corev1.ServiceTypeLoadBalancer {
		if len(ingress) > 0 && validType(sp.Type) {
			c.onService(s, diag.BadIngress, path{"status", "loadBalancer", "ingress"}, "a Service of type %q has load balancer addresses", sp.Type).Hint = "remove the status, or use type LoadBalancer"
		}
		return
	}
	for i := range ingress {
		s.vips = append(s.vips, c.vip(s, i))
	}
	c.adviseVIPs(s)
}

// vip reads one entry of the status; the zero Addr for one without rules.
func (c *checker) vip(s *service, i int) netip.Addr {
	in := &s.Value.Status.LoadBalancer.Ingress[i]
	if !c.checkIPMode(s, i) || in.IP == "" {
		return netip.Addr{}
	}
	at := path{"status", "loadBalancer", "ingress", i, "ip"}
	a, canonical, err := addr.Parse(in.IP)
	if err != nil {
		c.onService(s, diag.IngressNotAddress, at, "%v; this load balancer address is left out", err)
		in.IP, in.IPMode = "", nil
		return netip.Addr{}
	}
	if !canonical {
		c.onService(s, diag.NotCanonical, at, "%q is read as %s", in.IP, a).Hint = "write " + a.String()
		in.IP = a.String()
	}
	if in.IPMode != nil && *in.IPMode != corev1.LoadBalancerIPModeVIP {
		return netip.Addr{}
	}
	c.checkSpecialVIP(s, a, at)
	c.checkServed(s, a, at)
	c.checkTaken(s, a, at)
	if who, isNode := c.nodes[a]; isNode && s.compiled {
		c.onService(s, diag.VIPIsNode, at, "load balancer address %s is an address of %s", a, who)
	}
	return a
}

// checkSpecialVIP reports addresses that may stand in a status, which nobody checks,
// and are no load balancer's. Where nodes bear service addresses themselves they
// would be cut off from what is there, so that it is an error.
func (c *checker) checkSpecialVIP(s *service, a netip.Addr, at path) {
	kind := special(a)
	switch {
	case a.IsLinkLocalUnicast():
		kind = ""
	case a.IsMulticast():
		kind = "a multicast"
	}
	switch kind = cmp.Or(kind, c.unbearable(a)); {
	case kind == "" || !s.compiled:
	case c.o.Facts.BindsAddresses:
		c.onService(s, diag.SpecialAddress, at, "load balancer address %s is %s address, and this node would bear it", a, kind).
			Hint = "take it out of the status, or use a mode that does not bind addresses"
	default:
		c.onService(s, diag.SpecialVIP, at, "load balancer address %s is %s address", a, kind)
	}
}

func (c *checker) checkIPMode(s *service, i int) bool {
	in := &s.Value.Status.LoadBalancer.Ingress[i]
	at := path{"status", "loadBalancer", "ingress", i, "ipMode"}
	switch {
	case in.IPMode == nil:
		return true
	case *in.IPMode != corev1.LoadBalancerIPModeVIP && *in.IPMode != corev1.LoadBalancerIPModeProxy:
		c.onService(s, diag.BadIngress, at, "ipMode %q is neither VIP nor Proxy", *in.IPMode)
	case in.IP == "":
		c.onService(s, diag.BadIngress, at, "ipMode is set without an ip")
	default:
		return true
	}
	return false
}

func (c *checker) adviseVIPs(s *service) {
	ingress := s.Value.Status.LoadBalancer.Ingress
	switch {
	case !s.compiled:
	case len(ingress) == 0:
		c.onService(s, diag.NoLoadBalancerAddress, path{"spec", "type"}, "no load balancer address is known").Hint = "take the status from kubectl get service -o yaml"
	case !slices.ContainsFunc(s.vips, netip.Addr.IsValid) && !slices.ContainsFunc(ingress, unusable):
		c.onService(s, diag.NoVIP, path{"status", "loadBalancer", "ingress"}, "no load balancer address is served by the node: all are host names or have ipMode Proxy")
	}
}

// unusable finds an entry that was emptied because its ip cannot be read.
func unusable(in corev1.LoadBalancerIngress) bool { return in.IP == "" && in.Hostname == "" }
