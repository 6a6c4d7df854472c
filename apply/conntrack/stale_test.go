package conntrack_test

import (
	"net/netip"
	"testing"

	"svcc/apply/conntrack"
	"svcc/ir"
)

const (
	podA, podB = "10.128.0.5:5353", "10.129.0.6:5353"
	elsewhere  = "198.51.100.9:30053" // a destination that packets only pass by
)

// tcp is the same service port over TCP.
func tcp(s *ir.ServicePort) *ir.ServicePort {
	c := *s
	c.Protocol = ir.TCP
	return &c
}

// only keeps the frontends of one kind.
func only(s *ir.ServicePort, k ir.FrontendKind) *ir.ServicePort {
	c := *s
	c.Frontends = nil
	for _, f := range s.Frontends {
		if f.Kind == k {
			c.Frontends = append(c.Frontends, f)
		}
	}
	return &c
}

func notLocalhost(p *ir.Program) *ir.Program {
	p.Options.LocalhostNodePorts = false
	return p
}

// answering lets node ports answer at an address and in a range only.
func answering(p *ir.Program, addr, prefix string) *ir.Program {
	p.Options.NodePorts = ir.NodePortAddresses{
		Addrs:    []netip.Addr{netip.MustParseAddr(addr)},
		Prefixes: []netip.Prefix{netip.MustParsePrefix(prefix)},
	}
	return p
}

func TestStale(t *testing.T) {
	served := program(dns(podB))
	for _, c := range []struct {
		name     string
		old, new *ir.Program
		dst      string // of a flow
		from     string // what answers it
		want     bool
	}{
		// An endpoint was replaced (kubernetes#19029), whatever the address (kubernetes#42473).
		{"cluster IP, replaced endpoint", nil, served, "10.96.0.10:53", podA, true},
		{"external IP, replaced endpoint", nil, served, "203.0.113.1:53", podA, true},
		{"load balancer, replaced endpoint", nil, served, "203.0.113.2:53", podA, true},
		{"node port, replaced endpoint", nil, served, "10.1.0.1:30053", podA, true},
		{"cluster IP, serving endpoint", nil, served, "10.96.0.10:53", podB, false},
		{"external IP, serving endpoint", nil, served, "203.0.113.1:53", podB, false},
		{"load balancer, serving endpoint", nil, served, "203.0.113.2:53", podB, false},
		{"node port, serving endpoint", nil, served, "10.1.0.1:30053", podB, false},
		{"serving endpoint, other port", nil, served, "10.96.0.10:53", "10.129.0.6:53", true},
		{"began before the Service", nil, served, "10.96.0.10:53", "10.96.0.10:53", true},
		{"node port, began before the Service", nil, served, "10.1.0.1:30053", "10.1.0.1:30053", true},

		// Nothing serves (kubernetes#139628).
		{"no endpoints", nil, program(dns()), "10.96.0.10:53", podA, true},
		{"no endpoints, load balancer", nil, program(dns()), "203.0.113.2:53", podA, true},
		{"no endpoints, node port", nil, program(dns()), "10.1.0.1:30053", podA, true},

		// The Service is gone (kubernetes#141371).
		{"gone", program(dns(podA)), program(), "10.96.0.10:53", podA, true},
		{"gone, with its family", program(dns(podA)), nil, "10.96.0.10:53", podA, true},
		{"gone, node port", program(dns(podA)), program(), "10.1.0.1:30053", podA, true},
		{"gone, to an earlier endpoint", program(dns(podA)), program(), "10.96.0.10:53", podB, true},
		{"gone, never translated", program(dns(podA)), program(), "203.0.113.1:53", "203.0.113.1:53", false},
		{"gone, node port, of a program on the node", program(dns(podA)), program(), "10.1.0.1:30053", "10.1.0.1:30053", false},
		{"gone, passing by its node port", program(dns(podA)), program(), elsewhere, elsewhere, false},
		{"node port taken away", program(dns(podA)), program(only(dns(podA), ir.ClusterIP)), "10.1.0.1:30053", podA, true},
		{"node port taken away, cluster IP kept", program(dns(podA)), program(only(dns(podA), ir.ClusterIP)), "10.96.0.10:53", podA, false},
		{"UDP became TCP", program(dns(podA)), program(tcp(dns(podA))), "10.96.0.10:53", podA, true},
		{"new owner of the address wins", program(dns(podA)), served, "10.96.0.10:53", podB, false},

		// Node ports answer at some addresses only.
		{"passing by a node port", nil, served, elsewhere, elsewhere, false},
		{"passing by, translated by somebody else", nil, served, elsewhere, "172.17.0.2:53", false},
		{"localhost node port", nil, served, "127.0.0.1:30053", podA, true},
		{"no localhost node ports", nil, notLocalhost(program(dns(podB))), "127.0.0.1:30053", podA, false},
		{"listed address", nil, answering(program(dns(podB)), "10.1.0.1", "10.77.0.0/16"), "10.1.0.1:30053", podA, true},
		{"address in a listed range", nil, answering(program(dns(podB)), "10.1.0.1", "10.9.0.0/16"), "10.9.0.1:30053", podA, true},
		{"foreign address in a listed range", nil, answering(program(dns(podB)), "10.1.0.1", "10.9.0.0/16"), "10.9.0.2:30053", podA, false},
		{"own address that is not listed", nil, answering(program(dns(podB)), "10.1.0.1", "10.77.0.0/16"), "10.9.0.1:30053", podA, false},
		{"answered there before", program(dns(podB)), answering(program(dns(podB)), "10.1.0.1", "10.77.0.0/16"), "10.9.0.1:30053", podB, true},

		// Never a Service's.
		{"another port of a cluster IP", nil, served, "10.96.0.10:54", podA, false},
		{"another address", program(dns(podA)), served, "10.96.0.11:53", podA, false},
		{"an endpoint directly", nil, served, podA, podA, false},
		{"TCP Services own no UDP flows", program(tcp(dns(podA))), program(tcp(dns(podB))), "10.96.0.10:53", podA, false},
	} {
		e := flow(c.dst, c.from)
		got := conntrack.Stale(of(c.old), of(c.new), nodeAddrs, []conntrack.Entry{e})
		if (len(got) == 1) != c.want {
			t.Errorf("%s: %s: stale %v, want %v", c.name, e, len(got) == 1, c.want)
		}
		for _, p := range []ir.Protocol{ir.TCP, ir.SCTP} {
			e.Protocol = p
			if got := conntrack.Stale(of(c.old), of(c.new), nodeAddrs, []conntrack.Entry{e}); len(got) != 0 {
				t.Errorf("%s: %s is called stale", c.name, e)
			}
		}
	}
}

