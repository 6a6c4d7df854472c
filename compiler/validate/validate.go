package validate

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"svcc/compiler/manifest"
	"svcc/ir"
	"svcc/ir/diag"
)

// Options are what Check knows beside the manifests. The zero value is a
// cluster with the API server's defaults.
type Options struct {
	Families       []ir.Family    // families asked for; nil: those that occur
	NodeIPs        []netip.Addr   // of the node compiled for, beside those of Node objects
	ServiceCIDRs   []netip.Prefix // beside those of ServiceCIDR objects
	NodePortRange  PortRange      // of the API server; zero: 30000-32767
	EphemeralRange PortRange      // of the nodes' kernels; zero: 32768-60999
	Node           string         // the name of the node compiled for; "" for none
	Pods           []netip.Prefix // ranges of the cluster's pods, one a family; nil: not known
	Facts          *ir.Facts      // of the mode that nodes are in; nil for rules alone
	StrictARP      bool           // where nodes bear service addresses: they do not answer ARP requests for them
	Strict         bool           // what diag.List.Strict makes an error makes its Service faulty
}

// PortRange is an inclusive range of ports.
type PortRange struct{ First, Last int32 }

func (r PortRange) has(port int32) bool { return r.First <= port && port <= r.Last }

// Result is what Check found.
type Result struct {
	Diagnostics diag.List       // sorted
	Faulty      map[string]bool // "namespace/name" of the Services that must not be compiled
}

// Check validates every object as the API server would and checks objects
// against each other. The set must have been through Defaults. Addresses that
// rules are made of are rewritten in place to their canonical text, and an ip
// of a load balancer status that cannot be read becomes "", so that the
// entries after it keep their index. Nothing depends on the order of objects.
func Check(set *manifest.Set, o Options) Result {
	o.Facts = cmp.Or(o.Facts, &ir.RuleFacts)
	c := newChecker(set, o)
	for _, s := range c.services {
		c.checkService(s)
	}
	for _, x := range c.slices {
		c.checkSlice(x)
	}
	for _, s := range c.services {
		if s.compiled {
			c.checkMeeting(s)
		}
	}
	c.checkClaims()
	c.checkNodePorts()
	c.checkLocal()
	maps.Copy(c.faulty, c.strict)
	c.list.Templates()
	return Result{c.list.Sort(), c.faulty}
}

// checker is one run of Check.
type checker struct {
	set    *manifest.Set
	o      Options
	list   diag.List
	faulty map[string]bool
	strict map[string]bool // faulty only because of Options.Strict
	names  names

	services []*service // by name
	byKey    map[string]*service
	slices   []*slice // by name
	cidrs    []netip.Prefix
	nodes    map[netip.Addr]string // who has the address: "node node-a"
	here     string                // this node, as nodes names it

	nodeAddrs []netip.Addr // of nodes, sorted
}

func newChecker(set *manifest.Set, o Options) *checker {
	setIfZero(&o.NodePortRange, PortRange{30000, 32767})
	setIfZero(&o.EphemeralRange, PortRange{32768, 60999})
	c := &checker{set: set, o: o, faulty: map[string]bool{}, strict: map[string]bool{}, byKey: map[string]*service{}, nodes: map[netip.Addr]string{}}
	c.addServices()
	c.addSlices()
	c.addServiceCIDRs()
	c.addNodes()
	return c
}

func (c *checker) addServices() {
	for _, o := range c.set.Services {
		c.services = append(c.services, newService(o))
	}
	slices.SortStableFunc(c.services, func(a, b *service) int { return compareObjects(a.key, b.key, a.Pos, b.Pos) })
	// Of a Service defined twice, which loading reports, the first counts.
	c.services = slices.CompactFunc(c.services, func(a, b *service) bool { return a.key == b.key })
	for _, s := range c.services {
		c.byKey[s.key] = s
		if s.Broken {
			c.faulty[s.key] = true
		}
	}
}

func (c *checker) addSlices() {
	var headless []*slice
	for _, o := range c.set.Slices {
		if _, labelled := o.Value.Labels[corev1.IsHeadlessService]; labelled {
			headless = append(headless, newSlice(o))
		} else {
			c.slices = append(c.slices, newSlice(o))
		}
	}
	slices.SortStableFunc(headless, func(a, b *slice) int { return compareObjects(a.key, b.key, a.Pos, b.Pos) })
	for _, x := range headless {
		if s := c.byKey[x.owner]; s != nil {
			s.left = append(s.left, x)
		}
	}
	slices.SortStableFunc(c.slices, func(a, b *slice) int { return compareObjects(a.key, b.key, a.Pos, b.Pos) })
	for _, x := range c.slices {
		if x.Broken && x.owner != "" {
			c.faulty[x.owner] = true
		}
		x.service = c.byKey[x.owner]
		if x.service != nil && x.family != 0 {
			x.service.slices = append(x.service.slices, x)
		}
	}
}

// asked says whether rules of the family are wanted at all.
func (c *checker) asked(f ir.Family) bool {
	return len(c.o.Families) == 0 || slices.Contains(c.o.Families, f)
}
