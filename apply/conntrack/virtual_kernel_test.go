package conntrack_test

import (
	"fmt"
	"net/netip"
	"testing"

	"svcc/apply/conntrack"
	"svcc/golden/lab"
	"svcc/golden/uml"
	"svcc/ir"
)

func TestMain(m *testing.M) { uml.Main(m) }

// IPVS mode: what virtual servers send is tracked as what DNAT sends is, and a
// kernel from 5.9 on forgets what went to a destination when that goes.
func TestKernelVirtual(t *testing.T) {
	uml.Test(t, func(t *testing.T) {
		for _, n := range worlds {
			for _, lazy := range []bool{false, true} {
				if !lab.All() && lazy != (n.family == ir.IPv6) {
					continue
				}
				t.Run(fmt.Sprintf("%s/lazy=%v", n.family, lazy), func(t *testing.T) { n.virtual(t, lazy) })
			}
		}
	})
}

// virtual leads real flows through a Service's life.
func (n names) virtual(t *testing.T, lazy bool) {
	v := n.virtualNode(t)
	v.lazy = lazy
	v.pods.Do(func() {
		echo(t, n.podA, "5353", "A")
		echo(t, n.podB, "5353", "B")
		echo(t, n.podC, "5353", "C")
	})
	echo(t, n.node, "9999", "node")
	v.await(t)
	v.apply(t, n.steadyYAML())
	early := v.flow(t, n.clusterIP, "53")
	ask(early) // before the Service is there

	a := v.apply(t, n.steadyYAML()+n.dnsYAML(n.podA))
	steady, direct := v.flow(t, n.steadyIP, "53"), v.flow(t, n.node, "9999")
	if s, d := hear(steady), hear(direct); s != "C" || d != "node" {
		t.Fatalf("the flows to be left alone are answered by %s and %s", s, d)
	}
	healthy := append(entries(t, n.family, n.steadyIP, "53"), entries(t, n.family, n.node, "9999")...)
	flows := v.flows(t)
	flows.all(t, "at first", "A")
	v.tracked(t, n.podA)
	if got := ask(early); got != "-" {
		t.Fatalf("a flow from before the Service is answered by %s: nothing to clean", got)
	}
	clean(t, nil, a, 1)
	if got := hear(early); got != "A" {
		t.Errorf("a flow from before the Service is answered by %s after cleaning", got)
	}
	flows["early"] = early

	b := v.apply(t, n.steadyYAML()+n.dnsYAML(n.podB))
	v.clean(t, a, b, 6)
	flows.all(t, "endpoint replaced", "B")
	v.tracked(t, n.podB)
	clean(t, a, b, 0)

	if lazy { // what it is good for
		v.apply(t, n.steadyYAML()+n.dnsYAML(n.podA))
		if first, then := ask(flows["node port"]), hear(flows["node port"]); first != "-" || then != "A" {
			t.Errorf("not cleaned: a flow gets %s, then %s, want it to lose a packet", first, then)
		}
		b = v.apply(t, n.steadyYAML()+n.dnsYAML(n.podB))
		flows.lost(t, "endpoint replaced, not cleaned", "A")
		flows.all(t, "endpoint replaced, not cleaned", "B")
	}

	none := v.apply(t, n.steadyYAML()+n.dnsYAML())
	v.clean(t, b, none, 6)
	flows.all(t, "scaled to zero", "refused")

	b = v.apply(t, n.steadyYAML()+n.dnsYAML(n.podB))
	flows = v.flows(t)
	flows.all(t, "back again", "B")
	gone := v.apply(t, n.steadyYAML())
	v.clean(t, b, gone, 5)
	flows.lost(t, "deleted", "B")

	if got := append(entries(t, n.family, n.steadyIP, "53"), entries(t, n.family, n.node, "9999")...); fmt.Sprint(got) != fmt.Sprint(healthy) {
		t.Errorf("healthy flows were touched:\n%v\n%v", healthy, got)
	}
	if s := hear(steady); s != "C" {
		t.Errorf("the steady flow is answered by %s", s)
	}
}

// clean is for flows whose destination is gone. Unless the kernel is a lazy one,
// it forgets them by itself, a moment later: some of them may be left to Clean.
func (v *virtualNode) clean(t *testing.T, old, new []*ir.Program, stale int) {
	t.Helper()
	if v.lazy {
		clean(t, old, new, stale)
		return
	}
	r, err := conntrack.Clean(t.Context(), conntrack.Kernel{}, old, new, false)
	if err != nil || len(r.Stale) > stale {
		t.Errorf("%+v, %v; want %d deleted at most", r, err, stale)
	}
}

// tracked checks what the table says of flows to each kind of destination: an
// answer comes from the endpoint.
func (v *virtualNode) tracked(t *testing.T, endpoint string) {
	t.Helper()
	for _, to := range [][2]string{{v.clusterIP, "53"}, {v.externalIP, "53"}, {v.loadIP, "53"}, {v.node, "30053"}} {
		var answered []conntrack.Entry
		for _, e := range entries(t, v.family, to[0], to[1]) {
			if e.Protocol == ir.UDP && e.ReplySrc == netip.AddrPortFrom(netip.MustParseAddr(endpoint), 5353) {
				answered = append(answered, e)
			}
		}
		if len(answered) == 0 {
			t.Errorf("no entry to %s port %s that %s answers: %v", to[0], to[1], endpoint, entries(t, v.family, to[0], to[1]))
		}
	}
}