func TestOtherZonesAreSpared(t *testing.T) {
	e := flow("10.96.0.10:53", podA)
	e.Zone = 5
	if got := conntrack.Stale(nil, of(program(dns(podB))), nodeAddrs, []conntrack.Entry{e}); len(got) != 0 {
		t.Errorf("%v: no rule of a Service made an entry of zone 5", got)
	}
}

// Two service ports that claim one destination: what either serves is healthy.
func TestSharedDestination(t *testing.T) {
	other := dns(podA)
	other.Name = "other"
	both := of(program(dns(podB), other))
	entries := []conntrack.Entry{flow("10.96.0.10:53", podA), flow("10.96.0.10:53", podB), flow("10.96.0.10:53", "10.128.0.9:53")}
	if got := conntrack.Stale(nil, both, nodeAddrs, entries); len(got) != 1 || got[0] != entries[2] {
		t.Errorf("stale: %v, want only the last", got)
	}
}

func TestFamiliesAreApart(t *testing.T) {
	six := &ir.Program{Family: ir.IPv6, Options: ir.Options{NodePorts: ir.NodePortAddresses{All: true}}, Services: []*ir.ServicePort{{
		PortName:  ir.PortName{Namespace: "demo", Name: "dns", Protocol: ir.UDP},
		Frontends: []ir.Frontend{{Kind: ir.ClusterIP, Addr: netip.MustParseAddr("fd00:96::a"), Port: 53}, {Kind: ir.NodePort, Port: 30053}},
		Serving:   []netip.AddrPort{at("[fd00:128::5]:53")},
	}}}
	entries := []conntrack.Entry{
		flow("[fd00:96::a]:53", "[fd00:128::5]:53"), flow("[fd00:96::a]:53", "[fd00:128::6]:53"),
		flow("[fd00:1::1]:30053", "[fd00:128::6]:53"), flow("[::1]:30053", "[::1]:30053"),
		flow("10.1.0.1:30053", podA), flow("10.96.0.10:53", podA),
	}
	got := conntrack.Stale(nil, of(six, program(only(dns(podA), ir.ClusterIP))), nodeAddrs, entries)
	if len(got) != 2 || got[0] != entries[1] || got[1] != entries[2] {
		t.Errorf("stale: %v, want the second and the third", got)
	}
}
