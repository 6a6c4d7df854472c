package conntrack_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"svcc/apply/conntrack"
	"svcc/compiler"
	"svcc/golden/lab"
	"svcc/ir"
)

// require asks for root.
func require(t *testing.T) {
	t.Helper()
	lab.Need(t, lab.Root())
}

// enter puts the test's thread, which ends with it, into a network namespace of
// its own, where all the world's addresses are.
func (n names) enter(t *testing.T) {
	t.Helper()
	require(t)
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "v0"}, PeerName: "v1"}))
	for _, name := range []string{"lo", "v0", "v1"} {
		must(netlink.LinkSetUp(link(t, name)))
	}
	for _, a := range []string{n.node, n.client, n.podA, n.podB, n.podC} {
		ip := netip.MustParseAddr(a)
		addr := &netlink.Addr{IPNet: prefix(netip.PrefixFrom(ip, ip.BitLen())), Flags: unix.IFA_F_NODAD}
		must(netlink.AddrAdd(link(t, "lo"), addr))
	}
	rememberFlows(t)
	n.awaitLocal(t)
	must(netlink.RouteReplace(&netlink.Route{LinkIndex: link(t, "v0").Attrs().Index, Dst: prefix(netip.MustParsePrefix(n.routed)), Scope: netlink.SCOPE_LINK}))
}

// rememberFlows keeps what the table says of UDP flows beyond the half minute after
// which the kernel forgets them: a test on a slow machine takes longer.
func rememberFlows(t *testing.T) {
	t.Helper()
	set(t, "net/netfilter/nf_conntrack_udp_timeout", "86400")
	set(t, "net/netfilter/nf_conntrack_udp_timeout_stream", "86400")
}

// awaitLocal waits for the kernel, which takes IPv6 addresses for its own a
// moment later.
func (n names) awaitLocal(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		local, err := conntrack.Kernel{}.Local(n.family)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(fmt.Sprint(local), n.podC+"/") {
			return
		}
	}
	t.Fatal("the node's addresses do not become local")
}

func link(t *testing.T, name string) netlink.Link {
	t.Helper()
	l, err := netlink.LinkByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func prefix(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// load compiles manifests, loads the rules into the namespace and gives the
// Programs that they were compiled from.
func (n names) load(t *testing.T, flavour, manifests string) (programs []*ir.Program) {
	t.Helper()
	o := compiler.NewOptions()
	node := "node-a"
	o.Paths, o.Stdin, o.Flags.Node = []string{"-"}, strings.NewReader(manifests), &node
	r, err := compiler.Compile(o, nil)
	if err != nil || r.Units == nil {
		t.Fatalf("%v\n%v", err, r.Diagnostics)
	}
	tool := map[ir.Family]string{ir.IPv4: "iptables-", ir.IPv6: "ip6tables-"}
	for _, u := range r.Units {
		programs = append(programs, u.Program)
		n.run(t, string(u.Sections[0].Text), tool[u.Family]+flavour+"-restore")
	}
	return programs
}

func (n names) run(t *testing.T, stdin, tool string) {
	t.Helper()
	cmd := exec.Command(tool)
	cmd.Stdin = strings.NewReader(stdin)
	cmd.Env = append(os.Environ(), "XTABLES_LOCKFILE="+filepath.Join(t.TempDir(), "lock"))
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", tool, err, said)
	}
}

// Exactly one entry is deleted, and none for one that another has replaced.
func TestKernelDeletesOneEntry(t *testing.T) {
	n := worlds[0]
	n.enter(t)
	n.load(t, "nft", n.steadyYAML())
	for range 3 {
		ask(n.dial(t, n.steadyIP, "53")) // nobody is there
	}
	before := entries(t, n.family, n.steadyIP, "53")
	if len(before) != 3 {
		t.Fatalf("%d entries, want 3: %v", len(before), before)
	}
	other := before[1]
	other.ID++
	for _, c := range []struct {
		entry conntrack.Entry
		left  int
	}{{other, 3}, {before[1], 2}, {before[1], 2}} {
		deleted, err := conntrack.Kernel{}.Delete(context.Background(), n.family, []conntrack.Entry{c.entry})
		if left := len(entries(t, n.family, n.steadyIP, "53")); err != nil || left != c.left {
			t.Errorf("%v: %d deleted, %v, %d left, want %d", c.entry, deleted, err, left, c.left)
		}
	}
	if left := fmt.Sprint(entries(t, n.family, n.steadyIP, "53")); strings.Contains(left, before[1].Src.String()) {
		t.Errorf("the wrong entry was deleted: %s", left)
	}
}

// A large table is cleaned in one pass, with deletions in batches.
func TestKernelLargeTable(t *testing.T) {
	n := worlds[0]
	n.enter(t)
	const total = 20_000
	for i := range total {
		from := net.IPv4(10, 128, 0, byte(5+i%2)) // every other is stale
		flow := &netlink.ConntrackFlow{FamilyType: unix.AF_INET, TimeOut: 600,
			Forward: netlink.IPTuple{Protocol: unix.IPPROTO_UDP, SrcIP: net.IPv4(192, 0, 2, 1), SrcPort: uint16(1000 + i), DstIP: net.IPv4(10, 96, 0, 10), DstPort: 53},
			Reverse: netlink.IPTuple{Protocol: unix.IPPROTO_UDP, SrcIP: from, SrcPort: 5353, DstIP: net.IPv4(192, 0, 2, 1), DstPort: uint16(1000 + i)}}
		flow.Forward.SrcIP, flow.Forward.DstIP = flow.Forward.SrcIP.To4(), flow.Forward.DstIP.To4()
		flow.Reverse.SrcIP, flow.Reverse.DstIP = flow.Reverse.SrcIP.To4(), flow.Reverse.DstIP.To4()
		if err := netlink.ConntrackCreate(netlink.ConntrackTable, unix.AF_INET, flow); err != nil {
			t.Fatal(err)
		}
	}
	start := time.Now()
	r, err := conntrack.Clean(context.Background(), conntrack.Kernel{}, nil, of(program(dns("10.128.0.6:5353"))), false)
	took := time.Since(start)
	if err != nil || r.Deleted != total/2 || r.Listed != total {
		t.Errorf("listed %d, deleted %d, %v; want %d and %d", r.Listed, r.Deleted, err, total, total/2)
	}
	if left := len(entries(t, ir.IPv4, "10.96.0.10", "53")); left != total/2 {
		t.Errorf("%d entries are left, want %d", left, total/2)
	}
	t.Logf("%d entries, %d of them deleted, in %v", total, r.Deleted, took)
}
