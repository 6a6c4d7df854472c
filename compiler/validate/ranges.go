package validate

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"svcc/compiler/addr"
	"svcc/ir"
	"svcc/ir/diag"
)

func (c *checker) checkSourceRanges(s *service) {
	sp := &s.Value.Spec
	field := path{"spec", "loadBalancerSourceRanges"}
	switch {
	case len(sp.LoadBalancerSourceRanges) == 0:
		c.checkRangesAnnotation(s)
		return
	case !validType(sp.Type):
		return
	case sp.Type != corev1.ServiceTypeLoadBalancer:
		c.onService(s, diag.SourceRangesMisplaced, field, "loadBalancerSourceRanges is set on a Service of type %q", sp.Type).Hint = "remove it, or use type LoadBalancer"
		return
	}
	ranges := make([]netip.Prefix, 0, len(sp.LoadBalancerSourceRanges))
	for i := range sp.LoadBalancerSourceRanges {
		if p := c.sourceRange(s, i); p.IsValid() {
			ranges = append(ranges, p)
		}
	}
	if !s.compiled || c.faulty[s.key] {
		return
	}
	c.checkOpenFamilies(s, ranges, field)
	c.checkRangeFamilies(s, ranges)
	c.checkShutOut(s, ranges, field)
	if slices.ContainsFunc(sp.Ports, hasNodePort) || len(sp.ExternalIPs) > 0 {
		c.onService(s, diag.RangesNotElsewhere, field, "the source ranges guard the load balancer address only, not node ports or external IPs")
	}
}

func hasNodePort(p corev1.ServicePort) bool { return p.NodePort != 0 }

func (c *checker) checkRangesAnnotation(s *service) {
	key := corev1.AnnotationLoadBalancerSourceRangesKey
	if s.Value.Annotations[key] != "" && s.compiled && s.Value.Spec.Type == corev1.ServiceTypeLoadBalancer {
		c.onService(s, diag.RangesByAnnotation, path{"metadata", "annotations", key}, "source ranges in an annotation have no effect on the node").
			Hint = "move them to spec.loadBalancerSourceRanges"
	}
}

// sourceRange reads one range and makes its text canonical. Blanks around it
// are part of the API, so to trim them is not worth a word (kubernetes#122550).
func (c *checker) sourceRange(s *service, i int) netip.Prefix {
	text, at := &s.Value.Spec.LoadBalancerSourceRanges[i], path{"spec", "loadBalancerSourceRanges", i}
	p, _, err := addr.ParsePrefix(*text)
	if err != nil {
		c.onService(s, diag.BadSourceRange, at, "source range %v", err)
		return netip.Prefix{}
	}
	if trimmed := strings.TrimSpace(*text); trimmed != p.String() {
		c.onService(s, diag.NotCanonical, at, "%q is read as %s", trimmed, p).Hint = "write " + p.String()
	}
	*text = p.String()
	if p.Bits() == 0 && s.compiled {
		c.onService(s, diag.RangesAllowAll, at, "source range %s allows every %s address", p, familyName(ir.FamilyOf(p.Addr())))
	}
	return p
}

// checkOpenFamilies reports load balancer addresses of a family without any
// source range: there, nothing is filtered.
func (c *checker) checkOpenFamilies(s *service, ranges []netip.Prefix, field path) {
	for _, f := range ir.Families {
		i := slices.IndexFunc(s.vips, f.Of)
		ofFamily := func(p netip.Prefix) bool { return f.Of(p.Addr()) }
		if i < 0 || !s.serves(f) || !c.asked(f) || slices.ContainsFunc(ranges, ofFamily) {
			continue
		}
		pos := s.At("status", "loadBalancer", "ingress", i, "ip")
		d := c.onService(s, diag.RangesLeaveFamilyOpen, field, "no source range is %s: everybody reaches %s", familyName(f), s.vips[i])
		d.Hint = "add an " + string(familyName(f)) + " range"
		d.Related = related(pos, "this address is open")
	}
}

// checkRangeFamilies notes ranges of a family in which the Service has no address
// at all: they guard nothing.
func (c *checker) checkRangeFamilies(s *service, ranges []netip.Prefix) {
	for i, p := range ranges {
		if f := ir.FamilyOf(p.Addr()); c.asked(f) && !s.serves(f) {
			c.onService(s, diag.RangeFamilyUnused, path{"spec", "loadBalancerSourceRanges", i}, "source range %s guards nothing: the Service has no %s cluster IP", p, familyName(f))
		}
	}
}

// checkShutOut notes ranges that keep the cluster's own clients off a load
// balancer address: pods and the node are held to them as everybody is.
func (c *checker) checkShutOut(s *service, ranges []netip.Prefix, field path) {
	for _, f := range ir.Families {
		i := slices.IndexFunc(s.vips, f.Of)
		own := slices.DeleteFunc(slices.Clone(ranges), func(p netip.Prefix) bool { return !f.Of(p.Addr()) })
		if i < 0 || !s.serves(f) || !c.asked(f) || len(own) == 0 {
			continue
		}
		var who []string
		if j := slices.IndexFunc(c.o.Pods, func(p netip.Prefix) bool { return f.Of(p.Addr()) }); j >= 0 && !overlapsAny(own, c.o.Pods[j]) {
			who = append(who, "pods ("+c.o.Pods[j].String()+")")
		}
		if a := c.ownAddress(f); a.IsValid() && !overlapsAny(own, netip.PrefixFrom(a, a.BitLen())) {
			who = append(who, "this node ("+a.String()+")")
		}
		if len(who) > 0 {
			c.onService(s, diag.RangesShutOut, field, "the source ranges keep out %s as well: their connections to %s are dropped", strings.Join(who, " and "), s.vips[i])
		}
	}
}

func overlapsAny(list []netip.Prefix, p netip.Prefix) bool {
	return slices.ContainsFunc(list, p.Overlaps)
}
