package ipvs

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"svcc/apply"
	"svcc/emit"
	spec "svcc/emit/ipvs"
	"svcc/golden/lab"
	"svcc/golden/uml"
	"svcc/ir"
)

func TestMain(m *testing.M) { uml.Main(m) }

// One kernel for all: a boot costs more than most of these.
func TestKernel(t *testing.T) {
	uml.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			name string
			test func(t *testing.T)
		}{
			{"ruleset", testRuleset}, {"engine", testEngine}, {"faults", testFaults}, {"schedulers", testSchedulers},
			{"drain", testDrain}, {"settings", testSettings}, {"modes", testModes}, {"namespaces", testNamespaces},
			{"others' uses", testOthersUses}, {"others' sets", testOthersSets}, {"others' link", testOthersLink}, {"broadcast", testBroadcast},
			{"lost proof", testLostProof}, {"missing scheduler", testMissingScheduler}, {"addresses", testAddresses},
		} {
			t.Run(c.name, func(t *testing.T) {
				begun := time.Now()
				lab.Enter(t)
				c.test(t)
				t.Logf("%.1f s", time.Since(begun).Seconds())
			})
		}
	})
}

func testRuleset(t *testing.T) {
	foreigners(t)
	before := dumpAll(t)
	m := newMachine()
	tg := m.target()
	for i, w := range []*world{oldWorld().change(persistent), newerWorld()} {
		rs := w.ruleset()
		bring(t, tg, rs)
		if diff := cmp.Diff(section(rs, foreignServers), servers(t)); diff != "" {
			t.Errorf("%d: ruleset against ipvsadm (-want +got):\n%s", i, diff)
		}
		m.writes = nil
		bring(t, tg, rs)
		if len(m.writes) > 0 {
			t.Errorf("%d: a second time it wrote %q", i, m.writes)
		}
	}
	if out := tool(t, "", "ip", "-o", "-6", "addr", "show", "dev", spec.Link); strings.Contains(out, "tentative") || !strings.Contains(out, "fd00::1/128") {
		t.Errorf("IPv6 addresses: %s", out)
	}
	bring(t, tg, nil)
	if diff := cmp.Diff(before, dumpAll(t)); diff != "" {
		t.Errorf("after removal, against before (-want +got):\n%s", diff)
	}
}

func persistent(v *spec.Server) { v.Timeout = 10800 }

// The whole protocol: a fault ends in the old state, and the next run works.
func testEngine(t *testing.T) {
	m := newMachine()
	e := m.engine(t)
	ctx := context.Background()
	if r, err := e.Apply(ctx, oldWorld().ruleset()); err != nil || !r.Wrote {
		t.Fatalf("%+v, %v", r, err)
	}
	before := dumpAll(t)
	m.writes = nil
	if r, err := e.Apply(ctx, oldWorld().ruleset()); err != nil || r.Wrote || len(m.writes) > 0 {
		t.Fatalf("a second time: %+v, %q, %v", r, m.writes, err)
	}
	m.failAt = 7
	if _, err := e.Apply(ctx, newerWorld().ruleset()); err == nil || !strings.Contains(err.Error(), "the old state is back") {
		t.Fatalf("with a fault: %v", err)
	}
	if diff := cmp.Diff(before, dumpAll(t)); diff != "" {
		t.Errorf("undone (-want +got):\n%s", diff)
	}
	m.failAt = 0
	if _, err := e.Apply(ctx, newerWorld().ruleset()); err != nil {
		t.Fatal(err)
	}
	if s, err := e.Status(ctx); err != nil || s.Condition != apply.AsRecorded {
		t.Fatalf("%+v, %v", s, err)
	}
	if _, err := e.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, dumpAll(t)); diff != "" {
		t.Errorf("rolled back (-want +got):\n%s", diff)
	}
	if _, err := e.Remove(ctx); err != nil || servers(t) != "" {
		t.Fatalf("removed: %v\n%s", err, servers(t))
	}
}

