package doctor_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"svcc/apply"
	"svcc/apply/doctor"
	"svcc/apply/ipvs"
	"svcc/emit"
	"svcc/emit/mode"
	"svcc/ir"
)

// node is a fake node on which all is fine, until a test changes it.
type node struct {
	*testing.T
	doctor.Doctor
	says  map[string]string // what a tool prints
	fails map[string]error  // by tool, or by a word of what a tool is given

	virtual    *virtual
	interfaces []ipvs.Interface
}

func healthy(t *testing.T) *node {
	n := &node{T: t, says: map[string]string{}, fails: map[string]error{}}
	n.virtual = &virtual{schedulers: []string{"rr", "wlc"}}
	n.Doctor = doctor.Doctor{
		Root: t.TempDir(), Runner: n, StateDir: filepath.Join(t.TempDir(), "svcc"), Flows: func() error { return nil },
		Kernel: n.virtual, Interfaces: func() ([]ipvs.Interface, error) { return n.interfaces, nil },
	}
	n.says["ipset version"] = "ipset v7.17, protocol version: 7\n"
	n.says["iptables --version"] = "iptables v1.8.9 (nf_tables)\n"
	n.says["ip6tables --version"] = "ip6tables v1.8.9 (nf_tables)\n"
	n.says["nft -j list chains"] = `{"nftables": [{"metainfo": {"version": "1.0.6"}},
		{"chain": {"family": "ip", "table": "filter", "name": "FORWARD", "hook": "forward", "prio": 0, "policy": "drop"}},
		{"chain": {"family": "inet", "table": "other", "name": "in", "hook": "input", "prio": 0, "policy": "accept"}}]}`
	n.says["iptables-save -t filter"] = "*filter\n:INPUT ACCEPT [0:0]\n:KUBE-SERVICES - [0:0]\nCOMMIT\n"
	for name, text := range map[string]string{
		"proc/thread-self/status":                            "Name:\tsvcc\nCapEff:\t000001ffffffffff\n",
		"proc/thread-self/net/if_inet6":                      "",
		"proc/thread-self/net/route":                         routes("eth0"),
		"proc/1/comm":                                        "systemd\n",
		"proc/sys/net/ipv4/ip_forward":                       "1\n",
		"proc/sys/net/ipv4/conf/all/rp_filter":               "1\n",
		"proc/sys/net/ipv4/conf/all/route_localnet":          "1\n",
		"proc/sys/net/ipv6/conf/all/forwarding":              "1\n",
		"proc/sys/net/netfilter/nf_conntrack_tcp_be_liberal": "0\n",
		"proc/sys/net/bridge/bridge-nf-call-iptables":        "1\n",
		"proc/sys/net/bridge/bridge-nf-call-ip6tables":       "1\n",
		"sys/module/xt_recent/parameters/ip_list_tot":        "10000\n",
	} {
		n.write(name, text)
	}
	return n
}

// routes is /proc/net/route with a default route by each interface.
func routes(interfaces ...string) string {
	text := "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\n" + "eth9\t0000A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\n"
	for _, i := range interfaces {
		text += i + "\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000000\n"
	}
	return text
}

func (n *node) write(name, text string) {
	n.Helper()
	path := filepath.Join(n.Root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		n.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		n.Fatal(err)
	}
}

func (n *node) remove(name string) {
	n.Helper()
	if err := os.RemoveAll(filepath.Join(n.Root, name)); err != nil {
		n.Fatal(err)
	}
}

// Run implements apply.Runner.
func (n *node) Run(_ context.Context, in apply.Input) ([]byte, error) {
	for what, err := range n.fails {
		if in.Tool == what || strings.Contains(string(in.Stdin), what) || in.Isolated && what == "isolated" {
			return nil, &apply.ToolError{Tool: in.Tool, Args: in.Args, Code: -1, Err: err}
		}
	}
	said, there := n.says[strings.Join(append([]string{in.Tool}, in.Args...), " ")]
	if !there && strings.HasSuffix(in.Tool, "-save") && len(in.Args) == 2 && in.Args[0] == "-t" {
		said = "*" + in.Args[1] + "\n:OUTPUT ACCEPT [0:0]\nCOMMIT\n" // whole, and nothing in it
	}
	return []byte(said), nil
}

