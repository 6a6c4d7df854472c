package validate

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"svcc/ir"
	"svcc/ir/diag"
)

// checkClusterIPs reads the cluster IPs and holds them against each other,
// against the type and against the families.
func (c *checker) checkClusterIPs(s *service) {
	sp := &s.Value.Spec
	bad := func(field, format string, args ...any) {
		c.onService(s, diag.BadClusterIPs, path{"spec", field}, format, args...)
	}
	switch {
	case s.external:
		if sp.ClusterIP != "" || len(sp.ClusterIPs) > 0 {
			bad("clusterIP", "a Service of type ExternalName has a cluster IP")
		}
	case s.headless || slices.Contains(sp.ClusterIPs, corev1.ClusterIPNone):
		c.checkNone(s, bad)
	case sp.ClusterIP == "" && len(sp.ClusterIPs) > 0:
		bad("clusterIPs", "clusterIPs is set, but clusterIP, which must be its first, is not")
	case sp.ClusterIP == "":
		c.onService(s, diag.NoClusterIP, path{"spec"}, "the Service has no cluster IP and is left out").Hint = "set spec.clusterIP, or compile the output of kubectl get -o yaml"
	case len(sp.ClusterIPs) > 2:
		bad("clusterIPs", "there are %d cluster IPs; at most one a family is possible", len(sp.ClusterIPs))
	default:
		c.readClusterIPs(s)
	}
	c.checkFamilyNames(s)
}

func (c *checker) checkNone(s *service, bad func(field, format string, args ...any)) {
	sp := &s.Value.Spec
	if !s.headless || len(sp.ClusterIPs) != 1 || sp.ClusterIPs[0] != corev1.ClusterIPNone {
		bad("clusterIPs", "None is not the only cluster IP")
	}
	if sp.Type == corev1.ServiceTypeNodePort || sp.Type == corev1.ServiceTypeLoadBalancer {
		bad("clusterIP", "a Service of type %s cannot be headless", sp.Type)
	}
}

func (c *checker) readClusterIPs(s *service) {
	sp := &s.Value.Spec
	same := sp.ClusterIP == sp.ClusterIPs[0]
	for i := range sp.ClusterIPs {
		a := c.address(s, &sp.ClusterIPs[i], clusterIPPath(i))
		s.clusterIPs = append(s.clusterIPs, a)
		c.checkClusterIPFamily(s, i, a)
		c.checkInServiceCIDR(s, i, a)
	}
	if same {
		sp.ClusterIP = sp.ClusterIPs[0]
	} else if a := c.address(s, &sp.ClusterIP, path{"spec", "clusterIP"}); a.IsValid() && a != s.clusterIPs[0] {
		c.onService(s, diag.BadClusterIPs, path{"spec", "clusterIPs", 0}, "the first of clusterIPs, %s, is not clusterIP, %s", sp.ClusterIPs[0], a)
	}
	for i := len(sp.ClusterIPs); i < len(sp.IPFamilies); i++ {
		c.missingFamily(s, i)
	}
}

// clusterIPPath is where a cluster IP stands: the first usually as clusterIP
// alone.
func clusterIPPath(i int) path {
	if i == 0 {
		return path{"spec", "clusterIP"}
	}
	return path{"spec", "clusterIPs", i}
}

func (c *checker) checkClusterIPFamily(s *service, i int, a netip.Addr) {
	if !a.IsValid() {
		return
	}
	f := ir.FamilyOf(a)
	if i > 0 && s.clusterIPs[0].IsValid() && ir.FamilyOf(s.clusterIPs[0]) == f {
		c.onService(s, diag.BadClusterIPs, clusterIPPath(i), "both cluster IPs are %s", familyName(f))
		return
	}
	if fams := s.Value.Spec.IPFamilies; i < len(fams) && fams[i] != familyName(f) && validFamily(fams[i]) {
		c.onService(s, diag.BadClusterIPs, clusterIPPath(i), "%s is not %s, as ipFamilies says", a, fams[i])
	}
}

func (c *checker) missingFamily(s *service, i int) {
	name := s.Value.Spec.IPFamilies[i]
	f := ir.IPv4
	if name == corev1.IPv6Protocol {
		f = ir.IPv6
	}
	if validFamily(name) && c.asked(f) && !s.serves(f) {
		c.onService(s, diag.NoClusterIPOfFamily, path{"spec", "ipFamilies", i}, "there is no %s cluster IP: no rules in that family", name).Hint = "add it to spec.clusterIPs"
	}
}

func (c *checker) checkFamilyNames(s *service) {
	fams := s.Value.Spec.IPFamilies
	for i, f := range fams {
		at := path{"spec", "ipFamilies", i}
		switch {
		case !validFamily(f):
			c.onService(s, diag.BadIPFamilies, at, "IP family %q is neither IPv4 nor IPv6", f)
		case slices.Contains(fams[:min(i, 2)], f):
			c.onService(s, diag.BadIPFamilies, at, "IP family %s is named twice", f)
		}
	}
}

func validFamily(f corev1.IPFamily) bool {
	return f == corev1.IPv4Protocol || f == corev1.IPv6Protocol
}

// checkInServiceCIDR reports a cluster IP that no server can have allocated.
func (c *checker) checkInServiceCIDR(s *service, i int, a netip.Addr) {
	if !a.IsValid() || c.inServiceCIDR(a) {
		return
	}
	known := func(p netip.Prefix) bool { return ir.FamilyOf(p.Addr()) == ir.FamilyOf(a) }
	if slices.ContainsFunc(c.cidrs, known) {
		c.onService(s, diag.ClusterIPOutsideCIDR, clusterIPPath(i), "cluster IP %s is in no known service CIDR", a)
	}
}

func (c *checker) inServiceCIDR(a netip.Addr) bool {
	for _, p := range c.cidrs {
		if p.Contains(a) {
			return true
		}
	}
	return false
}