// The settings that virtual servers need are set with them, and put back.
func testSettings(t *testing.T) {
	get := func() (out string) {
		for _, name := range []string{"ip_forward", "vs/conntrack", "vs/expire_nodest_conn", "vs/expire_quiescent_template", "conf/all/arp_ignore", "conf/all/arp_announce"} {
			text, err := os.ReadFile("/proc/sys/net/ipv4/" + name)
			if err != nil {
				t.Fatal(err)
			}
			out += strings.TrimSpace(string(text))
		}
		return out
	}
	rs := oldWorld().ruleset()
	rs.Programs = []string{programText(t, &ir.Virtual{Scheduler: "rr", StrictARP: true, TCPTimeout: 77})}
	e := newMachine().engine(t)
	for _, c := range []struct {
		what, want string
		do         func() (apply.Report, error)
	}{
		{"before", "000000", func() (apply.Report, error) { return apply.Report{}, nil }},
		{"applied", "111112", func() (apply.Report, error) { return e.Apply(t.Context(), rs) }},
		{"removed", "100000", func() (apply.Report, error) { return e.Remove(t.Context()) }},
	} {
		if _, err := c.do(); err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		if got := get(); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
	if out := tool(t, "", "ipvsadm", "-L", "--timeout"); !strings.Contains(out, ": 77 120 300") {
		t.Errorf("timeouts: %s", out)
	}
}

// Each call of netlink or a tool fails in turn; then the old state is put back.
func testFaults(t *testing.T) {
	foreigners(t)
	m := newMachine()
	tg := m.target()
	from := newWorld().cluster("tcp 10.96.0.1:80 rr", "10.0.0.1:80", "10.0.0.2:80").cluster("udp 10.96.0.2:53 rr", "10.0.0.1:53")
	to := newWorld().cluster("tcp 10.96.0.1:80 sh", "10.0.0.2:80", "10.0.0.3:80").nodePort("udp 192.0.2.1:30053 rr", "10.0.0.1:53").ruleset()
	to.Sections = slices.DeleteFunc(to.Sections, func(s emit.Section) bool { return s.Family == ir.IPv6 })
	bring(t, tg, from.ruleset())
	before, text := dumpQuickly(t), dumpAll(t)
	old, p := plans(t, tg, to)
	for at := 1; ; at++ {
		m.writes, m.failAt, m.late = nil, at, at%3 == 0
		err := tg.Commit(context.Background(), p)
		m.failAt = 0
		if err == nil {
			if at < 12 {
				t.Errorf("only %d writes: not much of a test", at-1)
			}
			break
		}
		if err := tg.Restore(context.Background(), old); err != nil {
			t.Fatalf("write %d: %v", at, err)
		}
		if diff := cmp.Diff(before, dumpQuickly(t)); diff != "" {
			t.Fatalf("restored after write %d, %s (-want +got):\n%s", at, m.writes[at-1], diff)
		}
	}
	if err := tg.Restore(context.Background(), old); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(text, dumpAll(t)); diff != "" {
		t.Fatalf("restored in the end (-want +got):\n%s", diff)
	}
}

// Every scheduler loads, with its flags.
func testSchedulers(t *testing.T) {
	w := newWorld()
	for i, s := range ir.Schedulers {
		w.cluster(fmt.Sprintf("tcp 10.96.1.%d:80 %s", i, s), "10.0.0.1:80", "10.0.0.2:80")
		w.change(func(v *spec.Server) {
			if s == "mh" || s == "sh" {
				v.Flags = []string{s + "-fallback", s + "-port"}
			}
		})
	}
	m := newMachine()
	bring(t, m.target(), w.ruleset())
	if diff := cmp.Diff(section(w.ruleset(), ""), servers(t)); diff != "" {
		t.Error(diff)
	}
	// From one to the next in place.
	first := w.states[0].Servers[0].Scheduler
	for i, v := range w.states[0].Servers[:len(ir.Schedulers)-1] {
		v.Scheduler, v.Flags = w.states[0].Servers[i+1].Scheduler, nil
		if v.Scheduler == "ovf" { // as many connections as its weight says
			for j := range v.Destinations {
				v.Destinations[j].Weight = 100
			}
		}
	}
	w.change(func(v *spec.Server) { v.Scheduler, v.Flags = first, nil })
	m.writes = nil
	bring(t, m.target(), w.ruleset())
	if diff := cmp.Diff(section(w.ruleset(), ""), servers(t)); diff != "" {
		t.Error(diff)
	}
	if len(m.writes) != len(ir.Schedulers)+2 {
		t.Errorf("%q", m.writes)
	}
	balance(t, w)
}

// balance sends connections from one client to each virtual server of a world,
// which have the same two destinations.
func balance(t *testing.T, w *world) {
	tool(t, "link set lo up\naddress add 10.0.0.1/32 dev lo\naddress add 10.0.0.2/32 dev lo\n", "ip", "-batch", "-")
	first, second := serve(t, "10.0.0.1:80"), serve(t, "10.0.0.2:80")
	const connections = 8
	for _, v := range w.states[0].Servers {
		a, b := len(first), len(second)
		for range connections {
			dial(t, v.Address.String())
		}
		a, b = len(first)-a, len(second)-b
		right := false
		switch v.Scheduler {
		case "rr", "wrr", "lc", "wlc", "sed", "nq": // the connections stay, and count
			right = a == connections/2 && b == connections/2
		case "sh", "dh", "mh", "fo", "ovf": // one client, one address; the first until it is full
			right = a == connections && b == 0 || a == 0 && b == connections
		case "lblc", "lblcr": // the same one, unless that has much more to do than another
			right = a+b == connections
		}
		if !right {
			t.Errorf("%s: %d and %d connections", v.Scheduler, a, b)
		}
	}
}

// From iptables mode and back: each time what was is gone.
func testModes(t *testing.T) {
	m := newMachine()
	tg := m.target()
	bring(t, tg, iptablesRuleset())
	before := dumpAll(t)
	bring(t, tg, oldWorld().ruleset())
	bring(t, tg, iptablesRuleset())
	if diff := cmp.Diff(before, dumpAll(t)); diff != "" {
		t.Errorf("there and back (-want +got):\n%s", diff)
	}
}

// Virtual servers of another namespace do not get in the way of reading ours.
func testNamespaces(t *testing.T) {
	const servers = 200 // more than the kernel prints in one go
	k := &Netlink{}
	defer k.Close()
	box, err := k.Sandbox()
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	box.Do(func(k Kernel) {
		tool(t, "link set lo up\n", "ip", "-batch", "-")
		err = fill(k, servers)
	})
	tool(t, "link set lo up\n", "ip", "-batch", "-")
	if err := errors.Join(err, fill(k, servers)); err != nil {
		t.Fatal(err)
	}
	all, err := k.Servers()
	if err != nil || len(all) != servers {
		t.Fatalf("%d virtual servers, %v", len(all), err)
	}
	for i, s := range all {
		if len(s.Destinations) != 1 || s.Destinations[0].Weight != i {
			t.Fatalf("%s has %v", s.Key, s.Destinations)
		}
	}
	text, err := os.ReadFile(serversFile)
	if err != nil {
		t.Fatal(err)
	}
	list, err := readDestinations(text)
	if err != nil {
		t.Error(err)
	}
	if len(list) == servers {
		t.Log("the kernel's file has all virtual servers: on this kernel the test shows nothing")
	}
}

// fill makes virtual servers, each with its number for the weight of a destination.
func fill(k Kernel, servers int) error {
	for i := range servers {
		s := Server{Key: spec.Key{Protocol: ir.TCP, Address: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 96, 0, byte(i)}), 80)}, Scheduler: "rr"}
		d := Destination{Address: netip.MustParseAddrPort("127.0.0.1:80"), Weight: i}
		if err := errors.Join(k.Do(Op{Verb: AddServer, Server: s}), k.Do(Op{Verb: AddDestination, Server: s, Destination: d})); err != nil {
			return err
		}
	}
	return nil
}