// program is a Program with one service port of all that a check looks at.
func program(f ir.Family) *ir.Program {
	return &ir.Program{Family: f, Options: ir.Options{DropInvalid: true, LocalhostNodePorts: f == ir.IPv4}, Services: []*ir.ServicePort{{
		PortName:        ir.PortName{Namespace: "demo", Name: "web", Protocol: ir.TCP},
		Frontends:       []ir.Frontend{{Kind: ir.ClusterIP, Addr: netip.MustParseAddr("10.96.0.1"), Port: 80}, {Kind: ir.NodePort, Port: 30080}},
		AffinitySeconds: 60,
	}}}
}

// both is what a node with both families does.
func both() []*ir.Program { return []*ir.Program{program(ir.IPv4), program(ir.IPv6)} }

// promising is a ruleset in force that has a Program.
func promising(t *testing.T, p *ir.Program) *emit.Ruleset {
	t.Helper()
	p.Options.MasqueradeMark = 0x4000
	var b strings.Builder
	if err := p.Print(&b, false); err != nil {
		t.Fatal(err)
	}
	rs := &emit.Ruleset{Head: emit.Head{Mode: "iptables"}, Programs: []string{b.String()}}
	if _, err := rs.ReadPrograms(); err != nil {
		t.Fatal(err)
	}
	return rs
}

// amiss gives what is not ok: "id state".
func amiss(findings []doctor.Finding) (out []string) {
	for _, f := range findings {
		if f.State != doctor.OK {
			out = append(out, f.ID+" "+string(f.State))
		}
	}
	return out
}

const legacySave = "*nat\n:PREROUTING ACCEPT [0:0]\n:KUBE-SERVICES - [0:0]\nCOMMIT\n"

