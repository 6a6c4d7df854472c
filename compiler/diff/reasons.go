package diff

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"svcc/ir"
)

// equal says that two service ports promise the same, wherever they are
// written.
func equal(a, b *ir.ServicePort) bool {
	return a.PortName == b.PortName && a.InternalPolicy == b.InternalPolicy && a.ExternalPolicy == b.ExternalPolicy &&
		a.Usable == b.Usable && a.AffinitySeconds == b.AffinitySeconds && a.NodeAllowed == b.NodeAllowed &&
		a.HealthCheckNodePort == b.HealthCheckNodePort && a.Scheduler == b.Scheduler && slices.Equal(a.Frontends, b.Frontends) &&
		slices.Equal(a.Cluster, b.Cluster) && slices.Equal(a.Local, b.Local) &&
		slices.Equal(a.Serving, b.Serving) && slices.Equal(a.SourceRanges, b.SourceRanges)
}

func sameOptions(a, b *ir.Options) bool {
	return a.MasqueradeMark == b.MasqueradeMark && a.MasqueradeAll == b.MasqueradeAll && a.LocalhostNodePorts == b.LocalhostNodePorts &&
		a.DropInvalid == b.DropInvalid && a.Pods == b.Pods && a.NodePorts.All == b.NodePorts.All &&
		slices.Equal(a.NodePorts.Addrs, b.NodePorts.Addrs) && slices.Equal(a.NodePorts.Prefixes, b.NodePorts.Prefixes) &&
		sameVirtual(a.Virtual, b.Virtual)
}

// sameVirtual compares what packets can tell of the choices for virtual servers.
func sameVirtual(a, b *ir.Virtual) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.HairpinLocal == b.HairpinLocal && slices.Equal(a.Own, b.Own)
}

// modesDiffer says that the two sides are for modes that treat packets otherwise.
func modesDiffer(a, b *ir.Program) bool { return a.Options.Facts() != b.Options.Facts() }

// reasons collects differences.
type reasons []Reason

// value adds a change of something that there is one of.
func (r *reasons) value(what string, before, after any) {
	if before != after {
		*r = append(*r, Reason{What: what, Kind: Changed, Before: fmt.Sprint(before), After: fmt.Sprint(after)})
	}
}

// state adds a change of one of several; "" is where it is not there.
func (r *reasons) state(what, subject, before, after string) {
	k := Changed
	switch {
	case before == after:
		return
	case before == "":
		k = Added
	case after == "":
		k = Removed
	}
	*r = append(*r, Reason{What: what, Kind: k, Subject: subject, Before: before, After: after})
}

// nodeReasons are differences of the node and of choices for all of it.
func nodeReasons(before, after *ir.Program) []Reason {
	var r reasons
	a, b := &before.Options, &after.Options
	r.value("node", orNone(before.Node.Name), orNone(after.Node.Name))
	r.value("node address", orNone(addrText(before.Node.IP)), orNone(addrText(after.Node.IP)))
	r.value("zone", orNone(before.Node.Zone), orNone(after.Node.Zone))
	r.value("pods", a.Pods.String(), b.Pods.String())
	r.value("masquerade all", yes(a.MasqueradeAll), yes(b.MasqueradeAll))
	r.value("masquerade mark", fmt.Sprintf("%#x", a.MasqueradeMark), fmt.Sprintf("%#x", b.MasqueradeMark))
	r.value("node ports at", a.NodePorts.String(), b.NodePorts.String())
	r.value("localhost node ports", yes(a.LocalhostNodePorts), yes(b.LocalhostNodePorts))
	r.value("drop invalid", yes(a.DropInvalid), yes(b.DropInvalid))
	r.value("mode", a.Facts().Decider, b.Facts().Decider)
	if a.Virtual != nil && b.Virtual != nil {
		r.virtual(a.Virtual, b.Virtual)
	}
	return r
}

// virtual adds differences of the choices for virtual servers.
func (r *reasons) virtual(a, b *ir.Virtual) {
	r.value("scheduler", a.Scheduler, b.Scheduler)
	r.value("own addresses", list(a.Own), list(b.Own))
	r.value("remote endpoints as their own clients", yes(!a.HairpinLocal), yes(!b.HairpinLocal))
	r.value("virtual servers left alone", list(a.Exclude), list(b.Exclude))
	r.value("strict ARP", yes(a.StrictARP), yes(b.StrictARP))
	r.value("TCP timeout", seconds(a.TCPTimeout), seconds(b.TCPTimeout))
	r.value("TCP FIN timeout", seconds(a.TCPFinTimeout), seconds(b.TCPFinTimeout))
	r.value("UDP timeout", seconds(a.UDPTimeout), seconds(b.UDPTimeout))
}