// Last of all, as it takes a module away.
func testMissingScheduler(t *testing.T) {
	if err := unix.DeleteModule("ip_vs_ovf", 0); err != nil {
		t.Fatal(err)
	}
	m := newMachine()
	tg := m.target()
	_, p := plans(t, tg, newWorld().cluster("tcp 10.96.0.1:80 ovf", "10.0.0.1:80").ruleset())
	_, err := tg.Check(context.Background(), p)
	if err == nil || !strings.Contains(err.Error(), "modprobe ip_vs_ovf") {
		t.Error(err)
	}
	if got := dumpAll(t); strings.Contains(got, "KUBE") || strings.Contains(got, "198.51.100.0") {
		t.Errorf("a plan that was refused wrote\n%s", got)
	}
	if _, err := os.Stat(serversFile); err != nil {
		t.Error(err)
	}
	if _, err := (&Netlink{}).Destinations(spec.Key{Protocol: ir.TCP, Address: netip.MustParseAddrPort("10.96.0.1:80")}); err != nil {
		t.Error(err)
	}
}

// Addresses are deleted as somebody added them, with whatever prefix or peer; a
// load balancer's that is link-local is one like any other.
func testAddresses(t *testing.T) {
	tg := newMachine().target()
	rs := newWorld().cluster("tcp 10.96.0.1:80 rr").cluster("tcp 169.254.1.1:80 rr").cluster("tcp [fe80::7]:80 rr").ruleset()
	bring(t, tg, rs)
	tool(t, "", "ip", "link", "set", spec.Link, "up")
	for _, a := range [][]string{{"10.96.0.1/16"}, {"10.9.9.9/24"}, {"10.9.9.8", "peer", "10.9.9.7"}, {"fd00::9/64"}} {
		tool(t, "", append([]string{"ip", "address", "add", "dev", spec.Link}, a...)...)
	}
	bring(t, tg, rs)
	got := strings.Count(tool(t, "", "ip", "-o", "address", "show", "dev", spec.Link), "scope")
	if got != 5 { // the three, the kernel's own, and one of them with two prefixes
		t.Errorf("%d addresses: %s", got, tool(t, "", "ip", "-o", "address", "show", "dev", spec.Link))
	}
	bring(t, tg, nil)
	if out := tool(t, "", "ip", "-o", "link"); strings.Contains(out, spec.Link) {
		t.Errorf("after removal: %s", out)
	}
}
