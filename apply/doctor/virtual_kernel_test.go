package doctor_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"svcc/apply"
	"svcc/apply/doctor"
	"svcc/emit/mode"
	"svcc/golden/lab"
	"svcc/golden/uml"
	"svcc/ir"
)

func TestMain(m *testing.M) { uml.Main(m) }

// A kernel with IPVS: all that it needs is there, and what is put in the way is
// found.
func TestKernelVirtual(t *testing.T) {
	uml.Test(t, func(t *testing.T) {
		t.Run("findings", testVirtualFindings)
		t.Run("policies", testVirtualPolicies)
	})
}

// notVirtual are of the machine, or of tools that do not work in that kernel.
var notVirtual = []string{"policies.nftables unknown", "sysctl.forwarding.ipv4 fail", "sysctl.forwarding.ipv6 fail", "affinity warn", "sysctl.bridge.ipv4 warn", "sysctl.bridge.ipv6 warn"}

func testVirtualFindings(t *testing.T) {
	lab.Enter(t)
	d := &doctor.Doctor{Root: "/", Runner: apply.Exec{}, StateDir: filepath.Join(t.TempDir(), "none"), Programs: both(), Mode: mode.IPVS, Schedulers: ir.Schedulers}
	for _, p := range d.Programs {
		p.Options.Virtual, p.Options.LocalhostNodePorts = &ir.Virtual{Scheduler: "rr"}, false
	}
	compare := func(when string, want ...string) []doctor.Finding {
		t.Helper()
		findings := d.Examine(context.Background())
		got := slices.DeleteFunc(amiss(findings), func(s string) bool { return slices.Contains(notVirtual, s) })
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", when, got, want)
		}
		return findings
	}
	findings := compare("a new namespace")
	for prefix, want := range map[string]int{"ipvs.scheduler.": len(ir.Schedulers), "sets.ipv4.": 6, "sets.ipv6.": 6, "ipvs.": len(ir.Schedulers) + 4, "sysctl.vs.": 3} {
		if n := count(findings, prefix); n != want {
			t.Errorf("%d findings %s, want %d", n, prefix, want)
		}
	}
	d.InForce = inForce()
	compare("settings that nobody has set", "sysctl.vs.conntrack fail", "sysctl.vs.expire_nodest_conn fail", "sysctl.vs.expire_quiescent_template fail")
	if _, err := d.Fix(d.Examine(context.Background())); err != nil {
		t.Fatal(err)
	}
	feed(t, "link add kube-ipvs0 type dummy\naddress add 10.96.0.1/32 dev kube-ipvs0\n", "ip", "-batch", "-")
	compare("mended, and as applied")

	d.Schedulers = []string{"best"}
	feed(t, "link add foreign0 type dummy\naddress add 10.96.0.1/32 dev foreign0\naddress add 10.96.0.99/32 dev kube-ipvs0\n", "ip", "-batch", "-")
	feed(t, "*nat\n:KUBE-SEP-ABCDEFGHIJKLMNOP - [0:0]\nCOMMIT\n*filter\n:INPUT DROP\nCOMMIT\n", "iptables-restore", "-n")
	compare("with others in the way", "modes.ipv4 warn", "ipvs.scheduler.best fail", "policies.ipv4 warn", "addresses.link warn", "addresses.elsewhere warn")

	d.Mode, d.InForce = nil, nil
	compare("in iptables mode", "modes warn", "policies.ipv4 warn")
}

// A policy of INPUT is in the way of a virtual server, and so is one of OUTPUT;
// what is advised helps.
func testVirtualPolicies(t *testing.T) {
	lab.Enter(t)
	outside := lab.NewThread(t)
	tid := 0
	outside.Do(func() { tid = unix.Gettid() })
	feed(t, fmt.Sprintf("link add v0 type veth peer name v1 netns %d\nlink set v0 up\nlink set lo up\naddress add 192.0.2.2/24 dev v0\nroute add 10.128.0.0/24 dev v0\n"+
		"link add kube-ipvs0 type dummy\naddress add 10.96.0.1/32 dev kube-ipvs0\n", tid), "ip", "-batch", "-")
	var from net.Listener
	outside.Do(func() {
		feed(t, "link set v1 up\nlink set lo up\naddress add 192.0.2.1/24 dev v1\naddress add 10.128.0.5/24 dev v1\nroute add 10.96.0.0/16 via 192.0.2.2\n", "ip", "-batch", "-")
		var err error
		if from, err = net.Listen("tcp", "10.128.0.5:8080"); err != nil {
			t.Fatal(err)
		}
	})
	defer from.Close()
	feed(t, "net.ipv4.ip_forward=1\nnet.ipv4.vs.conntrack=1\n", "sysctl", "-p", "-")
	feed(t, "-A -t 10.96.0.1:80 -s rr\n-a -t 10.96.0.1:80 -r 10.128.0.5:8080 -m\n", "ipvsadm", "-R")
	feed(t, "create KUBE-IPVS-IPS hash:ip\nadd KUBE-IPVS-IPS 10.96.0.1\n", "ipset", "restore")
	feed(t, "*nat\n-A POSTROUTING -m ipvs --ipvs -j MASQUERADE\nCOMMIT\n", "iptables-restore", "-n")
	d := &doctor.Doctor{Root: "/", Runner: apply.Exec{}, StateDir: filepath.Join(t.TempDir(), "none"), Mode: mode.IPVS}
	reached := func(when string, want bool) {
		t.Helper()
		var err error
		patience := 400 * time.Millisecond // for what is dropped
		if want {
			patience = 10 * time.Minute
		}
		outside.Do(func() {
			var c net.Conn
			if c, err = net.DialTimeout("tcp", "10.96.0.1:80", patience); err == nil {
				c.Close()
			}
		})
		if (err == nil) != want || err != nil && !errors.Is(err, unix.ETIMEDOUT) && !err.(net.Error).Timeout() {
			t.Errorf("%s: %v", when, err)
		}
	}
	reached("nothing drops", true)
	for _, chain := range []string{"INPUT", "OUTPUT"} {
		feed(t, "", "iptables", "-P", chain, "DROP")
		reached(chain+" drops", false)
		feed(t, "", "sh", "-c", "iptables"+advice(t, d, chain))
		reached(chain+" accepts what is advised", true)
		feed(t, "", "iptables", "-P", chain, "ACCEPT")
	}
}

// advice is the command that policies.ipv4 names, without its first word.
func advice(t *testing.T, d *doctor.Doctor, chain string) string {
	t.Helper()
	for _, f := range d.Examine(context.Background()) {
		if f.ID == "policies.ipv4" && strings.Contains(f.Text, chain+" drops") {
			command, _, ok := strings.Cut(strings.TrimPrefix(f.Todo, "iptables"), "-j ACCEPT")
			if ok {
				return command + "-j ACCEPT"
			}
		}
	}
	t.Fatalf("nothing is advised for %s", chain)
	return ""
}
