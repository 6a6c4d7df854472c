package ipvs

import (
	"context"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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
			"address replace 10.96.0.1/32 dev kube-ipvs0", "address replace 10.96.0.2/32 dev kube-ipvs0",
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
		"ipset restore", "address replace 10.96.0.2/32 dev kube-ipvs0", "-E -t 10.96.0.1:80 -s rr",
		"-e -t 10.96.0.1:80 -r 10.0.0.1:8080 -m -w 1", "-e -t 10.96.0.1:80 -r 10.0.0.2:8080 -m -w 1",
	}
	if diff := cmp.Diff(want, n.writes); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(before, n.dump()); diff != "" {
		t.Error(diff)
	}
}

// What a ruleset says of timeouts, and of whose servers to leave alone, is in
// its Programs.
func TestOptionsOfPrograms(t *testing.T) {
	n := newNode()
	tg := target(n)
	bring(t, tg, oldWorld().ruleset())
	before := n.dump()
	rs := newerWorld().ruleset()
	rs.Programs = []string{programText(t, &ir.Virtual{
		Scheduler: "rr", Exclude: []netip.Prefix{netip.MustParsePrefix("10.96.0.3/32")}, TCPTimeout: 600, UDPTimeout: 60,
	})}
	old, p := plans(t, tg, rs)
	if err := tg.Commit(context.Background(), p); err != nil {
		t.Fatal(err)
	}
	if want := (Timeouts{600, 120, 60}); n.timeouts != want {
		t.Errorf("timeouts are %v, want %v", n.timeouts, want)
	}
	if n.servers[spec.Key{Protocol: ir.TCP, Address: netip.MustParseAddrPort("10.96.0.3:443")}] == nil {
		t.Error("an excluded virtual server was taken away")
	}
	if err := tg.Restore(context.Background(), old); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, n.dump()); diff != "" {
		t.Error(diff)
	}
}
