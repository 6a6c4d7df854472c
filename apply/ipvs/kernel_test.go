package ipvs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"svcc/apply"
	"svcc/apply/iptables"
	statedir "svcc/apply/state"
	"svcc/apply/sums"
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
			{"drain", testDrain}, {"modes", testModes}, {"namespaces", testNamespaces}, {"missing scheduler", testMissingScheduler},
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

// machine is the real kernel and real tools, of which writes can fail.
type machine struct {
	Kernel
	apply.Runner
	writes []string
	failAt int
	late   bool
}

func newMachine() *machine { return &machine{Kernel: &Netlink{}, Runner: apply.Exec{}} }

func (m *machine) target() *Target {
	return &Target{Glue: &iptables.Target{Runner: m, LockTimeout: 5 * time.Second, Kernel: sums.Kernel{}}, Runner: m, Kernel: m}
}

func (m *machine) write(what string, do func() error) error {
	m.writes = append(m.writes, what)
	fails := len(m.writes) == m.failAt
	if fails && !m.late {
		return errInjected
	}
	if err := do(); err != nil || !fails {
		return err
	}
	return errInjected
}

func (m *machine) Do(o Op) error { return m.write(o.String(), func() error { return m.Kernel.Do(o) }) }

func (m *machine) Run(ctx context.Context, in apply.Input) (out []byte, err error) {
	if !slices.Contains(in.Args, "restore") && !strings.HasSuffix(in.Tool, "-restore") || in.Isolated || slices.Contains(in.Args, "--test") {
		return m.Runner.Run(ctx, in)
	}
	err = m.write(in.Tool, func() error { _, err := m.Runner.Run(ctx, in); return err })
	return nil, err
}

func tool(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return string(out)
}

