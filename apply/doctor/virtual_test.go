package doctor_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"svcc/apply/ipvs"
	"svcc/emit"
	spec "svcc/emit/ipvs"
	"svcc/emit/mode"
	"svcc/ir"
)

// virtual is a kernel's virtual servers, and its own sandbox.
type virtual struct {
	none, noBox, noDummy bool
	schedulers           []string
	link                 bool
	linkErr              error
	tried                spec.Key // the virtual server that was added last, unless it is gone
	addresses            []netip.Addr
	servers              []*ipvs.Server
}

func (v *virtual) Servers() ([]*ipvs.Server, error) { return v.servers, v.there() }

func (v *virtual) there() error {
	if v.none {
		return ipvs.ErrNoIPVS
	}
	return nil
}

func (v *virtual) Destinations(spec.Key) ([]ipvs.Destination, error) { return nil, nil }
func (v *virtual) Timeouts() (ipvs.Timeouts, error)                  { return ipvs.Timeouts{}, v.there() }
func (v *virtual) Link() (bool, []netip.Addr, error)                 { return v.link, v.addresses, v.linkErr }

func (v *virtual) Do(o ipvs.Op) error {
	switch {
	case o.Verb == ipvs.AddLink && v.noDummy:
		return fmt.Errorf("%s: %w", o, syscall.EOPNOTSUPP)
	case o.Verb == ipvs.AddServer && !slices.Contains(v.schedulers, o.Server.Scheduler):
		return fmt.Errorf("%s: %w", o, syscall.ENOENT)
	case o.Verb == ipvs.AddServer && v.tried == o.Server.Key:
		return fmt.Errorf("%s: %w", o, syscall.EEXIST)
	}
	v.tried = spec.Key{}
	if o.Verb == ipvs.AddServer {
		v.tried = o.Server.Key
	}
	return nil
}

func (v *virtual) Sandbox() (ipvs.Sandbox, error) {
	if v.noBox {
		return nil, syscall.EPERM
	}
	return box{v}, nil
}

type box struct{ of *virtual }

func (b box) Do(f func(ipvs.Kernel)) { f(b.of) }
func (b box) Close()                 {}

var (
	vip   = netip.MustParseAddr("10.96.0.1") // of program
	other = netip.MustParseAddr("10.96.0.99")
)

// inForce is a ruleset of IPVS mode that has the node bear vip.
func inForce() *emit.Ruleset {
	s := &spec.State{Family: ir.IPv4, Addresses: []netip.Addr{vip}, Glue: []byte("*nat\n:KUBE-SERVICES - [0:0]\n:KUBE-EXT-VIEW - [0:0]\nCOMMIT\n")}
	return &emit.Ruleset{Head: emit.Head{Mode: "ipvs"}, Sections: s.Sections()}
}

// virtualNode is a node in IPVS mode on which all is fine.
func virtualNode(t *testing.T) *node {
	n := healthy(t)
	n.Mode, n.Programs, n.InForce = mode.IPVS, both(), inForce()
	for _, p := range n.Programs {
		p.Options.Virtual = &ir.Virtual{Scheduler: "rr"}
		p.Options.LocalhostNodePorts = false
	}
	n.Programs[0].Services[0].Scheduler = "wlc"
	n.virtual.link, n.virtual.addresses = true, []netip.Addr{vip}
	n.interfaces = []ipvs.Interface{{Name: "eth0", Addrs: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}, {Name: spec.Link, Addrs: []netip.Addr{vip}}}
	n.write("proc/sys/kernel/osrelease", "6.1.0\n")
	for _, name := range []string{"conntrack", "expire_nodest_conn", "expire_quiescent_template"} {
		n.write("proc/sys/net/ipv4/vs/"+name, "1\n")
	}
	return n
}

