package validate

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"svcc/compiler/addr"
	"svcc/compiler/manifest"
	"svcc/ir"
	"svcc/ir/diag"
)

// The API's limits of an EndpointSlice.
const (
	maxEndpoints = 1000
	maxAddresses = 100
	maxPorts     = 20000
	maxHints     = 8
)

// slice is an EndpointSlice with what was read of its fields.
type slice struct {
	*manifest.Object[*discoveryv1.EndpointSlice]
	key     string // "namespace/name"
	owner   string // "namespace/name" of the Service; "" without a label
	service *service
	family  ir.Family    // 0: none
	addrs   []netip.Addr // of each endpoint the first address; zero if unusable
	hints   hintTally
}

func newSlice(o *manifest.Object[*discoveryv1.EndpointSlice]) *slice {
	x := &slice{Object: o, key: o.Value.Namespace + "/" + o.Value.Name}
	if name := o.Value.Labels[discoveryv1.LabelServiceName]; name != "" {
		x.owner = o.Value.Namespace + "/" + name
	}
	switch o.Value.AddressType {
	case discoveryv1.AddressTypeIPv4:
		x.family = ir.IPv4
	case discoveryv1.AddressTypeIPv6:
		x.family = ir.IPv6
	}
	return x
}

// checkSlice checks the fields of one EndpointSlice, unless its Service makes
// no rules.
func (c *checker) checkSlice(x *slice) {
	label := path{"metadata", "labels", discoveryv1.LabelServiceName}
	switch {
	case x.owner == "":
		c.onSlice(x, diag.SliceWithoutLabel, label, "the EndpointSlice has no label %s and is ignored", discoveryv1.LabelServiceName)
		return
	case x.service != nil && x.service.ignored():
		return
	case x.Value.AddressType == discoveryv1.AddressTypeFQDN:
		c.onSlice(x, diag.SliceOfNames, path{"addressType"}, "an EndpointSlice of host names is ignored")
		return
	case x.service == nil:
		c.onSlice(x, diag.SliceWithoutService, label, "Service %q is not in the input", x.owner)
	}
	if x.family == 0 {
		c.onSlice(x, diag.BadAddressType, path{"addressType"}, "addressType %q is none of IPv4, IPv6, FQDN", x.Value.AddressType)
		return
	}
	c.checkSliceName(x)
	c.checkSlicePorts(x)
	c.checkEndpoints(x)
}

func (c *checker) checkSliceName(x *slice) {
	m := &x.Value.ObjectMeta
	if !c.names.isLabel(m.Namespace) {
		c.onSlice(x, diag.BadName, path{"metadata", "namespace"}, "namespace %q is not a DNS label", m.Namespace).Hint = labelRule
	}
	if !c.names.isSubdomain(m.Name) {
		c.onSlice(x, diag.BadName, path{"metadata", "name"}, "slice name %q is not a DNS name", m.Name).Hint = subdomainRule
	}
}

// tooMany reports a list above the API's limit.
func (c *checker) tooMany(x *slice, what string, n, limit int, at ...any) bool {
	if n > limit {
		c.onSlice(x, diag.TooMany, at, "%d %s; at most %d are possible", n, what, limit)
	}
	return n > limit
}

func (c *checker) checkSlicePorts(x *slice) {
	ports := x.Value.Ports
	if len(ports) == 0 && len(x.Value.Endpoints) > 0 && x.service != nil {
		c.onSlice(x, diag.SliceWithoutPorts, path{"ports"}, "the EndpointSlice has endpoints but no ports: none of them is used")
	}
	if len(ports) > maxPorts {
		c.tooMany(x, "ports", len(ports), maxPorts, "ports")
		return
	}
	for i := range ports {
		c.checkSlicePort(x, i)
	}
	if len(ports) > 1 {
		c.checkSlicePortNames(x)
	}
}

func (c *checker) checkSlicePort(x *slice, i int) {
	name, protocol, number := slicePort(&x.Value.Ports[i])
	if name != "" && !c.names.isLabel(name) {
		c.onSlice(x, diag.BadPortName, path{"ports", i, "name"}, "port name %q is not a DNS label", name).Hint = labelRule
	}
	if !validProtocol(protocol) {
		c.onSlice(x, diag.BadProtocol, path{"ports", i, "protocol"}, "protocol %q is unknown", protocol).Hint = "use TCP, UDP or SCTP, in capitals"
	}
	switch {
	case number == 0:
		c.onSlice(x, diag.SlicePortNotSet, path{"ports", i}, "slice port %q has no number and is ignored", name)
	case !validPort(number):
		c.onSlice(x, diag.BadPort, path{"ports", i, "port"}, "port %d is not within 1 to 65535", number)
	}
}

// slicePort gives a port's fields; what Defaults would have set where it has
// not run.
func slicePort(p *discoveryv1.EndpointPort) (name string, protocol corev1.Protocol, number int32) {
	protocol = corev1.ProtocolTCP
	if p.Name != nil {
		name = *p.Name
	}
	if p.Protocol != nil {
		protocol = *p.Protocol
	}
	if p.Port != nil {
		number = *p.Port
	}
	return name, protocol, number
}