func TestFindings(t *testing.T) {
	missing := fmt.Errorf("cannot run: %w", exec.ErrNotFound)
	refused := errors.New("Extension is not supported, missing kernel module?")
	for _, c := range []struct {
		name   string
		change func(*node)
		want   []string
		todo   string // a word that the first finding's advice has
	}{
		{"all is fine", func(*node) {}, nil, ""},
		{"all is fine, and programs are not known", func(n *node) { n.Programs = nil }, nil, ""},

		{"no iptables at all", func(n *node) {
			for _, tool := range []string{"iptables", "ip6tables", "iptables-save", "ip6tables-save", "iptables-restore", "ip6tables-restore"} {
				n.fails[tool] = missing
			}
		}, []string{"tools.ipv4 fail", "tools.ipv6 fail", "flavours unknown", "kernel.ipv4 unknown", "kernel.ipv6 unknown"}, "install"},
		{"no ip6tables-restore", func(n *node) { n.fails["ip6tables-restore"] = missing }, []string{"tools.ipv6 fail", "kernel.ipv6 unknown"}, "install"},
		{"no ip6tables-restore, no IPv6 Services", func(n *node) { n.fails["ip6tables-restore"], n.Programs = missing, n.Programs[:1] },
			[]string{"tools.ipv6 warn", "kernel.ipv6 warn"}, "install"},
		{"tools by a relative $PATH", func(n *node) {
			for _, tool := range []string{"iptables", "ip6tables"} {
				n.fails[tool] = exec.ErrDot
			}
		}, []string{"tools.ipv4 fail", "tools.ipv6 fail", "flavours unknown", "kernel.ipv4 unknown", "kernel.ipv6 unknown"}, "$PATH"},
		{"nft by a relative $PATH", func(n *node) { n.fails["nft"] = exec.ErrDot }, []string{"policies.nftables unknown"}, "$PATH"},
		{"saves by a relative $PATH", func(n *node) { n.fails["ip6tables-save"] = exec.ErrDot }, []string{"policies.ipv6 unknown"}, "$PATH"},
		{"iptables-nft 1.8.2", func(n *node) { n.says["iptables --version"] = "iptables v1.8.2 (nf_tables)" }, []string{"tools.ipv4 fail"}, "1.8.3"},
		{"iptables-nft 1.8.8", func(n *node) { n.says["iptables --version"] = "iptables v1.8.8 (nf_tables)" }, []string{"tools.ipv4 warn"}, "another version"},
		{"iptables 1.4.21", func(n *node) { n.says["ip6tables --version"] = "ip6tables v1.4.21" }, []string{"tools.ipv6 fail", "tools.flavour fail"}, "1.6.2"},
		{"two flavours", func(n *node) { n.says["ip6tables --version"] = "ip6tables v1.8.2 (legacy)" }, []string{"tools.flavour fail"}, "update-alternatives"},

		{"rules in legacy", func(n *node) {
			n.write("proc/thread-self/net/ip_tables_names", "nat\n")
			n.says["iptables-legacy-save"] = legacySave
		}, []string{"flavours.ipv4 fail"}, "svcc remove"},
		{"kubelet's rules in legacy", func(n *node) {
			n.write("proc/thread-self/net/ip6_tables_names", "nat\n")
			n.says["ip6tables-legacy-save"] = "*nat\n:KUBE-MARK-MASQ - [0:0]\n:KUBE-KUBELET-CANARY - [0:0]\nCOMMIT\n"
		}, nil, ""},
		{"legacy tables and nobody to show them", func(n *node) {
			n.write("proc/thread-self/net/ip_tables_names", "nat\n")
			n.fails["iptables-legacy-save"] = missing
		}, []string{"flavours.ipv4 unknown"}, "install"},
		{"rules in nft", func(n *node) {
			n.says["iptables --version"], n.says["ip6tables --version"] = "iptables v1.8.9 (legacy)", "ip6tables v1.8.9 (legacy)"
			n.says["ip6tables-nft-save"] = legacySave
		}, []string{"flavours.ipv6 fail"}, "svcc remove"},

		{"no nf_tables", func(n *node) {
			n.says["iptables --version"], n.says["ip6tables --version"] = "iptables v1.8.9 (legacy)", "ip6tables v1.8.9 (legacy)"
			n.fails["ip6tables-nft-save"] = errors.New("ip6tables-nft-save v1.8.9 (nf_tables): Could not fetch rule set generation id: Invalid argument")
		}, nil, ""},

		{"no capabilities", func(n *node) { n.write("proc/thread-self/status", "CapEff:\t0000000000000000\n") },
			[]string{"capabilities.net_admin fail", "capabilities.sys_admin warn"}, "CAP_NET_ADMIN"},
		{"legacy without CAP_NET_RAW", func(n *node) {
			n.says["iptables --version"], n.says["ip6tables --version"] = "iptables v1.8.9 (legacy)", "ip6tables v1.8.9 (legacy)"
			n.write("proc/thread-self/status", "CapEff:\t0000000000201000\n")
		}, []string{"capabilities.net_raw fail"}, "CAP_NET_RAW"},

		{"no xt_recent", func(n *node) { n.fails["-m recent"] = refused }, []string{"kernel.ipv4.recent fail", "kernel.ipv6.recent fail"}, "xt_recent"},
		{"no MASQUERADE in IPv6, without IPv6 Services", func(n *node) { n.fails["MASQUERADE"], n.Programs = refused, n.Programs[:1] },
			[]string{"kernel.ipv4.MASQUERADE fail", "kernel.ipv6.MASQUERADE warn"}, "xt_MASQUERADE"},
		{"no namespaces", func(n *node) { n.fails["isolated"] = syscall.EPERM }, []string{"kernel.ipv4 unknown", "kernel.ipv6 unknown"}, "CAP_SYS_ADMIN"},
		{"no IPv6", func(n *node) { n.remove("proc/thread-self/net/if_inet6") }, []string{"kernel.ipv6 fail"}, "ipv6.disable"},
		{"no IPv6 and none wanted", func(n *node) { n.remove("proc/thread-self/net/if_inet6"); n.Programs = n.Programs[:1] }, nil, ""},
		{"no nf_conntrack_netlink", func(n *node) { n.Flows = func() error { return syscall.EINVAL } }, []string{"conntrack warn"}, "nf_conntrack_netlink"},
		{"no right to ask", func(n *node) { n.Flows = func() error { return syscall.EPERM } }, []string{"conntrack unknown"}, "CAP_NET_ADMIN"},

		{"FORWARD drops", func(n *node) {
			n.says["iptables-save -t filter"] = "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD DROP [1:60]\n:DOCKER - [0:0]\nCOMMIT\n"
		}, []string{"policies.ipv4 warn"}, "iptables -P FORWARD ACCEPT"},
		{"firewalld drops", func(n *node) {
			n.says["nft -j list chains"] = `{"nftables": [{"chain": {"family": "inet", "table": "firewalld", "name": "filter_FORWARD", "hook": "forward", "policy": "drop"}}]}`
		}, []string{"policies.nftables warn"}, "firewalld"},
		{"no nft", func(n *node) { n.fails["nft"] = missing }, []string{"policies.nftables unknown"}, "nftables"},
		{"nft speaks otherwise", func(n *node) { n.says["nft -j list chains"] = "?" }, []string{"policies.nftables unknown"}, "nft list ruleset"},

		{"no forwarding", func(n *node) { n.write("proc/sys/net/ipv4/ip_forward", "0\n") }, []string{"sysctl.forwarding.ipv4 fail"}, "net.ipv4.ip_forward=1"},
		{"no forwarding in a family without Services", func(n *node) {
			n.write("proc/sys/net/ipv6/conf/all/forwarding", "0\n")
			n.Programs = n.Programs[:1]
		}, nil, ""},
		{"no route_localnet before an apply that sets it", func(n *node) { n.write("proc/sys/net/ipv4/conf/all/route_localnet", "0\n") }, nil, ""},
		{"no route_localnet any more", func(n *node) {
			n.write("proc/sys/net/ipv4/conf/all/route_localnet", "0\n")
			n.InForce = promising(n.T, n.Programs[0])
		}, []string{"sysctl.route_localnet fail"}, "route_localnet=1"},
		{"no route_localnet, no localhost node ports", func(n *node) {
			n.write("proc/sys/net/ipv4/conf/all/route_localnet", "0\n")
			n.Programs[0].Options.LocalhostNodePorts = false
		}, nil, ""},
		{"bridges bypass", func(n *node) { n.write("proc/sys/net/bridge/bridge-nf-call-ip6tables", "0\n") }, []string{"sysctl.bridge.ipv6 warn"}, "bridge-nf-call-ip6tables=1"},
		{"no br_netfilter", func(n *node) { n.remove("proc/sys/net/bridge") }, nil, ""},
		{"rules spare invalid packets", func(n *node) { n.Programs[1].Options.DropInvalid = false }, []string{"sysctl.be_liberal fail"}, "be_liberal=1"},
		{"rules drop invalid packets needlessly", func(n *node) { n.write("proc/sys/net/netfilter/nf_conntrack_tcp_be_liberal", "1\n") }, nil, ""},
		{"strict, two ways out", func(n *node) { n.write("proc/thread-self/net/route", routes("eth0", "eth1")) }, []string{"sysctl.rp_filter warn"}, "rp_filter=2"},
		{"loose, two ways out", func(n *node) {
			n.write("proc/thread-self/net/route", routes("eth0", "eth1"))
			n.write("proc/sys/net/ipv4/conf/all/rp_filter", "2\n")
		}, nil, ""},

		{"short lists", func(n *node) { n.write("sys/module/xt_recent/parameters/ip_list_tot", "100\n") }, []string{"affinity warn"}, "ip_list_tot=10000"},
		{"no lists", func(n *node) { n.remove("sys/module/xt_recent") }, []string{"affinity unknown"}, "modprobe"},
		{"no affinity", func(n *node) {
			n.remove("sys/module/xt_recent")
			n.Programs[0].Services[0].AffinitySeconds, n.Programs[1].Services[0].AffinitySeconds = 0, 0
		}, nil, ""},
		{"left of IPVS mode", func(n *node) { n.virtual.link = true }, []string{"modes warn"}, "svcc remove"},
		{"IPVS mode in force", func(n *node) { n.virtual.link, n.InForce = true, inForce() }, nil, ""},
		{"a strange kube-ipvs0", func(n *node) { n.virtual.linkErr = errors.New("no dummy device") }, []string{"modes unknown"}, "ip address"},
		{"kube-proxy runs", func(n *node) { n.write("proc/4711/comm", "kube-proxy\n") }, []string{"kube-proxy fail"}, "stop it"},

		{"state directory", func(n *node) { n.state(0o700, "") }, nil, ""},
		{"state is a file", func(n *node) { n.StateDir = filepath.Join(n.Root, "proc/1/comm") }, []string{"state fail"}, "--state-dir"},
		{"anybody may write the state", func(n *node) { n.state(0o777, "") }, []string{"state fail"}, "chmod"},
		{"an interrupted run", func(n *node) { n.state(0o700, `{"undo":"`+strings.Repeat("0", 64)+`"}`) }, []string{"state warn"}, "svcc apply"},
		{"a broken journal", func(n *node) { n.state(0o700, "{") }, []string{"state fail"}, "remove"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := healthy(t)
			n.Programs = both()
			c.change(n)
			got := n.Examine(context.Background())
			if diff := cmp.Diff(c.want, amiss(got)); diff != "" {
				t.Errorf("(-want +got):\n%s\n%+v", diff, got)
			}
			if doctor.Works(got, true) != (len(c.want) == 0) {
				t.Errorf("strictly, it works: %v", doctor.Works(got, true))
			}
			grave := slices.ContainsFunc(c.want, func(w string) bool { return !strings.HasSuffix(w, " warn") })
			if doctor.Works(got, false) == grave {
				t.Errorf("it works: %v", doctor.Works(got, false))
			}
			checkAdvice(t, got, c.todo)
		})
	}
}