func TestVirtualFindings(t *testing.T) {
	refused := errors.New("Extension is not supported, missing kernel module?")
	savedNAT := func(chains ...string) string {
		return "*nat\n:KUBE-SERVICES - [0:0]\n:" + strings.Join(chains, " - [0:0]\n:") + " - [0:0]\nCOMMIT\n"
	}
	for _, c := range []struct {
		name   string
		change func(*node)
		want   []string
		todo   string
	}{
		{"all is fine", func(*node) {}, nil, ""},
		{"nothing is known", func(n *node) { n.Programs, n.InForce, n.virtual.link = nil, nil, false }, nil, ""},

		{"affinity, which virtual servers see to", func(n *node) { n.remove("sys/module/xt_recent") }, nil, ""},
		{"affinity at node ports of policy Local", func(n *node) {
			n.write("sys/module/xt_recent/parameters/ip_list_tot", "100\n")
			s := n.Programs[0].Services[0]
			s.ExternalPolicy, s.Frontends = ir.Local, append(s.Frontends, ir.Frontend{Kind: ir.NodePort, Port: 30080})
		}, []string{"affinity warn"}, "ip_list_tot=10000"},

		{"ip_vs is not loaded", func(n *node) { n.virtual.none = true }, nil, ""},
		{"no ip_vs", func(n *node) {
			n.virtual.none = true
			n.fails["modprobe"] = exec.ErrNotFound
		}, []string{"ipvs.module fail", "ipvs.scheduler.rr fail", "ipvs.scheduler.wlc fail"}, "modprobe ip_vs"},
		{"no scheduler of a service", func(n *node) { n.virtual.schedulers = []string{"rr"} }, []string{"ipvs.scheduler.wlc fail"}, "modprobe ip_vs_wlc"},
		{"no scheduler of the node", func(n *node) { n.virtual.schedulers = []string{"wlc"} }, []string{"ipvs.scheduler.rr fail"}, "--scheduler"},
		{"no scheduler that is asked for", func(n *node) { n.Schedulers = []string{"mh"} }, []string{"ipvs.scheduler.mh fail"}, "ip_vs_mh"},
		{"no dummy devices", func(n *node) { n.virtual.noDummy = true }, []string{"ipvs.link fail"}, "modprobe dummy"},
		{"no namespaces", func(n *node) { n.virtual.noBox = true }, []string{"ipvs.kernel unknown", "sets.kernel unknown"}, "CAP_SYS_ADMIN"},
		{"no xt_ipvs", func(n *node) { n.fails["-m ipvs"] = refused }, []string{"ipvs.match.ipv4 fail", "ipvs.match.ipv6 fail"}, "xt_ipvs"},

		{"no ipset", func(n *node) { n.fails["ipset"] = exec.ErrNotFound }, []string{"sets.tool fail"}, "install"},
		{"ipset by a relative $PATH", func(n *node) { n.fails["ipset"] = exec.ErrDot }, []string{"sets.tool fail"}, "$PATH"},
		{"an old ipset", func(n *node) { n.says["ipset version"] = "ipset v4.5, protocol version: 4\n" }, []string{"sets.tool fail"}, "6.0"},
		{"ipset speaks otherwise", func(n *node) { n.says["ipset version"] = "?" }, []string{"sets.tool unknown"}, "install"},
		{"no sets with ranges", func(n *node) { n.fails["hash:ip,port,net"] = refused },
			[]string{"sets.ipv4.hash:ip,port,net fail", "sets.ipv6.hash:ip,port,net fail"}, "ip_set_hash_ipportnet"},
		{"no bitmaps, and no IPv6 Services", func(n *node) { n.fails["bitmap:port"], n.Programs = refused, n.Programs[:1] },
			[]string{"sets.ipv4.bitmap:port fail", "sets.ipv6.bitmap:port warn"}, "ip_set_bitmap_port"},
		{"no xt_set", func(n *node) { n.fails["--match-set"] = refused }, []string{"sets.ipv4.match fail", "sets.ipv6.match fail"}, "xt_set"},

		{"INPUT drops", func(n *node) { n.says["iptables-save -t filter"] = "*filter\n:INPUT DROP [1:60]\nCOMMIT\n" },
			[]string{"policies.ipv4 warn"}, "-A INPUT -m set --match-set KUBE-IPVS-IPS dst -j ACCEPT"},
		{"INPUT drops IPv6", func(n *node) { n.says["ip6tables-save -t filter"] = "*filter\n:INPUT DROP [1:60]\nCOMMIT\n" },
			[]string{"policies.ipv6 warn"}, "ip6tables -A INPUT -m set --match-set KUBE-6-IPVS-IPS dst -j ACCEPT"},
		{"OUTPUT drops", func(n *node) { n.says["iptables-save -t filter"] = "*filter\n:OUTPUT DROP [1:60]\nCOMMIT\n" },
			[]string{"policies.ipv4 warn"}, "-A OUTPUT -m ipvs --ipvs -j ACCEPT"},
		{"FORWARD drops", func(n *node) { n.says["iptables-save -t filter"] = "*filter\n:FORWARD DROP [1:60]\nCOMMIT\n" },
			[]string{"policies.ipv4 warn"}, "POD-CIDR"},

		{"a setting was changed", func(n *node) { n.write("proc/sys/net/ipv4/vs/conntrack", "0\n") }, []string{"sysctl.vs.conntrack fail"}, "net.ipv4.vs.conntrack=1"},
		{"a setting is for apply to set", func(n *node) {
			n.write("proc/sys/net/ipv4/vs/conntrack", "0\n")
			n.InForce, n.virtual.link = nil, false
		}, nil, ""},
		{"settings are gone", func(n *node) { n.remove("proc/sys/net/ipv4/vs") },
			[]string{"sysctl.vs.conntrack fail", "sysctl.vs.expire_nodest_conn fail", "sysctl.vs.expire_quiescent_template fail"}, "modprobe ip_vs"},
		{"ARP is answered everywhere", func(n *node) {
			n.Programs[0].Options.Virtual.StrictARP = true
			n.write("proc/sys/net/ipv4/conf/all/arp_ignore", "0\n")
			n.write("proc/sys/net/ipv4/conf/all/arp_announce", "2\n")
		}, []string{"sysctl.arp_ignore fail"}, "arp_ignore=1"},
		{"an old kernel stalls", func(n *node) {
			n.write("proc/sys/kernel/osrelease", "5.4.0-1\n")
			n.write("proc/sys/net/ipv4/vs/conn_reuse_mode", "1\n")
		}, []string{"sysctl.vs.conn_reuse_mode fail"}, "conn_reuse_mode=0"},

		{"another's kube-ipvs0", func(n *node) { n.InForce = nil }, []string{"addresses.link warn"}, "--take-over"},
		{"another's addresses", func(n *node) { n.virtual.addresses = []netip.Addr{vip, other} }, []string{"addresses.link warn"}, "svcc apply"},
		{"the kernel's own address", func(n *node) {
			n.virtual.addresses = append(n.virtual.addresses, netip.MustParseAddr("fe80::1"))
		}, nil, ""},
		{"a strange kube-ipvs0", func(n *node) { n.virtual.linkErr = errors.New("no dummy device") }, []string{"addresses.link fail"}, "ip link delete"},
		{"an interface bears a service address", func(n *node) { n.interfaces[0].Addrs = append(n.interfaces[0].Addrs, vip) },
			[]string{"addresses.elsewhere warn"}, "ip address delete"},
		{"an interface bears its own", func(n *node) {
			n.interfaces[0].Addrs = append(n.interfaces[0].Addrs, vip)
			n.Programs[0].Options.Virtual.Own = []netip.Addr{vip}
			n.Programs = n.Programs[:1]
		}, nil, ""},
		{"an interface bears it no more", func(n *node) { n.Programs[0].Options.Virtual.Own = []netip.Addr{vip} },
			[]string{"addresses.elsewhere fail"}, "compile again"},

		{"rules of iptables mode", func(n *node) {
			n.says["iptables-save -t nat"] = savedNAT("KUBE-SVC-ABCDEFGHIJKLMNOP", "KUBE-NODEPORTS")
		},
			[]string{"modes.ipv4 warn"}, "svcc apply"},
		{"rules of kube-proxy's iptables mode", func(n *node) {
			n.says["ip6tables-save -t nat"] = savedNAT("KUBE-SVC-ABCDEFGHIJKLMNOP")
			n.InForce, n.virtual.link = nil, false
		}, []string{"modes.ipv6 warn"}, "--take-over"},
		{"rules of the ruleset", func(n *node) {
			n.says["iptables-save -t nat"] = savedNAT("KUBE-EXT-VIEW", "KUBE-NODE-PORT", "KUBE-LOAD-BALANCER")
		}, nil, ""},
		{"iptables mode in force", func(n *node) {
			n.says["iptables-save -t nat"] = savedNAT("KUBE-NODEPORTS")
			n.InForce, n.virtual.link = &emit.Ruleset{Head: emit.Head{Mode: "iptables"}}, false
		}, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := virtualNode(t)
			c.change(n)
			got := n.Examine(context.Background())
			if diff := cmp.Diff(c.want, amiss(got)); diff != "" {
				t.Errorf("(-want +got):\n%s\n%+v", diff, got)
			}
			checkAdvice(t, got, c.todo)
		})
	}
}

// What is left of IPVS mode is counted.
func TestServersLeft(t *testing.T) {
	n := healthy(t)
	n.virtual.link, n.virtual.addresses = true, []netip.Addr{vip, other}
	for _, a := range []string{"10.96.0.1:80", "10.96.0.99:53", "192.0.2.1:80"} {
		n.virtual.servers = append(n.virtual.servers, &ipvs.Server{Key: spec.Key{Protocol: ir.TCP, Address: netip.MustParseAddrPort(a)}})
	}
	for _, f := range n.Examine(context.Background()) {
		if f.ID == "modes" && !strings.Contains(f.Text, "2 addresses and 2 virtual servers") {
			t.Errorf("%+v", f)
		}
	}
}
