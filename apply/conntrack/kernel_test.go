package conntrack_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"svcc/apply/conntrack"
	"svcc/ir"
)

// names of addresses in one family's world.
type names struct {
	family                                  ir.Family
	node, client, podA, podB, podC          string
	clusterIP, steadyIP, externalIP, loadIP string
	routed                                  string // where the Services' addresses are sent
}

var worlds = []names{
	{ir.IPv4, "10.1.0.1", "192.0.2.1", "10.128.0.5", "10.128.0.6", "10.128.0.7",
		"10.96.0.10", "10.96.0.11", "203.0.113.1", "203.0.113.2", "0.0.0.0/0"},
	{ir.IPv6, "fd00:1::1", "2001:db8::1", "fd00:128::5", "fd00:128::6", "fd00:128::7",
		"fd00:96::a", "fd00:96::b", "2001:db8:1::1", "2001:db8:1::2", "::/0"},
}

// steadyYAML is a Service that nothing happens to.
func (n names) steadyYAML() string {
	return n.service("steady", n.steadyIP, "") + n.slice("steady", n.podC)
}

// dnsYAML is the Service under test with all kinds of frontends.
func (n names) dnsYAML(endpoints ...string) string {
	rest := fmt.Sprintf("  externalIPs: [%q]\nstatus: {loadBalancer: {ingress: [{ip: %q}]}}\n", n.externalIP, n.loadIP)
	return n.service("dns", n.clusterIP, rest) + n.slice("dns", endpoints...)
}

func (n names) service(name, ip, rest string) string {
	kind, port := "ClusterIP", ""
	if rest != "" {
		kind, port = "LoadBalancer", ", nodePort: 30053"
	}
	return fmt.Sprintf(`---
apiVersion: v1
kind: Service
metadata: {name: %s, namespace: demo}
spec:
  type: %s
  clusterIP: %q
  ports: [{port: 53, protocol: UDP, targetPort: 5353%s}]
%s`, name, kind, ip, port, rest)
}

func (n names) slice(name string, endpoints ...string) string {
	var list []string
	for _, e := range endpoints {
		list = append(list, fmt.Sprintf("{addresses: [%q]}", e))
	}
	kind := "IPv4"
	if n.family == ir.IPv6 {
		kind = "IPv6"
	}
	return fmt.Sprintf(`---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %s-1, namespace: demo, labels: {kubernetes.io/service-name: %s}}
addressType: %s
ports: [{port: 5353, protocol: UDP}]
endpoints: [%s]
`, name, name, kind, strings.Join(list, ", "))
}

