package validate

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"svcc/compiler/addr"
	"svcc/ir"
	"svcc/ir/diag"
)

// addServiceCIDRs collects the service ranges of flags and objects.
func (c *checker) addServiceCIDRs() {
	c.cidrs = append(c.cidrs, c.o.ServiceCIDRs...)
	for _, o := range c.set.ServiceCIDRs {
		cidrs := o.Value.Spec.CIDRs
		object := c.object("ServiceCIDR", "", o.Value.Name)
		for i := range cidrs {
			p, canonical, err := addr.ParsePrefix(cidrs[i])
			if err != nil {
				c.list.Add(diag.BadServiceCIDR, o.At("spec", "cidrs", i), object, "%v", err)
				continue
			}
			if !canonical {
				c.list.Add(diag.NotCanonical, o.At("spec", "cidrs", i), object, "%q is read as %s", cidrs[i], p).Hint = "write " + p.String()
				cidrs[i] = p.String()
			}
			c.cidrs = append(c.cidrs, p)
		}
	}
}

// addNodes collects the addresses of nodes and checks their names.
func (c *checker) addNodes() {
	for _, a := range c.o.NodeIPs {
		c.nodes[a.Unmap()] = "this node"
	}
	c.here = c.object("Node", "", strings.ToLower(strings.TrimSpace(c.o.Node)))
	for _, o := range c.set.Nodes {
		name := c.object("Node", "", o.Value.Name)
		if !c.names.isSubdomain(o.Value.Name) {
			c.list.Add(diag.BadName, o.At("metadata", "name"), name, "node name %q is not a DNS name", o.Value.Name).Hint = subdomainRule
		}
		for _, na := range o.Value.Status.Addresses {
			c.addNodeAddress(name, na)
		}
	}
	c.nodeAddrs = slices.SortedFunc(maps.Keys(c.nodes), netip.Addr.Compare)
}

// addNodeAddress keeps, of several nodes with one address, the first name: the
// order of reading must not show.
func (c *checker) addNodeAddress(who string, na corev1.NodeAddress) {
	if na.Type != corev1.NodeInternalIP && na.Type != corev1.NodeExternalIP {
		return
	}
	a, _, err := addr.Parse(na.Address)
	if err != nil || a == (netip.Addr{}) {
		return
	}
	if known, twice := c.nodes[a]; !twice || who < known {
		c.nodes[a] = who
	}
}

// ownAddress is the address of the node compiled for in a family, as far as it is
// known: by flags, else by its Node object.
func (c *checker) ownAddress(f ir.Family) netip.Addr {
	for _, a := range c.o.NodeIPs {
		if f.Of(a.Unmap()) {
			return a.Unmap()
		}
	}
	for _, o := range c.set.Nodes {
		if c.object("Node", "", o.Value.Name) != c.here {
			continue
		}
		for _, x := range o.Value.Status.Addresses {
			if a, _, err := addr.Parse(x.Address); err == nil && x.Type == corev1.NodeInternalIP && f.Of(a) {
				return a
			}
		}
	}
	return netip.Addr{}
}