// state makes a state directory.
func (n *node) state(mode os.FileMode, journal string) {
	n.Helper()
	if err := os.Mkdir(n.StateDir, 0o700); err != nil {
		n.Fatal(err)
	}
	if journal != "" {
		if err := os.WriteFile(filepath.Join(n.StateDir, "journal.json"), []byte(journal), 0o600); err != nil {
			n.Fatal(err)
		}
	}
	if err := os.Chmod(n.StateDir, mode); err != nil {
		n.Fatal(err)
	}
}

// checkAdvice: each finding says what to do, in one line; what is fine does not.
func checkAdvice(t *testing.T, findings []doctor.Finding, word string) {
	t.Helper()
	first := true
	ids := map[string]bool{}
	for _, f := range findings {
		if (f.Todo == "") != (f.State == doctor.OK) || strings.ContainsAny(f.Text+f.Todo, "\n") {
			t.Errorf("%s %s: %q -> %q", f.ID, f.State, f.Text, f.Todo)
		}
		if ids[f.ID] {
			t.Errorf("two findings by the name of %s", f.ID)
		}
		ids[f.ID] = true
		if f.State != doctor.OK && first {
			first = false
			if !strings.Contains(f.Todo, word) {
				t.Errorf("%s: %q does not speak of %q", f.ID, f.Todo, word)
			}
		}
	}
}