// echo answers every datagram with itself and a name, until the test ends.
func echo(t *testing.T, addr, port, name string) {
	t.Helper()
	c, err := net.ListenPacket("udp", net.JoinHostPort(addr, port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	go func() {
		for b := make([]byte, 100); ; {
			size, from, err := c.ReadFrom(b)
			if err != nil {
				return
			}
			c.WriteTo(fmt.Append(b[:size:size], " ", name), from)
		}
	}()
}

// dial opens a flow from the world's client.
func (n names) dial(t *testing.T, addr, port string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.UDPAddr{IP: net.ParseIP(n.client)}}
	c, err := d.Dial("udp", net.JoinHostPort(addr, port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// ask sends one datagram and gives who answers: "-" for nobody, "refused". It is for
// where nobody need answer: on a machine that is slow an answer may be missed.
func ask(c net.Conn) string { return within(c, 300*time.Millisecond) }

// hear is ask where somebody must answer.
func hear(c net.Conn) string { return within(c, 10*time.Minute) }

var asked atomic.Uint32

func within(c net.Conn, patience time.Duration) string {
	b := make([]byte, 100)
	c.SetDeadline(time.Now().Add(patience))
	question := fmt.Sprint(asked.Add(1))
	if _, err := c.Write([]byte(question)); err != nil {
		return "refused"
	}
	for {
		size, err := c.Read(b)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return "-"
		case errors.Is(err, unix.ECONNREFUSED):
			return "refused"
		case err != nil:
			return err.Error()
		}
		// An answer to an earlier question came late.
		if to, who, _ := strings.Cut(string(b[:size]), " "); to == question {
			return who
		}
	}
}

// flows are opened sockets by what they go to.
type sockets map[string]net.Conn

func (n names) open(t *testing.T) sockets {
	return sockets{
		"cluster IP":    n.dial(t, n.clusterIP, "53"),
		"external IP":   n.dial(t, n.externalIP, "53"),
		"load balancer": n.dial(t, n.loadIP, "53"),
		"node port":     n.dial(t, n.node, "30053"),
	}
}

func (s sockets) all(t *testing.T, when, want string) {
	t.Helper()
	for what, c := range s {
		if got := hear(c); got != want {
			t.Errorf("%s: a flow to the %s is answered by %s, want %s", when, what, got, want)
		}
	}
}

// lost checks that an endpoint gets none of the flows any more.
func (s sockets) lost(t *testing.T, when, endpoint string) {
	t.Helper()
	for what, c := range s {
		if got := ask(c); got == endpoint {
			t.Errorf("%s: a flow to the %s still leads to %s", when, what, got)
		}
	}
}

// entries lists the kernel's UDP entries to a destination.
func entries(t *testing.T, f ir.Family, addr, port string) (out []conntrack.Entry) {
	t.Helper()
	want := netip.MustParseAddrPort(net.JoinHostPort(addr, port))
	err := conntrack.Kernel{}.Each(context.Background(), f, func(e conntrack.Entry) {
		if e.Dst == want {
			out = append(out, e)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func clean(t *testing.T, old, new []*ir.Program, want int) {
	t.Helper()
	r, err := conntrack.Clean(context.Background(), conntrack.Kernel{}, old, new, false)
	if err != nil || len(r.Stale) != want || r.Deleted != want {
		t.Errorf("%+v, %v; want %d deleted", r, err, want)
	}
}

func TestKernel(t *testing.T) {
	for _, n := range worlds {
		for _, flavour := range []string{"legacy", "nft"} {
			t.Run(n.family.String()+"/"+flavour, func(t *testing.T) { n.inKernel(t, flavour) })
		}
	}
}

// inKernel leads real flows through a Service's life.
func (n names) inKernel(t *testing.T, flavour string) {
	n.enter(t)
	echo(t, n.podA, "5353", "A")
	echo(t, n.podB, "5353", "B")
	echo(t, n.podC, "5353", "C")
	echo(t, n.node, "9999", "node")
	flows, early := n.open(t), n.dial(t, n.clusterIP, "53")
	n.load(t, flavour, n.steadyYAML()) // without any rules nothing is tracked
	ask(early)                         // before the Service is there

	a := n.load(t, flavour, n.steadyYAML()+n.dnsYAML(n.podA))
	steady, direct := n.dial(t, n.steadyIP, "53"), n.dial(t, n.node, "9999")
	if s, d := hear(steady), hear(direct); s != "C" || d != "node" {
		t.Fatalf("the flows to be left alone are answered by %s and %s", s, d)
	}
	healthy := append(entries(t, n.family, n.steadyIP, "53"), entries(t, n.family, n.node, "9999")...)
	flows.all(t, "at first", "A")
	if got := ask(early); got != "-" {
		t.Fatalf("a flow from before the Service is answered by %s: nothing to clean", got)
	}
	clean(t, nil, a, 1)
	if got := hear(early); got != "A" {
		t.Errorf("a flow from before the Service is answered by %s after cleaning", got)
	}
	flows["early"] = early

	b := n.load(t, flavour, n.steadyYAML()+n.dnsYAML(n.podB))
	flows.all(t, "endpoint replaced, not cleaned", "A")
	clean(t, a, b, 5)
	flows.all(t, "endpoint replaced", "B")
	clean(t, a, b, 0)

	none := n.load(t, flavour, n.steadyYAML()+n.dnsYAML())
	flows.all(t, "scaled to zero, not cleaned", "B")
	clean(t, b, none, 5)
	flows.lost(t, "scaled to zero", "B")
	for _, what := range []string{"cluster IP", "node port"} { // the others refuse strangers only
		if got := hear(flows[what]); got != "refused" {
			t.Errorf("scaled to zero: a flow to the %s gets %s, want it refused", what, got)
		}
	}

	b = n.load(t, flavour, n.steadyYAML()+n.dnsYAML(n.podB))
	flows = n.open(t)
	flows.all(t, "back again", "B")
	gone := n.load(t, flavour, n.steadyYAML())
	flows.all(t, "deleted, not cleaned", "B")
	clean(t, b, gone, 4)
	flows.lost(t, "deleted", "B")

	if got := append(entries(t, n.family, n.steadyIP, "53"), entries(t, n.family, n.node, "9999")...); fmt.Sprint(got) != fmt.Sprint(healthy) {
		t.Errorf("healthy flows were touched:\n%v\n%v", healthy, got)
	}
}
