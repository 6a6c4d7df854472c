package ipvs

import (
	"context"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"svcc/emit"
	spec "svcc/emit/ipvs"
)

// A rule and a list of sets that use ours keep neither remove nor another mode
// from ending IPVS mode.
func testOthersUses(t *testing.T) {
	m := newMachine()
	tg := m.target()
	for _, to := range []*emit.Ruleset{nil, iptablesRuleset()} {
		bring(t, tg, oldWorld().ruleset())
		tool(t, "", "iptables", "-A", "FORWARD", "-m", "set", "--match-set", "KUBE-CLUSTER-IP", "dst,dst", "-j", "ACCEPT")
		tool(t, "create mine list:set size 8\nadd mine KUBE-IPVS-IPS\n", "ipset", "restore")
		_, p := plans(t, tg, to)
		notes, err := tg.Check(t.Context(), p)
		if told := strings.Join(notes, "\n"); err != nil || len(notes) != 2 || !strings.Contains(told, "set KUBE-CLUSTER-IP is") || !strings.Contains(told, "set KUBE-IPVS-IPS is") {
			t.Errorf("%q, %v", notes, err)
		}
		bring(t, tg, to)
		if got := tool(t, "", "ipset", "save"); strings.Count(got, "create ") != 3 || strings.Count(got, "add ") != 1 {
			t.Errorf("left is\n%s", got)
		}
		if got := servers(t); got != "" {
			t.Errorf("virtual servers are left:\n%s", got)
		}
		bring(t, tg, oldWorld().ruleset())
		bring(t, tg, to)
		tool(t, "", "iptables", "-D", "FORWARD", "-m", "set", "--match-set", "KUBE-CLUSTER-IP", "dst,dst", "-j", "ACCEPT")
		tool(t, "", "ipset", "destroy", "mine")
		bring(t, tg, to)
		if got := tool(t, "", "ipset", "list", "-n"); got != "" {
			t.Errorf("nobody uses them, and they stay: %s", got)
		}
	}
}

// Sets by our names, of other shapes and in use, are replaced where the kernel
// lets that be, and put back; those of another type once nobody uses them.
func testOthersSets(t *testing.T) {
	const odd = "create KUBE-CLUSTER-IP hash:ip,port family inet hashsize 1024 maxelem 65536 counters comment skbinfo\n" +
		"add KUBE-CLUSTER-IP 10.96.0.7,tcp:80 comment \"a b\"\ncreate KUBE-NODE-PORT-TCP bitmap:port range 1-100\nadd KUBE-NODE-PORT-TCP 80\n"
	tool(t, odd, "ipset", "restore")
	tool(t, "", "iptables", "-A", "FORWARD", "-m", "set", "--match-set", "KUBE-CLUSTER-IP", "dst,dst", "-j", "ACCEPT")
	m := newMachine()
	e := m.engine(t)
	e.Options.TakeOver = true
	heads := func() (out string) {
		for line := range strings.Lines(withoutSeeds(tool(t, "", "ipset", "save"))) {
			if strings.HasPrefix(line, "create ") {
				out += line
			}
		}
		return out
	}
	before := heads()
	m.failAt = 5
	if _, err := e.Apply(t.Context(), oldWorld().ruleset()); err == nil || !strings.Contains(err.Error(), "the old state is back") || heads() != before {
		t.Fatalf("%v\n%s", err, heads())
	}
	m.failAt = 0
	if _, err := e.Apply(t.Context(), oldWorld().ruleset()); err != nil {
		t.Fatal(err)
	}
	if got := heads(); strings.Contains(got, "counters") || strings.Contains(got, "1-100") {
		t.Errorf("sets are\n%s", got)
	}
	if _, err := e.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	tool(t, "", "iptables", "-F", "FORWARD")
	tool(t, "", "ipset", "destroy")
	tool(t, "create KUBE-CLUSTER-IP hash:ip\n", "ipset", "restore")
	if _, err := e.Apply(t.Context(), oldWorld().ruleset()); err != nil {
		t.Fatal(err) // of another type, and used by nobody: it is made anew
	}
	if got := heads(); !strings.Contains(got, "KUBE-CLUSTER-IP hash:ip,port ") {
		t.Errorf("sets are\n%s", got)
	}
}

// A device by the link's name that is no dummy stops what would use it, and
// nothing else.
func testOthersLink(t *testing.T) {
	tool(t, "", "ip", "tuntap", "add", spec.Link, "mode", "tap")
	m := newMachine()
	tg := m.target()
	bring(t, tg, iptablesRuleset())
	o, err := tg.Observe(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tg.Plan(oldWorld().ruleset(), o); err == nil || !strings.Contains(err.Error(), "tuntap") && !strings.Contains(err.Error(), "tun") {
		t.Error(err)
	}
	bring(t, tg, nil)
	if got := tool(t, "", "ip", "-o", "link"); !strings.Contains(got, spec.Link) {
		t.Errorf("it is gone: %s", got)
	}
}

// What the kernel does not take for a destination is named.
func testBroadcast(t *testing.T) {
	tool(t, "link set lo up\nlink add eth9 type dummy\naddress add 192.168.0.5/24 broadcast 192.168.0.255 dev eth9\nlink set eth9 up\n", "ip", "-batch", "-")
	tg := newMachine().target()
	_, p := plans(t, tg, newWorld().cluster("tcp 10.96.0.1:80 rr", "192.168.0.255:8080").ruleset())
	err := tg.Commit(t.Context(), p)
	const want = "destination 192.168.0.255:8080 of virtual server -t 10.96.0.1:80: it must be a single host's address"
	if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), unix.EINVAL.Error()) {
		t.Errorf("%v, want %q", err, want)
	}
}