func list[T fmt.Stringer](items []T) string {
	var out []string
	for _, x := range items {
		out = append(out, x.String())
	}
	return orNone(strings.Join(out, " "))
}

func addrText(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// reasons tells why a service port differs; none if it does not.
func (p pair) reasons() []Reason {
	switch {
	case p.old == nil:
		return []Reason{{What: "service", Kind: Added}}
	case p.new == nil:
		return []Reason{{What: "service", Kind: Removed}}
	case equal(p.old, p.new):
		return nil
	}
	var r reasons
	a, b := p.old, p.new
	r.value("port name", a.Display(), b.Display())
	p.frontends(&r)
	r.value("internal policy", a.InternalPolicy, b.InternalPolicy)
	r.value("external policy", a.ExternalPolicy, b.ExternalPolicy)
	p.ranges(&r)
	r.value("scheduler", schedulerOf(a), schedulerOf(b))
	r.value("affinity", seconds(a.AffinitySeconds), seconds(b.AffinitySeconds))
	r.value("health-check port", orNone(port(a.HealthCheckNodePort)), orNone(port(b.HealthCheckNodePort)))
	p.endpoints(&r)
	r.value("any usable endpoint", yes(a.Usable), yes(b.Usable))
	if len(r) == 0 {
		r = reasons{{What: "order", Kind: Changed}}
	}
	return r
}

func schedulerOf(s *ir.ServicePort) string {
	if s.Scheduler == "" {
		return "the node's"
	}
	return s.Scheduler
}

func seconds(n int) string {
	if n == 0 {
		return "none"
	}
	return fmt.Sprintf("%d s", n)
}

func port(n uint16) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// present is the state of what is there or not.
const present = "present"

func (p pair) frontends(r *reasons) {
	key := func(f ir.Frontend) string { return f.Kind.String() + " " + f.Destination() }
	sides(r, "frontend", keyed(p.old.Frontends, key), keyed(p.new.Frontends, key))
}

func (p pair) ranges(r *reasons) {
	sides(r, "source range", keyed(p.old.SourceRanges, netip.Prefix.String), keyed(p.new.SourceRanges, netip.Prefix.String))
	r.value("node may be source", yes(p.old.NodeAllowed), yes(p.new.NodeAllowed))
}

// states are the states of several things by name, in the order of names.
type states struct {
	names []string
	of    map[string]string
}

func keyed[T any](list []T, key func(T) string) states {
	s := states{of: make(map[string]string, len(list))}
	for _, x := range list {
		s.set(key(x), present)
	}
	return s
}

func (s *states) set(name, state string) {
	if s.of[name] == "" {
		s.names = append(s.names, name)
	}
	s.of[name] = state
}

// sides adds what differs between two sets of states, sorted by name.
func sides(r *reasons, what string, before, after states) {
	names := append(slices.Clone(before.names), after.names...)
	slices.Sort(names)
	for _, n := range slices.Compact(names) {
		r.state(what, n, before.of[n], after.of[n])
	}
}

func (p pair) endpoints(r *reasons) {
	sides(r, "endpoint", endpointStates(p.old), endpointStates(p.new))
}

// drained is the state of an endpoint that known flows may keep, and new ones
// do not reach: it is terminating, or others are nearer, or not for this policy.
const drained = "serving, not chosen"

// endpointStates tells of each endpoint where it is and who chooses it.
func endpointStates(s *ir.ServicePort) states {
	out := states{of: map[string]string{}}
	for _, a := range s.Serving {
		out.set(a.String(), drained)
	}
	local := s.InternalPolicy == ir.Local || s.ExternalPolicy == ir.Local
	in := map[ir.Endpoint]int{}
	for _, e := range s.Cluster {
		in[e]++
	}
	for _, e := range s.Local {
		in[e] += 2
	}
	for _, e := range s.Reachable() {
		state := "elsewhere"
		switch {
		case e.Local && in[e] == 2:
			state = "on this node, for policy local only"
		case e.Local && in[e] == 1 && local:
			state = "on this node, for policy cluster only"
		case e.Local:
			state = "on this node"
		}
		if out.of[e.String()] == "" {
			state += ", not serving known flows"
		}
		out.set(e.String(), state)
	}
	return out
}