// servers is what ipvsadm says, sorted.
func servers(t *testing.T) string {
	lines := strings.SplitAfter(tool(t, "", "ipvsadm", "-Sn"), "\n")
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// section is a ruleset's for ipvsadm, sorted, and what is added to it.
func section(rs *emit.Ruleset, more string) string {
	lines := strings.SplitAfter(more, "\n")
	for _, s := range rs.Sections {
		if s.Tool == spec.ToolServers {
			lines = append(lines, strings.SplitAfter(string(s.Text), "\n")...)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// dumpAll is all that a namespace holds by its own tools, sorted, without what
// changes by itself: counters, numbers of links, and how sets are hashed.
func dumpAll(t *testing.T) string {
	var lines []string
	for line := range strings.Lines(withoutSeeds(tool(t, "", "sh", "-c", "iptables-save; ip6tables-save; ipset save; ipvsadm -Sn; ip -o addr"))) {
		words := strings.Fields(line)
		if len(words) > 1 && strings.HasSuffix(words[0], ":") {
			words = words[1:]
		}
		if kept := strings.Join(words, " "); !boring(kept) {
			lines = append(lines, kept+"\n")
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// withoutSeeds takes off how sets are hashed.
func withoutSeeds(text string) string { return seed.ReplaceAllString(text, "") }

var seed = regexp.MustCompile(" initval 0x[0-9a-f]+")

// boring are lines of tables that are there or not, and hold nothing.
func boring(line string) bool {
	return strings.HasPrefix(line, "#") || strings.HasPrefix(line, "*") || line == "COMMIT" || strings.Contains(line, " ACCEPT [")
}

// dumpQuickly is the same by netlink, for people to compare but not to read.
func dumpQuickly(t *testing.T) string {
	var b strings.Builder
	for _, f := range families {
		for _, table := range []string{"filter", "nat"} {
			s, err := sums.Kernel{}.Read(f, table, false)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&b, "%s %s %x\n", f, table, s.All)
		}
	}
	b.WriteString(withoutSeeds(tool(t, "", "ipset", "save")))
	k := &Netlink{}
	defer k.Close()
	all, err := k.Servers()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		fmt.Fprintf(&b, "%+v\n", *s)
	}
	there, addresses, err := k.Link()
	fmt.Fprintln(&b, there, addresses, err)
	return b.String()
}

const (
	foreignServers = "-A -t 192.0.2.1:443 -s wlc\n-a -t 192.0.2.1:443 -r 10.9.9.9:443 -g -w 7\n-A -t [fd09::9]:443 -s rr\n"
	foreignSet     = "create cali40all hash:net family inet hashsize 1024 maxelem 1048576 comment\nadd cali40all 10.0.0.0/8 comment \"add KUBE-CLUSTER-IP\"\n"
)

// foreigners are other programs' things in a namespace.
func foreigners(t *testing.T) {
	tool(t, foreignSet, "ipset", "restore")
	tool(t, "link add foreign0 type dummy\naddress add 192.0.2.1/24 dev foreign0\naddress add 10.96.0.3/32 dev foreign0\n", "ip", "-batch", "-")
	tool(t, "*nat\n-A PREROUTING -p tcp --dport 1 -j ACCEPT\nCOMMIT\n", "iptables-restore", "-n")
	tool(t, foreignServers, "ipvsadm", "-R")
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
	e := &apply.Engine{
		Target: m.target(), State: statedir.At(t.TempDir()), Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Options: apply.Options{Mode: "ipvs", Who: "test", LockTimeout: time.Second},
	}
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
	}
	w.change(func(v *spec.Server) { v.Scheduler, v.Flags = first, nil })
	m.writes = nil
	bring(t, m.target(), w.ruleset())
	if diff := cmp.Diff(section(w.ruleset(), ""), servers(t)); diff != "" {
		t.Error(diff)
	}
	if len(m.writes) != len(ir.Schedulers) {
		t.Errorf("%q", m.writes)
	}
}

// A connection that is there outlives its endpoint's Service entry, and a new
// one does not go there.
func testDrain(t *testing.T) {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		t.Fatal(err)
	}
	tool(t, "address add 10.0.0.1/32 dev lo\naddress add 10.0.0.2/32 dev lo\n", "ip", "-batch", "-")
	m := newMachine()
	tg := m.target()
	both := newWorld().cluster("tcp 10.96.0.1:80 rr", "10.0.0.1:8080", "10.0.0.2:8080")
	bring(t, tg, both.ruleset())
	first, second := serve(t, "10.0.0.1:8080"), serve(t, "10.0.0.2:8080")
	a, b := dial(t, "10.96.0.1:80"), dial(t, "10.96.0.1:80")
	if len(first) != 1 || len(second) != 1 {
		t.Fatalf("%d and %d connections, want one each", len(first), len(second))
	}
	one := newWorld().cluster("tcp 10.96.0.1:80 rr", "10.0.0.2:8080").ruleset()
	bring(t, tg, one)
	for _, c := range []net.Conn{a, b} {
		if _, err := c.Write([]byte("x")); err != nil {
			t.Error(err)
		}
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
			t.Errorf("a connection broke: %v", err)
		}
	}
	if n := destinations(t); n != 2 {
		t.Fatalf("%d destinations, want 2: one drains", n)
	}
	for range 2 {
		dial(t, "10.96.0.1:80").Close()
	}
	if len(first) != 1 || len(second) != 3 {
		t.Errorf("%d and %d connections, want 1 and 3", len(first), len(second))
	}
	m.writes = nil
	bring(t, tg, one)
	if len(m.writes) > 0 {
		t.Errorf("while it drains: %q", m.writes)
	}
	// From its next packet on, a connection ends after a second without one.
	if err := m.Kernel.Do(Op{Verb: SetTimeouts, Timeouts: Timeouts{TCP: 1}}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []net.Conn{a, b} {
		c.Write([]byte("x")) //nolint:errcheck // the next lines tell
	}
	_, p := plans(t, tg, one)
	tg.DrainTimeout = 20 * time.Second
	if did, err := tg.Tidy(context.Background(), p); err != nil || len(did) != 1 {
		t.Errorf("%q, %v", did, err)
	}
	if n := destinations(t); n != 1 {
		t.Errorf("%d destinations, want 1\n%s", n, tool(t, "", "ipvsadm", "-Ln"))
	}
}

func destinations(t *testing.T) int { return strings.Count(servers(t), "-a ") }

// serve accepts connections, counts them and sends back what it gets.
func serve(t *testing.T, address string) chan struct{} {
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	count := make(chan struct{}, 100)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			count <- struct{}{}
			go func() { io.Copy(c, c); c.Close() }() //nolint:errcheck // it ends with the connection
		}
	}()
	return count
}

// dial connects, and makes sure that the other end has noticed.
func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	d := net.Dialer{Timeout: 3 * time.Second}
	c, err := d.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if _, err := c.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return c
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
	fill := func(k Kernel) error {
		for i := range servers {
			s := Server{Key: spec.Key{Protocol: ir.TCP, Address: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 96, 0, byte(i)}), 80)}, Scheduler: "rr"}
			d := Destination{Address: netip.MustParseAddrPort("127.0.0.1:80"), Weight: i}
			if err := errors.Join(k.Do(Op{Verb: AddServer, Server: s}), k.Do(Op{Verb: AddDestination, Server: s, Destination: d})); err != nil {
				return err
			}
		}
		return nil
	}
	k := &Netlink{}
	defer k.Close()
	box, err := k.Sandbox()
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	box.Do(func(k Kernel) {
		tool(t, "link set lo up\n", "ip", "-batch", "-")
		err = fill(k)
	})
	tool(t, "link set lo up\n", "ip", "-batch", "-")
	if err := errors.Join(err, fill(k)); err != nil {
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
	if list, err := readDestinations(text); err != nil || len(list) == servers {
		t.Logf("the kernel's file has all %d virtual servers: this test shows nothing (%v)", len(list), err)
	}
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

// mixed has real tools, and virtual servers that are not real.
type mixed struct {
	*node
	apply.Exec
}

func (m mixed) Run(ctx context.Context, in apply.Input) ([]byte, error) { return m.Exec.Run(ctx, in) }

// box is a real namespace with virtual servers that are not real.
type mixedBox struct{ sandbox }

func (b mixedBox) Do(f func(Kernel)) { b.sandbox.Do(func(Kernel) { f(newNode()) }) }

func (m mixed) Sandbox() (Sandbox, error) {
	s, err := (&Netlink{}).Sandbox()
	if err != nil {
		return nil, err
	}
	return mixedBox{s.(sandbox)}, nil
}

// Sets and glue of both flavours on this machine, where iptables-nft lets go of
// sets only after a while.
func TestFlavours(t *testing.T) {
	lab.Need(t, lab.Tools("ipset"))
	for _, flavour := range lab.Flavours {
		t.Run(string(flavour), func(t *testing.T) {
			lab.Enter(t)
			m := mixed{node: newNode()}
			tg := &Target{
				Glue:   &iptables.Target{Runner: m, LockTimeout: 5 * time.Second, Command: iptables.Flavour(string(flavour))},
				Runner: m, Kernel: m,
			}
			for range 3 {
				bring(t, tg, oldWorld().ruleset())
				bring(t, tg, newerWorld().ruleset())
				bring(t, tg, nil)
			}
			if out := tool(t, "", "ipset", "list", "-n"); out != "" {
				t.Errorf("left: %s", out)
			}
		})
	}
}
