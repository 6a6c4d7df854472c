package ipvs

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"svcc/apply"
	"svcc/emit"
	spec "svcc/emit/ipvs"
	"svcc/ir"
)

// What is in the kernel after an apply is what the ruleset says, no more than
// what was foreign, and a second apply has nothing to write.
func TestApply(t *testing.T) {
	n := newNode()
	strangers(n)
	tg := target(n)
	for _, w := range []*world{oldWorld(), newerWorld(), oldWorld()} {
		bring(t, tg, w.ruleset())
		text := n.dump()
		for _, s := range w.states {
			for _, section := range s.Sections() {
				if section.Tool != spec.ToolServers {
					continue
				}
				for line := range strings.Lines(string(section.Text)) {
					if !strings.Contains(text, line) {
						t.Errorf("the kernel lacks %q", line)
					}
				}
			}
		}
		if got, want := len(n.servers), len(w.states[0].Servers)+len(w.states[1].Servers)+2; got != want {
			t.Errorf("%d virtual servers, want %d", got, want)
		}
	}
	bring(t, tg, nil)
	fresh := newNode()
	strangers(fresh)
	if diff := cmp.Diff(fresh.dump(), n.dump()); diff != "" {
		t.Errorf("after removal, against before (-want +got):\n%s", diff)
	}
}

