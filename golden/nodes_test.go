package golden

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf16"

	"svcc/ir"
)

// clusterFlags compile for node-a of testdata/nodes.
var clusterFlags = []string{"testdata/nodes/cluster.yaml", "--node=node-a", "--cluster-cidr=10.244.0.0/16", "-q"}

func nodeDump(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata/nodes", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// nodes are ordinary nodes of older kube-proxies and of other programs. Their
// rules are what the manifests say; with one rule broken, the Service is named
// whose rule it is ("" if it is nobody's).
var nodes = []struct {
	name       string
	rule, made string // regular expression and replacement
	service    string
	notes      []string // what is said all the same
}{
	{"1.20-docker-flannel", `(-A KUBE-SEP-\S+ .*--to-destination) 10\.244\.2\.5:8080`, "$1 10.244.2.99:8080", "shop/web:http/tcp",
		[]string{"note: the rules are of a kube-proxy before 1.22 (KUBE-MARK-MASQ called from KUBE-SERVICES)"}},
	{"1.20-kubelet-first", `(?m)^.*-A KUBE-NODEPORTS -p tcp .*health check node port.*\n`, "", "shop/edge:https/tcp",
		[]string{"note: INPUT calls KUBE-FIREWALL after KUBE-NODEPORTS"}},
	{"1.22-docker", `(?m)^-A KUBE-XLB-\S+ -m comment --comment "shop/lonely:http has no local endpoints" .*\n`, "", "shop/lonely:http/tcp",
		[]string{"note: the rules are of a kube-proxy before 1.24 (KUBE-XLB- chains, two conntrack rules in KUBE-FORWARD)"}},
	{"1.22-flannel-nodelocaldns", `(?m)^-A KUBE-SERVICES -d 203\.0\.113\.9/32 .*\n`, "", "shop/partner:http/tcp",
		[]string{"takes packets for kube-system/kube-dns:dns/udp (10.96.0.10:53/udp) before kube-proxy's rules see them: table raw: line 7: -A PREROUTING -d 10.96.0.10/32 -p udp "}},
	{"1.24-calico", `(-A KUBE-SVC-\S+ .*"shop/web:http -> 10\.244\.1\.5:8080" .*--probability) \S+`, "$1 0.50000000000", "shop/web:http/tcp",
		[]string{"note: the rules are of a kube-proxy from 1.24 to 1.25 (jumps to KUBE-MARK-DROP)"}},
	{"1.24-docker", `(?m)^-A KUBE-MARK-MASQ .*\n`, "", "shop/web:http/tcp", nil},
	{"1.26-nodelocaldns", `(?m)^-A KUBE-EXTERNAL-SERVICES .*"shop/lonely:http has no local endpoints" .*\n`, "", "shop/lonely:http/tcp",
		[]string{"takes packets for kube-system/kube-dns:dns-tcp/tcp (10.96.0.10:53/tcp)"}},
	{"1.28-k3s", `(?m)^-A KUBE-EXT-\S+ -s 10\.244\.0\.0/16 .*"pod traffic for shop/edge:https .*\n`, "", "shop/edge:https/tcp", nil},
	{"1.28-calico-nodelocaldns", `(?m)^-A KUBE-FIREWALL .*block incoming localnet.*\n`, "", "",
		[]string{"note: INPUT calls KUBE-FIREWALL after KUBE-PROXY-FIREWALL"}},
	{"1.33-aws", `(-A KUBE-NODEPORTS -p tcp .*"shop/admin" .*--dport) 30443`, "$1 30449", "shop/admin/tcp", nil},
}

func TestNodes(t *testing.T) {
	for _, c := range nodes {
		t.Run(c.name, func(t *testing.T) {
			dump := nodeDump(t, c.name+".txt")
			agrees(t, "the node", dump, []ir.Family{ir.IPv4}, clusterFlags...)
			_, stdout, _ := verifyText(t, dump, clusterFlags...)
			for _, note := range c.notes {
				if !strings.Contains(stdout, note) {
					t.Errorf("nothing says %q:\n%s", note, stdout)
				}
			}
			broken := regexp.MustCompile(c.rule).ReplaceAllString(dump, c.made)
			if strings.Count(broken, "\n") < strings.Count(dump, "\n")-1 || broken == dump {
				t.Fatalf("%s breaks more than one rule, or none", c.rule)
			}
			code, stdout, stderr := verifyText(t, broken, clusterFlags...)
			blamed := "ipv4: packet new "
			if c.service != "" {
				blamed = "ipv4: packet " + c.service + ": "
			}
			if code != 1 || !strings.Contains(stdout, blamed) || !strings.Contains(stdout, " packets differ, of ") {
				t.Errorf("without the rule: exit %d\n%s%s", code, stdout, stderr)
			}
		})
	}
}

// Each dump has a row.
func TestNodesAreComplete(t *testing.T) {
	files, err := filepath.Glob("testdata/nodes/*.txt")
	if err != nil || len(files) != len(nodes) {
		t.Fatalf("%d dumps for %d rows, %v", len(files), len(nodes), err)
	}
}

// What an old kube-proxy does otherwise is a difference, told with the version
// that did it; nothing else of the node is.
func TestNodesExplained(t *testing.T) {
	flags := append([]string{"testdata/nodes/explained/guarded.yaml"}, clusterFlags...)
	for name, want := range map[string][]string{
		"1.16": {
			"note: the rules are of a kube-proxy before 1.17 (probabilities of five digits)",
			"note: masqueraded packets keep mark 0x4000",
			"kube-proxy before 1.26 does this: it marks what is to be dropped (KUBE-MARK-DROP)", "of shop/guarded:https/tcp)",
			"kube-proxy before 1.20 does this: it leaves the node's own packets to an external IP to the network (", " of shop/partner:http/tcp)",
			"kube-proxy before 1.20 does this: it does not open health-check node ports",
			"of 3 service ports\n",
		},
		"1.22": {"kube-proxy before 1.26 does this: it marks what is to be dropped (KUBE-MARK-DROP)", " packets of shop/guarded:https/tcp)", ", of 1 service port\n"},
	} {
		code, stdout, stderr := verifyText(t, nodeDump(t, "explained/"+name+".txt"), flags...)
		if code != 1 {
			t.Errorf("%s: exit %d\n%s%s", name, code, stdout, stderr)
		}
		for _, s := range want {
			if !strings.Contains(stdout, s) {
				t.Errorf("%s: nothing says %q:\n%s", name, s, stdout)
			}
		}
	}
	// A fault in such rules is none of the version's.
	dump := strings.Replace(nodeDump(t, "explained/1.22.txt"), "--to-destination 10.244.2.5:8080", "--to-destination 10.244.2.99:8080", 1)
	if _, stdout, _ := verifyText(t, dump, flags...); !strings.Contains(stdout, "ipv4: packet shop/web:http/tcp: ") {
		t.Errorf("the fault is not told:\n%s", stdout)
	}
}

// A kube-proxy in IPVS mode before 1.26 has no KUBE-IPVS-FILTER: what nobody
// refuses is explained, once.
func TestNodesExplainedIPVS(t *testing.T) {
	dir := t.TempDir() + "/"
	if code, _, stderr := run(append([]string{"build", "--mode=ipvs", "-O0", "-o", dir}, clusterFlags...)...); code != 0 {
		t.Fatalf("exit %d\n%s", code, stderr)
	}
	var dump string
	for _, name := range []string{"ipset.rules", "iptables.rules", "addresses.ip", "ipvs.rules"} {
		text, err := os.ReadFile(dir + name)
		if err != nil {
			t.Fatal(err)
		}
		dump += string(text)
	}
	flags := append([]string{"-O0"}, clusterFlags...)
	agrees(t, "as built", dump, []ir.Family{ir.IPv4}, flags...)
	code, stdout, stderr := verifyText(t, regexp.MustCompile(`(?m)^.*KUBE-IPVS-FILTER.*\n`).ReplaceAllString(dump, ""), flags...)
	if code != 1 || strings.Count(stdout, "ipv4: packet ") != 1 || !strings.Contains(stdout, "(IPVS mode without KUBE-IPVS-FILTER)") ||
		!strings.Contains(stdout, "kube-proxy before 1.26 does this: it does not refuse, in IPVS mode, ports that no Service has") {
		t.Errorf("exit %d\n%s%s", code, stdout, stderr)
	}
}

// What an old kube-proxy does with node ports at ::1 reaches nobody: a note.
func TestNodesAtLoopback(t *testing.T) {
	const manifests = `apiVersion: v1
kind: Service
metadata: {name: six, namespace: shop}
spec: {type: NodePort, clusterIP: "fd00:96::10", clusterIPs: ["fd00:96::10"], ipFamilies: [IPv6], ports: [{port: 80, nodePort: 30080}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: six-1, namespace: shop, labels: {kubernetes.io/service-name: six}}
addressType: IPv6
ports: [{port: 8080}]
endpoints: [{addresses: ["fd00:10::5"], conditions: {ready: true}}]
`
	dir := t.TempDir()
	flags := []string{dir + "/six.yaml", "--cluster-cidr=fd00:10::/64", "-q"}
	if err := os.WriteFile(flags[0], []byte(manifests), 0o600); err != nil {
		t.Fatal(err)
	}
	_, text, _ := run(append([]string{"build", "-O0"}, flags...)...)
	dump := "# Generated by ip6tables-save v1.8.7\n" + text[strings.Index(text, "*filter"):strings.Index(text, "#: program")]
	old := strings.Replace(dump, " ! -d ::1/128", "", 1)
	if old == dump {
		t.Fatalf("nothing to leave out of\n%s", dump)
	}
	code, stdout, stderr := verifyText(t, old, flags...)
	if code != 0 || !strings.Contains(stdout, "ipv6: note: node ports are answered at ::1 too, as under kube-proxy before 1.26") {
		t.Errorf("exit %d\n%s%s", code, stdout, stderr)
	}
}

// However a dump came to be a file, it is read.
func TestNodesAsPasted(t *testing.T) {
	dump := nodeDump(t, "1.20-kubelet-first.txt")
	units := utf16.Encode([]rune("\ufeff" + strings.ReplaceAll(dump, "\n", "\r\n")))
	wide := make([]byte, 0, 2*len(units))
	for _, u := range units {
		wide = append(wide, byte(u), byte(u>>8))
	}
	for name, text := range map[string]string{
		"CR LF":        strings.ReplaceAll(dump, "\n", "\r\n"),
		"a mark":       "\xef\xbb\xbf" + dump,
		"UTF-16":       string(wide),
		"a prompt":     "root@node-a:~# iptables-save -c\n" + dump + "root@node-a:~# exit\nlogout\nConnection to node-a closed.\n",
		"another":      "[root@node-a ~]# iptables-save\r\n" + dump + "[root@node-a ~]# ",
		"kubectl":      "Defaulted container \"kube-proxy\" out of: kube-proxy, init (init)\n" + dump,
		"an indent":    "  " + strings.ReplaceAll(dump, "\n", "\n  "),
		"a bash error": dump + "-bash: ip6tables-save: command not found\n",
	} {
		agrees(t, name, text, []ir.Family{ir.IPv4}, clusterFlags...)
	}
}

// What is no dump is told for what it is, and what a dump lacks is named.
func TestNodesInOtherForms(t *testing.T) {
	dump := nodeDump(t, "1.28-k3s.txt")
	nat := dump[strings.Index(dump, "*nat"):strings.Index(dump, "*filter")]
	var listed strings.Builder // as iptables -t nat -S prints it
	listed.WriteString("-P PREROUTING ACCEPT\n-P OUTPUT ACCEPT\n-N KUBE-SERVICES\n")
	for line := range strings.Lines(nat) {
		if strings.HasPrefix(line, "-A ") {
			listed.WriteString(line)
		}
	}
	for name, c := range map[string]struct{ text, want string }{
		"iptables -S":      {listed.String(), `this is what "iptables -S" prints: what iptables-save prints is wanted`},
		"behind a prompt":  {"$ sudo iptables -S\r\n" + strings.ReplaceAll(listed.String(), "\n", "\r\n"), `this is what "iptables -S" prints`},
		"iptables -L":      {"Chain INPUT (policy ACCEPT)\ntarget     prot opt source               destination\nKUBE-FIREWALL  all  --  anywhere             anywhere\n", `this is what "iptables -L" prints`},
		"iptables -nvL":    {"Chain INPUT (policy ACCEPT 5 packets, 600 bytes)\n pkts bytes target\n", `this is what "iptables -L" prints`},
		"nft list ruleset": {"table ip nat {\n\tchain KUBE-SERVICES {\n\t}\n}\n", `this is what "nft list ruleset" prints`},
		"grep":             {listed.String()[strings.Index(listed.String(), "-A "):], "these are rules without their tables"},
		"ipvsadm -Ln":      {"IP Virtual Server version 1.2.1 (size=4096)\nProt LocalAddress:Port Scheduler Flags\n", `this is what "ipvsadm -L" prints: what ipvsadm -Sn`},
		"ipset list":       {"Name: KUBE-CLUSTER-IP\nType: hash:ip,port\nRevision: 5\n", `this is what "ipset list" prints: what ipset save`},
		"only nat":         {nat, `table filter is missing: append what "iptables-save -t filter" prints`},
		"only filter":      {dump[strings.Index(dump, "*filter"):], `table nat is missing: append what "iptables-save -t nat" prints`},
		"incompatible": {strings.Replace(dump, nat, "", 1) + "# Table `nat' is incompatible, use 'nft' tool.\n",
			"table nat is missing: iptables-save left it out, since nft has put something there that iptables cannot express"},
		"twice": {dump + dump, `table "mangle" is there twice`},
	} {
		code, stdout, stderr := verifyText(t, c.text, clusterFlags...)
		if code != 2 || !strings.Contains(stderr, c.want) || strings.Contains(stdout, "packet ") {
			t.Errorf("%s: exit %d, want %q\n%s%s", name, code, c.want, stdout, stderr)
		}
	}
}

// A rule that the printing tool garbled is its endpoint's fault: the others are
// held to what they should do.
func TestNodesWithGarbledRules(t *testing.T) {
	dump := nodeDump(t, "1.24-docker.txt")
	for _, garbled := range []string{"-j DNAT --to-destination  --random --to-destination", "-j DNAT --to-destination :0 --persistent --to-destination :0 --persistent", "-j DNAT [unsupported revision]"} {
		code, stdout, stderr := verifyText(t, strings.Replace(dump, "-j DNAT --to-destination 10.244.2.5:8080", garbled, 1), clusterFlags...)
		if code != 1 || !strings.Contains(stdout, "ipv4: packet shop/web:http/tcp: ") || !strings.Contains(stdout, "cannot be read (") ||
			!strings.Contains(stdout, "an iptables of another version") || !strings.HasSuffix(stdout, ", of 1 service port\n") {
			t.Errorf("%s: exit %d\n%s%s", garbled, code, stdout, stderr)
		}
	}
}

// A rule of another program that packets for a Service meet first is told, with
// the Service, and is no difference. What comes after, or is about something
// else, is not told.
func TestNodesCaptured(t *testing.T) {
	dump := nodeDump(t, "1.24-docker.txt")
	first := "-A PREROUTING -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES\n"
	for rule, want := range map[string]string{
		"-A PREROUTING -d 10.96.0.20/32 -p tcp -m tcp --dport 80 -j DNAT --to-destination 6.6.6.6:80\n":               "rule takes packets for shop/web:http/tcp (10.96.0.20:80/tcp) before",
		"-A PREROUTING -d 10.96.0.20/32 -p tcp -m tcp --dport 80 -j REDIRECT --to-ports 8080\n":                       "rule takes packets for shop/web:http/tcp ",
		"-A PREROUTING -d 10.96.0.20/32 -j ACCEPT\n":                                                                  "rule takes packets for shop/web:http/tcp ",
		"-A PREROUTING -s 203.0.113.0/24 -d 10.96.0.20/32 -j DNAT --to-destination 6.6.6.6\n":                         "rule may take packets for shop/web:http/tcp ",
		"-A PREROUTING -i eth7 -p tcp -m multiport --dports 30443 -j DNAT --to-destination 6.6.6.6\n":                 "rule may take packets for shop/admin/tcp (192.0.2.10:30443/tcp) before",
		"-A PREROUTING -d 10.96.0.20/32 -p tcp -m geoip --src-cc XX -j REDIRECT --to-ports 8080\n":                    "rule may take packets for shop/web:http/tcp ",
		"-A PREROUTING -p tcp -j DOCKER\n-A DOCKER -p tcp -m tcp --dport 80 -j DNAT --to-destination 172.17.0.3:80\n": "rule takes packets for shop/cart:http/tcp, shop/empty:http/tcp, shop/lonely:http/tcp, shop/web:http/tcp (",
		"-A PREROUTING -j RETURN\n": "rule takes packets for default/kubernetes:https/tcp, kube-system/kube-dns:dns-tcp/tcp, kube-system/kube-dns:dns/udp, shop/admin/tcp, shop/cart:http/tcp, and 5 more (",
		"-A PREROUTING -d 10.96.0.99/32 -p tcp -m tcp --dport 80 -j DNAT --to-destination 6.6.6.6:80\n":                       "",
		"-A PREROUTING -s 172.17.0.0/16 -j ACCEPT\n":                                                                          "",
		"-A POSTROUTING -d 10.96.0.20/32 -j ACCEPT\n":                                                                         "",
		"-A PREROUTING -d 10.96.0.20/32 -p tcp -m tcp --dport 80 -m comment --comment \"KUBE\" -j MARK --set-xmark 0x0/0x1\n": "",
	} {
		code, stdout, stderr := verifyText(t, strings.Replace(dump, first, rule+first, 1), clusterFlags...)
		told := strings.Contains(stdout, "before kube-proxy's rules see them: table nat: line ")
		if code != 0 || told != (want != "") || !strings.Contains(stdout, want) {
			t.Errorf("%s: exit %d, want %q\n%s%s", rule, code, want, stdout, stderr)
		}
	}
	rule := "-A PREROUTING -d 10.96.0.20/32 -p tcp -m tcp --dport 80 -j DNAT --to-destination 6.6.6.6:80\n"
	if _, stdout, _ := verifyText(t, strings.Replace(dump, first, first+rule, 1), clusterFlags...); strings.Contains(stdout, "before kube-proxy's") {
		t.Errorf("behind kube-proxy's rules, too, it is told:\n%s", stdout)
	}
}