func (c *checker) checkSlicePortNames(x *slice) {
	seen := make(map[string]int, len(x.Value.Ports))
	for i := range x.Value.Ports {
		name, _, _ := slicePort(&x.Value.Ports[i])
		first, twice := seen[name]
		if !twice {
			seen[name] = i
			continue
		}
		pos := x.At("ports", first, "name")
		c.onSlice(x, diag.DuplicatePortName, path{"ports", i, "name"}, "two ports have the name %q", name).
			Related = related(pos, "the first is here")
	}
}

// checkEndpoints is where nearly all the input is: it allocates nothing but
// addrs unless there is something to report.
func (c *checker) checkEndpoints(x *slice) {
	eps := x.Value.Endpoints
	if len(eps) > maxEndpoints {
		c.tooMany(x, "endpoints", len(eps), maxEndpoints, "endpoints")
		return
	}
	x.addrs = make([]netip.Addr, len(eps))
	inside := 0
	for i := range eps {
		x.addrs[i] = c.endpointAddress(x, i)
		c.checkEndpointNode(x, i)
		c.checkEndpointHints(x, i)
		x.hints.add(&eps[i], i)
		if c.inServiceCIDR(x.addrs[i]) {
			if inside++; inside == 1 {
				c.onSlice(x, diag.EndpointInServiceCIDR, path{"endpoints", i, "addresses", 0}, "endpoint %s is inside a service CIDR", x.addrs[i])
			}
		}
	}
}

func (c *checker) endpointAddress(x *slice, i int) netip.Addr {
	texts := x.Value.Endpoints[i].Addresses
	switch n := len(texts); {
	case n == 0:
		c.onSlice(x, diag.NoAddress, path{"endpoints", i}, "the endpoint has no address")
		return netip.Addr{}
	case n > maxAddresses:
		c.tooMany(x, "addresses", n, maxAddresses, "endpoints", i, "addresses")
	case n > 1:
		c.onSlice(x, diag.SeveralAddresses, path{"endpoints", i, "addresses"}, "of %d addresses only the first, %q, is used", n, texts[0]).Hint = "make one endpoint of each"
	}
	a, canonical, err := addr.Parse(texts[0])
	if err == nil && canonical && x.family.Of(a) && special(a) == "" && c.undeliverable(a) == "" && !a.IsMulticast() {
		return a
	}
	return c.faultyEndpoint(x, i, a, err)
}

// faultyEndpoint says what is wrong with an endpoint's address, and gives it
// back if it is only written in an unusual way.
func (c *checker) faultyEndpoint(x *slice, i int, a netip.Addr, err error) netip.Addr {
	text, at := &x.Value.Endpoints[i].Addresses[0], path{"endpoints", i, "addresses", 0}
	switch {
	case err != nil:
		c.onSlice(x, diag.BadEndpointAddress, at, "endpoint address %v", err)
	case !x.family.Of(a):
		c.onSlice(x, diag.BadEndpointAddress, at, "endpoint address %s is not %s, as addressType says", a, familyName(x.family))
	case special(a) != "":
		c.onSlice(x, diag.ForbiddenEndpoint, at, "endpoint address %s is %s address", a, special(a)).Hint = "remove the endpoint (CVE-2021-25737)"
	case c.undeliverable(a) != "":
		c.onSlice(x, diag.ForbiddenEndpoint, at, "endpoint address %s is %s address, which IPVS does not take", a, c.undeliverable(a)).Hint = "remove the endpoint"
	case *text == a.String():
		c.onSlice(x, diag.MulticastEndpoint, at, "endpoint address %s is a multicast address", a)
		return a
	default:
		c.onSlice(x, diag.NotCanonical, at, "%q is read as %s", *text, a).Hint = "write " + a.String()
		*text = a.String()
		return a
	}
	return netip.Addr{}
}

func (c *checker) checkEndpointNode(x *slice, i int) {
	if n := x.Value.Endpoints[i].NodeName; n != nil && !c.names.isSubdomain(*n) {
		c.onSlice(x, diag.BadNodeName, path{"endpoints", i, "nodeName"}, "node name %q is not a DNS name", *n).Hint = subdomainRule
	}
}

func (c *checker) checkEndpointHints(x *slice, i int) {
	h := x.Value.Endpoints[i].Hints
	if h == nil {
		return
	}
	if len(h.ForZones) > maxHints {
		c.tooMany(x, "zone hints", len(h.ForZones), maxHints, "endpoints", i, "hints", "forZones")
	}
	if len(h.ForNodes) > maxHints {
		c.tooMany(x, "node hints", len(h.ForNodes), maxHints, "endpoints", i, "hints", "forNodes")
	}
	for k, n := range h.ForNodes {
		if !c.names.isSubdomain(n.Name) {
			c.onSlice(x, diag.BadNodeName, path{"endpoints", i, "hints", "forNodes", k, "name"}, "node name %q is not a DNS name", n.Name).Hint = subdomainRule
		}
	}
}