// The order of writes, whole: first everything that comes, then what goes.
func TestOrder(t *testing.T) {
	one := func(w *world) *emit.Ruleset { return w.ruleset() }
	old := newWorld().cluster("tcp 10.96.0.1:80 rr", "10.0.0.1:80", "10.0.0.2:80").cluster("udp 10.96.0.2:53 rr", "10.0.0.1:53")
	now := newWorld().cluster("tcp 10.96.0.1:80 rr", "10.0.0.2:80", "10.0.0.3:80").nodePort("udp 192.0.2.1:30053 sh", "10.0.0.1:53")
	n := newNode()
	tg := target(n)
	for _, c := range []struct {
		name string
		to   *emit.Ruleset
		want []string
	}{
		{"first", one(old), []string{
			"ipset restore", "iptables-restore", "ip6tables-restore", "link add kube-ipvs0 type dummy",
			"address replace 10.96.0.1/32 dev kube-ipvs0 nodad", "address replace 10.96.0.2/32 dev kube-ipvs0 nodad",
			"-A -t 10.96.0.1:80 -s rr", "-a -t 10.96.0.1:80 -r 10.0.0.1:80 -m -w 1", "-a -t 10.96.0.1:80 -r 10.0.0.2:80 -m -w 1",
			"-A -u 10.96.0.2:53 -s rr", "-a -u 10.96.0.2:53 -r 10.0.0.1:53 -m -w 1",
		}},
		{"change", one(now), []string{
			"ipset restore",
			"-a -t 10.96.0.1:80 -r 10.0.0.3:80 -m -w 1", "-A -u 192.0.2.1:30053 -s sh", "-a -u 192.0.2.1:30053 -r 10.0.0.1:53 -m -w 1",
			"-e -t 10.96.0.1:80 -r 10.0.0.1:80 -m -w 0", "-d -u 10.96.0.2:53 -r 10.0.0.1:53", "-D -u 10.96.0.2:53",
			"address delete 10.96.0.2/32 dev kube-ipvs0",
			"ipset restore",
			"-d -t 10.96.0.1:80 -r 10.0.0.1:80",
		}},
		{"remove", nil, []string{
			"-d -t 10.96.0.1:80 -r 10.0.0.2:80", "-d -t 10.96.0.1:80 -r 10.0.0.3:80", "-D -t 10.96.0.1:80",
			"-d -u 192.0.2.1:30053 -r 10.0.0.1:53", "-D -u 192.0.2.1:30053",
			"address delete 10.96.0.1/32 dev kube-ipvs0", "link delete kube-ipvs0",
			"iptables-restore", "ip6tables-restore", "ipset restore",
		}},
	} {
		n.writes = nil
		bring(t, tg, c.to)
		if diff := cmp.Diff(c.want, n.writes); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// Each step that a fault may end in: an old and a new state.
var moves = []struct {
	name     string
	from, to func() *emit.Ruleset
}{
	{"first", nil, func() *emit.Ruleset { return oldWorld().ruleset() }},
	{"change", func() *emit.Ruleset { return oldWorld().ruleset() }, func() *emit.Ruleset { return newerWorld().ruleset() }},
	{"remove", func() *emit.Ruleset { return oldWorld().ruleset() }, nil},
	{"from iptables", iptablesRuleset, func() *emit.Ruleset { return oldWorld().ruleset() }},
	{"to iptables", func() *emit.Ruleset { return oldWorld().ruleset() }, iptablesRuleset},
}

func made(f func() *emit.Ruleset) *emit.Ruleset {
	if f == nil {
		return nil
	}
	return f()
}

// A write that fails, whichever it is, leaves what Restore brings back to
// exactly what was before; a second Restore writes nothing. Until then every
// virtual server can be told to be ours or not.
func TestFaults(t *testing.T) {
	for i := range 2 * len(moves) {
		m, late := moves[i/2], i%2 == 1
		t.Run(fmt.Sprintf("%s, late %v", m.name, late), func(t *testing.T) {
			total := 0
			for at := 1; ; at++ {
				n := newNode()
				strangers(n)
				tg := target(n)
				bring(t, tg, made(m.from))
				before := n.dump()
				old, p := plans(t, tg, made(m.to))
				n.writes, n.failAt, n.late = nil, at, late
				err := tg.Commit(context.Background(), p)
				if err == nil {
					total = at - 1
					break
				}
				if !errors.Is(err, errInjected) {
					t.Fatalf("write %d: %v", at, err)
				}
				n.failAt = 0
				if wrong := unsound(n); wrong != "" {
					t.Fatalf("after write %d, %s: %s", at, n.writes[at-1], wrong)
				}
				restoredTo(t, tg, n, old, before, fmt.Sprintf("write %d, %s", at, n.writes[at-1]))
			}
			if total < 5 {
				t.Errorf("only %d writes: not much of a test", total)
			}
		})
	}
}

func restoredTo(t *testing.T, tg *Target, n *node, old apply.Observed, before, after string) {
	t.Helper()
	loaded, err := tg.Load(old.Marshal())
	if err != nil {
		t.Fatal(err)
	}
	if err := tg.Restore(context.Background(), loaded); err != nil {
		t.Fatalf("after %s: %v", after, err)
	}
	if diff := cmp.Diff(before, n.dump()); diff != "" {
		t.Fatalf("restored after %s (-want +got):\n%s", after, diff)
	}
	if now, err := tg.Observe(context.Background()); err != nil || !now.Equal(old) || !old.Equal(now) {
		t.Fatalf("restored after %s, it is not equal (%v)", after, err)
	}
	n.writes = nil
	if err := tg.Restore(context.Background(), loaded); err != nil || len(n.writes) > 0 {
		t.Fatalf("a second time it wrote %q, %v", n.writes, err)
	}
}

// unsound says what is wrong with a node at any moment: a virtual server that
// is not ours by any proof, or without rules that masquerade; an address that
// the rules do not know to be a service's.
func unsound(n *node) string {
	o, err := target(n).observe(context.Background())
	if err != nil {
		return err.Error()
	}
	if len(o.foreign) != 2 {
		return fmt.Sprintf("%d virtual servers are not told to be ours, want 2", len(o.foreign))
	}
	for i, f := range families {
		s := &o.state.Families[i]
		if len(s.Servers) > 0 && !strings.Contains(n.tables.Save(f, "nat"), ":KUBE-POSTROUTING") {
			return fmt.Sprintf("%s: virtual servers without rules", f)
		}
		for _, a := range s.Addresses {
			if !slices.Contains(s.set(spec.SetName(f, "KUBE-IPVS-IPS")).Entries, a.String()) {
				return fmt.Sprintf("the node bears %s, and KUBE-IPVS-IPS lacks it", a)
			}
		}
	}
	return ""
}

// After each write, of a run and of its undoing, things are in order.
func TestEveryMoment(t *testing.T) {
	for _, m := range moves {
		n := newNode()
		strangers(n)
		n.after = func(what string) {
			if wrong := unsound(n); wrong != "" {
				t.Errorf("%s, after %s: %s", m.name, what, wrong)
			}
		}
		tg := target(n)
		bring(t, tg, made(m.from))
		old, p := plans(t, tg, made(m.to))
		if err := tg.Commit(context.Background(), p); err != nil {
			t.Fatal(err)
		}
		if err := tg.Restore(context.Background(), old); err != nil {
			t.Fatal(err)
		}
	}
}

// From iptables mode, and back, each Service is served by the one or by the
// other at any moment.
func TestModesWithoutGap(t *testing.T) {
	n := newNode()
	tg := target(n)
	bring(t, tg, iptablesRuleset())
	k := spec.Key{Protocol: ir.TCP, Address: netip.MustParseAddrPort("10.96.0.1:80")}
	n.after = func(what string) {
		byRules := strings.Contains(n.tables.Save(ir.IPv4, "nat"), "-j DNAT")
		s := n.servers[k]
		if !byRules && (s == nil || len(s.Destinations) == 0) {
			t.Errorf("after %s nothing serves", what)
		}
	}
	bring(t, tg, newWorld().cluster("tcp 10.96.0.1:80 rr", "10.0.0.1:8080").ruleset())
	bring(t, tg, iptablesRuleset())
}

// Whatever differs is seen.
func TestEqual(t *testing.T) {
	fresh := func() (*node, apply.Observed) {
		n := newNode()
		bring(t, target(n), oldWorld().ruleset())
		o, _ := plans(t, target(n), nil)
		return n, o
	}
	k := spec.Key{Protocol: ir.TCP, Address: netip.MustParseAddrPort("10.96.0.1:80")}
	_, reference := fresh()
	for name, change := range map[string]func(*node){
		"entry":       func(n *node) { n.sets["KUBE-CLUSTER-IP"].entries["10.9.9.9,tcp:9"] = true },
		"set":         func(n *node) { delete(n.sets, "KUBE-6-LOOP-BACK") },
		"temporary":   func(n *node) { n.sets["SVCC-CLUSTER-IP"] = n.sets["KUBE-CLUSTER-IP"] },
		"address":     func(n *node) { delete(n.addresses, netip.MustParseAddr("10.96.0.1")) },
		"server":      func(n *node) { delete(n.servers, k) },
		"scheduler":   func(n *node) { n.servers[k].Scheduler = "sh" },
		"weight":      func(n *node) { n.servers[k].Destinations[0].Weight = 0 },
		"destination": func(n *node) { n.servers[k].Destinations = n.servers[k].Destinations[1:] },
		"timeouts":    func(n *node) { n.timeouts.UDP = 7 },
		"glue": func(n *node) {
			n.tables.Run(context.Background(), apply.Input{Tool: "iptables-restore", Args: []string{"--noflush"}, //nolint:errcheck // seen below
				Stdin: []byte("*nat\n:KUBE-SERVICES - [0:0]\nCOMMIT\n")})
		},
	} {
		n, o := fresh()
		if !o.Equal(reference) {
			t.Fatal("the same is not equal")
		}
		change(n)
		o, _ = plans(t, target(n), nil)
		if o.Equal(reference) || reference.Equal(o) {
			t.Errorf("%s: another one is equal", name)
		}
	}
	n, _ := fresh()
	n.servers[k].Destinations[0].Connections = 5
	n.servers[k].Destinations = append(n.servers[k].Destinations, Destination{Address: netip.MustParseAddrPort("10.0.0.77:80")})
	if o, _ := plans(t, target(n), nil); !o.Equal(reference) || !reference.Equal(o) {
		t.Error("connections, or a destination that drains, make a difference")
	}
}

func TestLoadRefuses(t *testing.T) {
	tg := target(newNode())
	bring(t, tg, oldWorld().ruleset())
	o, _ := plans(t, tg, nil)
	text := string(o.Marshal())
	for _, c := range [][2]string{
		{`"Name":"KUBE-CLUSTER-IP"`, `"Name":"ADMINS-SET-FOO"`}, {"10.96.0.1:80", "192.0.2.200:80"}, {"observed v1", "observed v9"}, {"}", ""},
	} {
		if _, err := tg.Load([]byte(strings.Replace(text, c[0], c[1], 1))); err == nil || !strings.Contains(text, c[0]) {
			t.Errorf("with %q for %q it was taken", c[1], c[0])
		}
	}
}

// What iptables mode observed is put back, and the rest is left alone.
func TestLoadOfIPTablesMode(t *testing.T) {
	n := newNode()
	tg := target(n)
	bring(t, tg, iptablesRuleset())
	glue, err := tg.Glue.Observe(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	old, err := tg.Load(glue.Marshal())
	if err != nil {
		t.Fatal(err)
	}
	now, _ := plans(t, tg, nil)
	if !now.Equal(old) {
		t.Error("it is not equal to what is there")
	}
	if _, p := plans(t, tg, nil); tg.Glue.Commit(context.Background(), p.glue) != nil {
		t.Fatal("cannot take the rules away")
	}
	if now, _ = plans(t, tg, nil); now.Equal(old) {
		t.Error("without the rules it is equal still")
	}
	if err := tg.Restore(context.Background(), old); err != nil {
		t.Fatal(err)
	}
	if now, _ = plans(t, tg, nil); !now.Equal(old) {
		t.Error("restored, it is not equal")
	}
}

// What is live is what was applied, and what others have.
func TestLive(t *testing.T) {
	n := newNode()
	strangers(n)
	w := oldWorld()
	w.change(func(v *spec.Server) { v.Timeout, v.Flags, v.Scheduler = 10800, []string{"mh-port"}, "mh" })
	bring(t, target(n), w.ruleset())
	for i, f := range families {
		sections, err := target(n).Live(context.Background(), f)
		if err != nil {
			t.Fatal(err)
		}
		got, err := spec.ReadState(f, sections)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(got.Glue), "-A KUBE-POSTROUTING -j MASQUERADE") {
			t.Errorf("%s: glue is\n%s", f, got.Glue)
		}
		got.Servers = slices.DeleteFunc(got.Servers, func(v *spec.Server) bool {
			return i == 0 && strings.HasPrefix(v.Destinations[0].Address.String(), "10.9.9.9")
		})
		for j, tool := range []string{spec.ToolSets, spec.ToolGlue, spec.ToolAddresses, spec.ToolServers} {
			if tool == spec.ToolGlue {
				continue
			}
			if diff := cmp.Diff(sortedLines(w.states[i].Sections()[j].Text), sortedLines(got.Sections()[j].Text)); diff != "" {
				t.Errorf("%s %s (-want +got):\n%s", f, tool, diff)
			}
		}
	}
}

func sortedLines(text []byte) []string { return slices.Sorted(strings.Lines(string(text))) }

// Wherever a run is killed, the next one gets to the end.
func TestKilled(t *testing.T) {
	for _, m := range moves {
		for at := 1; ; at++ {
			n := newNode()
			strangers(n)
			tg := target(n)
			bring(t, tg, made(m.from))
			_, p := plans(t, tg, made(m.to))
			n.writes, n.failAt = nil, at
			if tg.Commit(context.Background(), p) == nil {
				break
			}
			n.failAt = 0
			bring(t, target(n), made(m.to))
			bring(t, target(n), nil)
			if len(n.servers) != 2 || len(n.sets) != 1 || n.link {
				t.Fatalf("%s, killed at %d, completed and removed: left is\n%s", m.name, at, n.dump())
			}
		}
	}
}

func TestForeignServersInTheWay(t *testing.T) {
	for _, c := range []struct{ there, want string }{
		{"10.96.0.1:80", "-t 10.96.0.1:80"},
		{"10.96.0.1:8888", "-t 10.96.0.1:8888"}, // on an address that is to be ours
		{"192.0.2.77:30080", "-t 192.0.2.77:30080"},
	} {
		n := newNode()
		k := spec.Key{Protocol: ir.TCP, Address: netip.MustParseAddrPort(c.there)}
		n.servers[k] = &Server{Key: k, Scheduler: "rr"}
		tg := target(n)
		o, err := tg.Observe(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		_, err = tg.Plan(oldWorld().ruleset(), o)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "not svcc's") {
			t.Errorf("%s: %v", c.there, err)
		}
		if len(n.writes) > 0 {
			t.Errorf("%s: wrote %q", c.there, n.writes)
		}
	}
}

func TestExcluded(t *testing.T) {
	n := newNode()
	tg := target(n)
	bring(t, tg, oldWorld().ruleset())
	tg.Exclude = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/30")}
	bring(t, tg, newerWorld().ruleset()) // lacks 10.96.0.3, has 10.96.0.1
	k := spec.Key{Protocol: ir.TCP, Address: netip.MustParseAddrPort("10.96.0.3:443")}
	if n.servers[k] == nil {
		t.Error("an excluded virtual server was taken away")
	}
	if k.Address = netip.MustParseAddrPort("10.96.0.1:80"); n.servers[k].Scheduler != "wlc" {
		t.Error("one that is wanted was not changed")
	}
}

func TestDrain(t *testing.T) {
	n := newNode()
	tg := target(n)
	tcp := spec.Key{Protocol: ir.TCP, Address: netip.MustParseAddrPort("10.96.0.1:80")}
	bring(t, tg, newWorld().cluster("tcp 10.96.0.1:80 rr", "10.0.0.1:80", "10.0.0.2:80").ruleset())
	n.servers[tcp].Destinations[0].Connections = 3
	rs := newWorld().cluster("tcp 10.96.0.1:80 rr", "10.0.0.2:80").ruleset()
	bring(t, tg, rs)
	if d := n.servers[tcp].Destinations; len(d) != 2 || d[0].Weight != 0 {
		t.Fatalf("%v: the first was to drain", d)
	}
	n.writes = nil
	bring(t, tg, rs)
	if len(n.writes) > 0 {
		t.Errorf("while it drains, an apply wrote %q", n.writes)
	}
	// A change elsewhere leaves it, and what was observed is put back with it.
	old, p := plans(t, tg, newWorld().cluster("tcp 10.96.0.1:80 rr", "10.0.0.1:80", "10.0.0.2:80").ruleset())
	if err := tg.Commit(context.Background(), p); err != nil {
		t.Fatal(err)
	}
	if d := n.servers[tcp].Destinations; d[0].Weight != 1 {
		t.Fatalf("%v: the first is wanted again", d)
	}
	if err := tg.Restore(context.Background(), old); err != nil {
		t.Fatal(err)
	}
	if d := n.servers[tcp].Destinations; len(d) != 2 || d[0].Weight != 0 {
		t.Fatalf("%v: the first was draining", d)
	}
	n.servers[tcp].Destinations[0].Connections = 0
	n.writes = nil
	bring(t, tg, rs)
	if want := []string{"-d -t 10.96.0.1:80 -r 10.0.0.1:80"}; !slices.Equal(n.writes, want) {
		t.Errorf("drained, an apply wrote %q, want %q", n.writes, want)
	}
}

func TestDrainTimeout(t *testing.T) {
	n := newNode()
	tg := target(n)
	tcp := spec.Key{Protocol: ir.TCP, Address: netip.MustParseAddrPort("10.96.0.1:80")}
	bring(t, tg, newWorld().cluster("tcp 10.96.0.1:80 rr", "10.0.0.1:80", "10.0.0.2:80").ruleset())
	n.servers[tcp].Destinations[0].Connections = 1
	n.servers[tcp].Destinations[1].Connections = 1
	rs := newWorld().cluster("tcp 10.96.0.1:80 rr").ruleset()
	bring(t, tg, rs)
	_, p := plans(t, tg, rs)
	n.servers[tcp].Destinations[0].Connections = 0
	tg.DrainTimeout = 2 * drainPoll
	begun := time.Now()
	did, err := tg.Tidy(context.Background(), p)
	if err != nil || len(did) != 2 || !strings.Contains(did[0], "10.0.0.1:80 of -t 10.96.0.1:80: deleted") || !strings.Contains(did[1], "10.0.0.2:80") {
		t.Errorf("%q, %v", did, err)
	}
	if time.Since(begun) < tg.DrainTimeout {
		t.Error("it did not wait for the other")
	}
}

func TestMissingModules(t *testing.T) {
	for _, c := range []struct {
		name string
		lack func(*node)
		want string
	}{
		{"ip_vs", func(n *node) { n.noIPVS = true }, "modprobe ip_vs"},
		{"ip_set", func(n *node) { n.noSets = true }, "modprobe ip_set"},
	} {
		n := newNode()
		c.lack(n)
		tg := target(n)
		if _, p := plans(t, tg, nil); !p.Empty() {
			t.Errorf("%s: to take away nothing is a plan", c.name)
		}
		o, _ := tg.Observe(context.Background())
		if _, err := tg.Plan(oldWorld().ruleset(), o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	n := newNode()
	n.schedulers = []string{"rr", "wrr"}
	tg := target(n)
	_, p := plans(t, tg, newWorld().cluster("tcp 10.96.0.1:80 mh").ruleset())
	if _, err := tg.Check(context.Background(), p); err == nil || !strings.Contains(err.Error(), "modprobe ip_vs_mh") || !strings.Contains(err.Error(), "10.96.0.1:80") {
		t.Errorf("a scheduler that is not there: %v", err)
	}
	if len(n.writes) > 0 {
		t.Errorf("checking wrote %q", n.writes)
	}
	n.noSandbox = true
	if notes, err := tg.Check(context.Background(), p); err != nil || len(notes) == 0 {
		t.Errorf("without a sandbox: %q, %v", notes, err)
	}
}

// What iptables-nft's rules held on to is destroyed when they let go.
func TestSetsInUse(t *testing.T) {
	n := newNode()
	tg := target(n)
	bring(t, tg, oldWorld().ruleset())
	n.holds = 3
	bring(t, tg, nil)
	if len(n.sets) > 0 {
		t.Errorf("left: %s", n.saveSets())
	}
}

// One that cannot be told by what else is there must not be made.
func TestServerWithoutProof(t *testing.T) {
	w := oldWorld()
	w.server("tcp 192.0.2.50:80 rr")
	tg := target(newNode())
	o, _ := tg.Observe(context.Background())
	if _, err := tg.Plan(w.ruleset(), o); err == nil || !strings.Contains(err.Error(), "192.0.2.50:80") {
		t.Error(err)
	}
}

// Whatever somebody did to ours is mended, in place.
func TestDriftIsMended(t *testing.T) {
	n := newNode()
	tg := target(n)
	rs := oldWorld().change(func(*spec.Server) {}).ruleset()
	bring(t, tg, rs)
	before := n.dump()
	k := spec.Key{Protocol: ir.TCP, Address: netip.MustParseAddrPort("10.96.0.1:80")}
	n.servers[k].Scheduler = "sh"
	n.servers[k].Flags, n.servers[k].Timeout = flagPersistent, 60
	n.servers[k].Destinations[1].Weight = 0
	n.servers[k].Destinations[0].Method = 3
	delete(n.addresses, netip.MustParseAddr("10.96.0.2"))
	delete(n.sets["KUBE-CLUSTER-IP"].entries, "10.96.0.3,tcp:443")
	n.writes = nil
	bring(t, tg, rs)
	want := []string{
		"ipset restore", "address replace 10.96.0.2/32 dev kube-ipvs0 nodad", "-E -t 10.96.0.1:80 -s rr",
		"-e -t 10.96.0.1:80 -r 10.0.0.1:8080 -m -w 1", "-e -t 10.96.0.1:80 -r 10.0.0.2:8080 -m -w 1",
	}
	if diff := cmp.Diff(want, n.writes); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(before, n.dump()); diff != "" {
		t.Error(diff)
	}
}
