package conntrack_test

import (
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"svcc/apply"
	"svcc/apply/iptables"
	"svcc/apply/ipvs"
	"svcc/apply/sysctl"
	"svcc/compiler"
	"svcc/emit"
	"svcc/emit/mode"
	"svcc/golden/lab"
	"svcc/ir"
)

// virtualNode is a node in IPVS mode, which is the test's own namespace, and
// beside it a client and pods, each side in another.
type virtualNode struct {
	names
	outside, pods lab.Thread
	target        *ipvs.Target
	// lazy is a kernel before 5.9: a connection whose destination is gone ends
	// with its next packet, not at once.
	lazy bool
}

// side is how the node is tied to another namespace.
type side struct {
	to       lab.Thread
	link     string // the node's end; the other one has a "1" behind it
	address  string // the node's there
	others   []string
	reaching string // what the node reaches by it
}

func (n names) virtualNode(t *testing.T) *virtualNode {
	t.Helper()
	lab.Enter(t)
	v := &virtualNode{names: n, outside: lab.NewThread(t), pods: lab.NewThread(t)}
	gateway, reaching := "10.1.0.2", "10.128.0.0/24"
	if n.family == ir.IPv6 {
		gateway, reaching = "fd00:1::2", "fd00:128::/64"
	}
	must(t, netlink.LinkSetUp(link(t, "lo")))
	connect(t, side{v.outside, "client", n.node, []string{n.client}, n.client + "/" + bits(n.family)})
	connect(t, side{v.pods, "pods", gateway, []string{n.podA, n.podB, n.podC}, reaching})
	// What is nobody's goes to the pods' side, so that it is tracked.
	must(t, netlink.RouteReplace(&netlink.Route{LinkIndex: link(t, "pods").Attrs().Index, Dst: prefix(netip.MustParsePrefix(n.routed)), Gw: net.ParseIP(n.podC), Flags: int(netlink.FLAG_ONLINK)}))
	set(t, "net/ipv4/ip_forward", "1")
	set(t, "net/ipv6/conf/all/forwarding", "1")
	set(t, "net/ipv4/icmp_ratelimit", "0") // each flow is to hear of a refusal
	set(t, "net/ipv6/icmp/ratelimit", "0")
	set(t, "net/ipv4/vs/conntrack", "1")
	rememberFlows(t)
	tools := apply.Exec{}
	v.target = &ipvs.Target{Glue: &iptables.Target{Runner: tools, LockTimeout: 5 * time.Second}, Runner: tools, Kernel: &ipvs.Netlink{}}
	return v
}

func set(t *testing.T, name, value string) {
	t.Helper()
	_, err := sysctl.Set("/", []sysctl.Sysctl{{Name: name, Value: value}})
	must(t, err)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func bits(f ir.Family) string {
	if f == ir.IPv6 {
		return "128"
	}
	return "32"
}

// connect ties a namespace to the calling thread's.
func connect(t *testing.T, s side) {
	t.Helper()
	var there *os.File
	var err error
	s.to.Do(func() { there, err = os.Open("/proc/thread-self/ns/net") })
	must(t, err)
	defer there.Close()
	must(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: s.link}, PeerName: s.link + "1", PeerNamespace: netlink.NsFd(there.Fd())}))
	raise(t, s.link, s.address)
	must(t, netlink.RouteReplace(&netlink.Route{LinkIndex: link(t, s.link).Attrs().Index, Dst: prefix(netip.MustParsePrefix(s.reaching)), Scope: netlink.SCOPE_LINK}))
	s.to.Do(func() {
		raise(t, "lo")
		raise(t, s.link+"1", s.others...)
		err = netlink.RouteReplace(&netlink.Route{LinkIndex: link(t, s.link+"1").Attrs().Index, Gw: net.ParseIP(s.address), Flags: int(netlink.FLAG_ONLINK)})
	})
	must(t, err)
}

// raise sets a link up, with addresses.
func raise(t *testing.T, name string, addresses ...string) {
	t.Helper()
	must(t, netlink.LinkSetUp(link(t, name)))
	for _, a := range addresses {
		ip := netip.MustParseAddr(a)
		must(t, netlink.AddrAdd(link(t, name), &netlink.Addr{IPNet: prefix(netip.PrefixFrom(ip, ip.BitLen())), Flags: unix.IFA_F_NODAD}))
	}
}

// apply brings the node to manifests, and gives their Programs.
func (v *virtualNode) apply(t *testing.T, manifests string) (programs []*ir.Program) {
	t.Helper()
	o := compiler.NewOptions()
	node := "node-a"
	o.Mode, o.Paths, o.Stdin, o.Flags.Node = mode.IPVS, []string{"-"}, strings.NewReader(manifests), &node
	o.LocalAddrs = []netip.Addr{netip.MustParseAddr(v.node)}
	r, err := compiler.Compile(o, nil)
	if err != nil || r.Units == nil {
		t.Fatalf("%v\n%v", err, r.Diagnostics)
	}
	rs, err := r.Ruleset(false)
	must(t, err)
	v.commit(t, rs)
	for _, u := range r.Units {
		programs = append(programs, u.Program)
	}
	return programs
}

// commit does what of a run matters here. A kernel of today that is told only
// afterwards to end such connections does so as older ones do.
func (v *virtualNode) commit(t *testing.T, rs *emit.Ruleset) {
	t.Helper()
	const expire = "net/ipv4/vs/expire_nodest_conn"
	o, err := v.target.Observe(t.Context())
	must(t, err)
	p, err := v.target.Plan(rs, o)
	must(t, err)
	if v.lazy {
		set(t, expire, "0")
	} else {
		set(t, expire, "1")
	}
	must(t, v.target.Commit(t.Context(), p))
	set(t, expire, "1")
}

// flows opens a flow to each kind of destination, from outside and from the
// node itself.
func (v *virtualNode) flows(t *testing.T) (out sockets) {
	t.Helper()
	v.outside.Do(func() { out = v.open(t) })
	c, err := net.Dial("udp", net.JoinHostPort(v.clusterIP, "53"))
	must(t, err)
	t.Cleanup(func() { c.Close() })
	out["cluster IP from the node"] = c
	return out
}

// flow opens one from outside.
func (v *virtualNode) flow(t *testing.T, addr, port string) (c net.Conn) {
	t.Helper()
	v.outside.Do(func() { c = v.dial(t, addr, port) })
	return c
}

// await waits until packets find their way: in IPv6, links need a moment.
func (v *virtualNode) await(t *testing.T) {
	t.Helper()
	for _, to := range []string{v.podA, v.podB, v.podC} {
		c := v.flow(t, to, "5353")
		for deadline := time.Now().Add(10 * time.Minute); ask(c) == "-"; {
			if time.Now().After(deadline) {
				t.Fatalf("no way to %s", to)
			}
		}
	}
}