func TestFixSetsWhatWasNamed(t *testing.T) {
	n := healthy(t)
	n.Programs = both()
	n.write("proc/sys/net/ipv4/ip_forward", "0\n")
	n.write("proc/sys/net/bridge/bridge-nf-call-iptables", "0\n")
	n.write("proc/4711/comm", "kube-proxy\n")
	was, err := n.Fix(n.Examine(context.Background()))
	if err != nil || len(was) != 2 || was[0].Name != "net/ipv4/ip_forward" || was[0].Value != "0" || was[1].Name != "net/bridge/bridge-nf-call-iptables" {
		t.Errorf("%v, %v; want the two settings", was, err)
	}
	if diff := cmp.Diff([]string{"kube-proxy fail"}, amiss(n.Examine(context.Background()))); diff != "" {
		t.Errorf("afterwards (-want +got):\n%s", diff)
	}
}

// Findings are named after their checks, so that --list explains them.
func TestFindingsBelongToChecks(t *testing.T) {
	n := healthy(t)
	used := map[string]bool{}
	for _, n.Mode = range []*mode.Mode{nil, mode.IPVS} {
		for _, f := range n.Examine(context.Background()) {
			id, _, _ := strings.Cut(f.ID, ".")
			used[id] = true
		}
	}
	for _, c := range doctor.Checks {
		if !used[c.ID] || c.Doc == "" {
			t.Errorf("check %q: finds something: %v; doc %q", c.ID, used[c.ID], c.Doc)
		}
		delete(used, c.ID)
	}
	if len(used) > 0 {
		t.Errorf("findings without a check: %v", used)
	}
}
