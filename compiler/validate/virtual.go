package validate

import (
	"net/netip"
	"slices"
	"strings"

	"svcc/compiler/manifest"
	"svcc/ir"
	"svcc/ir/diag"
)

// checkScheduler holds the annotation that chooses a Service's scheduler to the
// names that the kernel has.
func (c *checker) checkScheduler(s *service) {
	name, given := s.Value.Annotations[manifest.SchedulerAnnotation]
	if given && s.compiled && !slices.Contains(ir.Schedulers, name) {
		c.onService(s, diag.BadScheduler, path{"metadata", "annotations", manifest.SchedulerAnnotation}, "scheduler %q does not exist", name).
			Hint = "one of " + strings.Join(ir.Schedulers, ", ")
	}
}

// The blocks of IPv4 addresses that are no single host's (RFC 1122, section
// 3.2.1.3; RFC 1112, section 4).
var (
	thisNetwork = netip.MustParsePrefix("0.0.0.0/8")
	reserved    = netip.MustParsePrefix("240.0.0.0/4")
	broadcast   = netip.MustParseAddr("255.255.255.255")
)

// unbearable names the kind of address that no node may bear for a Service where
// nodes do, beside those that special names; "" for all others.
func (c *checker) unbearable(a netip.Addr) string {
	if kind := c.undeliverable(a); kind != "" || !c.o.Facts.BindsAddresses || !reserved.Contains(a) {
		return kind
	}
	return "a reserved"
}

// undeliverable names the kind of address that IPVS takes for no destination,
// beside those that special names: the kernel knows it to be no single host's.
func (c *checker) undeliverable(a netip.Addr) string {
	switch {
	case !c.o.Facts.BindsAddresses:
		return ""
	case a.IsMulticast():
		return "a multicast"
	case a == broadcast:
		return "the broadcast"
	case thisNetwork.Contains(a):
		return "a this-network"
	}
	return ""
}

// checkTaken refuses, where nodes bear service addresses themselves, an address
// that another node has: this node would cut itself off from that one
// (kubernetes#127410, #104679).
func (c *checker) checkTaken(s *service, a netip.Addr, at path) {
	who, isNode := c.nodes[a]
	if c.o.Facts.BindsAddresses && isNode && s.compiled && who != "this node" && who != c.here {
		c.onService(s, diag.TakesNodeAddress, at, "%s is an address of %s, and this node would bear it as well", a, who).
			Hint = "use another address, or a mode that does not bind addresses"
	}
}

// checkPersistence reports a memory that IPVS keeps longer than asked for: while
// connections close, for about two minutes (kubernetes#89358).
func (c *checker) checkPersistence(s *service) {
	const closing = 120
	config := s.Value.Spec.SessionAffinityConfig
	if c.o.Facts.RemembersPerEndpoint || !s.compiled || config == nil || config.ClientIP == nil || config.ClientIP.TimeoutSeconds == nil {
		return
	}
	if n := *config.ClientIP.TimeoutSeconds; n < closing {
		c.onService(s, diag.PersistenceLonger, path{"spec", "sessionAffinityConfig", "clientIP", "timeoutSeconds"},
			"IPVS remembers a client for about %d seconds at least, not %d", closing, n)
	}
}

// checkARP notes that every node of the cluster says that it has the address, where
// nodes bear external addresses and nothing keeps them from answering for them.
func (c *checker) checkARP(s *service) {
	if !c.o.Facts.BindsAddresses || c.o.StrictARP || !s.compiled || c.faulty[s.key] || !s.serves(ir.IPv4) {
		return
	}
	for _, x := range []struct {
		field claimField
		addrs []netip.Addr
	}{{externalIPField, s.externalIPs}, {vipField, s.vips}} {
		for i, a := range x.addrs {
			if _, isNode := c.nodes[a]; a.Is4() && !isNode {
				c.onService(s, diag.AnswersARP, claim{s: s, field: x.field, index: i}.at(), "every node answers ARP requests for %s: strictARP is off", a).
					Hint = "set ipvs.strictARP, where something else (MetalLB, kube-vip) says which node has the address"
				return
			}
		}
	}
}
