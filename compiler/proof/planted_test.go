package proof_test

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"svcc/compiler"
	"svcc/compiler/proof"
	"svcc/emit"
	"svcc/emit/iptables"
	"svcc/ir"
)

// fault is a mistake that an emitter could make.
type fault struct {
	name    string
	service string // that the error must name; "" where no service is concerned
	edit    edit
}

const (
	web    = "demo/web:http/tcp"
	api    = "demo/api:x/tcp"
	same   = "demo/same-number:x/tcp"
	shop   = "demo/shop:https/tcp"
	office = "demo/office:x/tcp"
	far    = "demo/far:x/tcp"
	near   = "demo/near:x/tcp"
	away   = "demo/away:x/tcp"
	dns    = "demo/dns:dns/udp"
	sticky = "demo/sticky:x/tcp"
	empty  = "demo/empty:x/tcp"
)

var sharing = []fault{
	{"a probability is too high", web, change("-A KUBE-SVC-{demo/web:http} .*10.244.1.5", "0.3333333333", "0.5000000000")},
	{"a probability is a little too high", web, change("-A KUBE-SVC-{demo/web:http} .*10.244.1.5", "0.3333333333", "0.3343333333")},
	{"a probability is missing", web, change("-A KUBE-SVC-{demo/web:http} .*10.244.1.5", "-m statistic --mode random --probability 0.3333333333 ", "")},
	{"probabilities are swapped", web, func(text string) string {
		chain := "-A KUBE-SVC-{demo/web:http} .*"
		text = change(chain+"10.244.1.5", "0.3333333333", "0.5")(text)
		return change(chain+"10.244.2.7", "0.5000000000", "0.3333333333")(text)
	}},
	{"the last endpoint has a probability as well", web, change("-A KUBE-SVC-{demo/web:http} .*10.244.3.9", " -j", " -m statistic --mode random --probability 0.5000000000 -j")},
	{"a rule is written twice", web, twice("-A KUBE-SVC-{demo/web:http} .*10.244.1.5")},
	{"an endpoint is missing", web, without("-A KUBE-SVC-{demo/web:http} .*10.244.2.7")},
	{"the last endpoint is missing", web, without("-A KUBE-SVC-{demo/web:http} .*10.244.3.9")},
	{"an endpoint of the local list is missing", sticky, without("-A KUBE-SVL-{demo/sticky:x} .*10.244.1.55")},
	{"the local list has a remote endpoint as well", shop, func(text string) string {
		sep := regexp.MustCompile(`"demo/shop:https -> 10.244.2.8:8443" -j (\S+)`).FindStringSubmatch(text)[1]
		return change("-A KUBE-SVL-{demo/shop:https} ", " -j", " -m statistic --mode random --probability 0.5000000000 -j")(
			after("-A KUBE-SVL-{demo/shop:https} ", "-A KUBE-SVL-{demo/shop:https} -j "+sep)(text))
	}},
	{"an endpoint is another service's", web, func(text string) string {
		sep := regexp.MustCompile(`"demo/near:x -> \S+" -j (\S+)`).FindStringSubmatch(text)[1]
		return editLines("-A KUBE-SVC-{demo/web:http} .*10.244.3.9", func(line string) []string {
			return []string{line[:strings.Index(line, "KUBE-SEP-")] + sep}
		})(text)
	}},
}

var rewriting = []fault{
	{"DNAT to a wrong port", web, change("--to-destination 10.244.2.7:8080", "7:8080", "7:8081")},
	{"DNAT to a wrong address", web, change("--to-destination 10.244.2.7:8080", "10.244.2.7", "10.244.2.8")},
	{"DNAT without a port", web, change("--to-destination 10.244.2.7:8080", ":8080", "")},
	{"no DNAT", web, without("--to-destination 10.244.2.7:8080")},
	{"DNAT for another protocol", dns, change("--to-destination 10.244.2.53:5353", "-m udp -p udp", "-m tcp -p tcp")},
	{"chains of two services are swapped", api, change(`-A KUBE-SERVICES .*"demo/api:x cluster IP"`, "{demo/api:x}", "{demo/web:http}")},
	{"the chains for TCP and UDP are swapped", dns, change(`-A KUBE-SERVICES .*"demo/dns:dns cluster IP"`, "{demo/dns:dns}", "{demo/dns:dns-tcp}")},
	{"a cluster IP is missing", web, without(`-A KUBE-SERVICES .*"demo/web:http cluster IP"`)},
	{"a cluster IP is another", web, change(`-A KUBE-SERVICES .*"demo/web:http cluster IP"`, "10.96.0.10", "10.96.0.11")},
	{"a cluster IP has another port", web, change(`-A KUBE-SERVICES .*"demo/web:http cluster IP"`, "--dport 80", "--dport 81")},
	{"a cluster IP serves every port", web, change(`-A KUBE-SERVICES .*"demo/web:http cluster IP"`, "--dport 80 ", "")},
	{"a port serves at every address", "", change(`-A KUBE-SERVICES .*"demo/same-number:x cluster IP"`, "-d 10.96.0.31 --dport 30080 ", "--dport 9 ")},
	{"TCP for UDP", dns, change(`-A KUBE-SERVICES .*"demo/dns:dns cluster IP"`, "-m udp -p udp", "-m tcp -p tcp")},
	{"any protocol", dns, change(`-A KUBE-SERVICES .*"demo/dns:dns cluster IP"`, "-m udp -p udp -d 10.96.0.53 --dport 53", "-d 10.96.0.53")},
	{"internal policy Local leads to the cluster's list", near, func(text string) string {
		sep := regexp.MustCompile(`"demo/web:http -> 10.244.2.7:8080" .*-j (\S+)`).FindStringSubmatch(text)[1]
		return change(`-A KUBE-SVL-{demo/near:x} .* -> `, " -j", " -m statistic --mode random --probability 0.5 -j")(
			after(`-A KUBE-SVL-{demo/near:x} .* -> `, "-A KUBE-SVL-{demo/near:x} -j "+sep)(text))
	}},
}

var masquerading = []fault{
	{"no masquerade for strangers at a cluster IP", web, without(`-A KUBE-SVC-{demo/web:http} .*KUBE-MARK-MASQ`)},
	{"no masquerade for strangers at a cluster IP under policy Local", near, without(`-A KUBE-SVL-{demo/near:x} .*KUBE-MARK-MASQ`)},
	{"masquerade for pods instead of strangers", web, change(`-A KUBE-SVC-{demo/web:http} .*KUBE-MARK-MASQ`, "! -s", "-s")},
	{"masquerade for pods too", web, change(`-A KUBE-SVC-{demo/web:http} .*KUBE-MARK-MASQ`, "! -s 10.244.0.0/16 ", "")},
	{"masquerade at another port", web, change(`-A KUBE-SVC-{demo/web:http} .*KUBE-MARK-MASQ`, "--dport 80", "--dport 81")},
	{"masquerade comes after the choice", web, move(`-A KUBE-SVC-{demo/web:http} .*KUBE-MARK-MASQ`, `-A KUBE-SVC-{demo/web:http} .*10.244.3.9`, true)},
	{"no masquerade under external policy Cluster", api, without(`masquerade traffic for demo/api:x`)},
	{"masquerade under external policy Local", shop, change(`masquerade LOCAL traffic for demo/shop:https`, "-m addrtype --src-type LOCAL ", "")},
	{"no masquerade for the node under external policy Local", shop, without(`masquerade LOCAL traffic for demo/shop:https`)},
	{"no masquerade for an endpoint that reaches itself", web, without(`-s 10.244.2.7 -j KUBE-MARK-MASQ`)},
	{"no masquerade for a single endpoint that reaches itself", api, without(`-s 10.244.2.11 -j KUBE-MARK-MASQ`)},
	{"masquerade for another endpoint than that which reaches itself", web, change(`-s 10.244.2.7 -j KUBE-MARK-MASQ`, "10.244.2.7", "10.244.1.5")},
	{"masquerade for whole networks at an endpoint", web, change(`-s 10.244.2.7 -j KUBE-MARK-MASQ`, "10.244.2.7", "10.244.0.0/16")},
	{"the mark is another bit", "", change("-A KUBE-MARK-MASQ", "0x00004000", "0x00008000")},
	{"the mark takes the place of other bits", "", change("-A KUBE-MARK-MASQ", "--or-mark", "--set-mark")},
	{"nothing sets the mark", "", without("-A KUBE-MARK-MASQ")},
	{"everything is masqueraded", "", without("-A KUBE-POSTROUTING .*RETURN")},
	{"what is marked is not masqueraded", "", change("-A KUBE-POSTROUTING .*RETURN", "! --mark", "--mark")},
	{"the wrong bit keeps from masquerading", "", change("-A KUBE-POSTROUTING .*RETURN", "0x00004000/0x00004000", "0x00008000/0x00008000")},
	{"the mark stays on masqueraded packets", "", without("-A KUBE-POSTROUTING .*xor-mark")},
	{"the mark stays, for it is cleared too late", "", move("-A KUBE-POSTROUTING .*xor-mark.*", "-A KUBE-POSTROUTING .*MASQUERADE", true)},
	{"clearing the mark sets another bit", "", change("-A KUBE-POSTROUTING .*xor-mark", "0x00004000", "0x0000c000")},
	{"nothing is masqueraded", "", without("-A KUBE-POSTROUTING .*MASQUERADE")},
}

var external = []fault{
	{"an external IP is missing", api, without(`"demo/api:x external IP"`)},
	{"a load-balancer address is missing", far, without(`-A KUBE-SERVICES .*"demo/far:x loadbalancer IP"`)},
	{"a node port is missing", api, without(`-A KUBE-NODEPORTS .* demo/api:x `)},
	{"a node port is another", api, change(`-A KUBE-NODEPORTS .* demo/api:x `, "30080", "30088")},
	{"a node port is one of UDP", api, change(`-A KUBE-NODEPORTS .* demo/api:x `, "-m tcp -p tcp", "-m udp -p udp")},
	{"a node port leads past the external chain", api, change(`-A KUBE-NODEPORTS .* demo/api:x `, "KUBE-EXT", "KUBE-SVC")},
	{"no jump to the node ports", api, without("must be the last rule in this chain")},
	{"the jump to the node ports is not the last", same, move(".*must be the last rule in this chain.*", `-A KUBE-SERVICES .*"demo/api:x cluster IP"`, false)},
	{"node ports answer at every address", api, change("must be the last rule in this chain", "-m addrtype --dst-type LOCAL ", "")},
	{"node ports do not answer at 127.0.0.1", api, change("must be the last rule in this chain", "--dst-type LOCAL", "--dst-type LOCAL ! -d 127.0.0.0/8")},
	{"pods are strangers to external policy Local", shop, without("pod traffic for demo/shop:https")},
	{"some pods are strangers to external policy Local", shop, change("pod traffic for demo/shop:https", "/16", "/17")},
	{"the node is a stranger to external policy Local", shop, without("route LOCAL traffic for demo/shop:https")},
	{"everybody is the node to external policy Local", shop, change("route LOCAL traffic for demo/shop:https", "-m addrtype --src-type LOCAL ", "")},
	{"external policy Local leads strangers to every endpoint", shop, change("-A KUBE-EXT-{demo/shop:https} -j", "KUBE-SVL", "KUBE-SVC")},
	{"external policy Local leads strangers nowhere", shop, without("-A KUBE-EXT-{demo/shop:https} -j")},
	{"without a local endpoint, policy Local leads strangers to remote ones", far, after("route LOCAL traffic for demo/far:x", "-A KUBE-EXT-{demo/far:x} -j KUBE-SVC-{demo/far:x}")},
	{"external policy Cluster leads nowhere", api, without("-A KUBE-EXT-{demo/api:x} -j")},
}

var ranges = []fault{
	{"a source range is too wide", shop, change(`-A KUBE-FW-\S+ .*-s 198.51.100.0/25`, "/25", "/24")},
	{"a source range is too narrow", shop, change(`-A KUBE-FW-\S+ .*-s 198.51.100.0/25`, "/25", "/26")},
	{"a source range is missing", shop, without(`-A KUBE-FW-\S+ .*-s 192.0.2.0/24`)},
	{"a source range is turned around", office, change(`-A KUBE-FW-\S+ .*-s 198.18.0.0/16`, "-s", "! -s")},
	{"the address itself is no allowed source", shop, without(`-A KUBE-FW-\S+ .*-s 203.0.113.20 `)},
	{"the address itself is an allowed source", office, after(`-A KUBE-FW-\S+ .*-s 198.18.0.0/16`, "-A KUBE-FW-{demo/office:x} -s 203.0.113.21 -j KUBE-EXT-{demo/office:x}")},
	{"source ranges lead past the policy", shop, change(`-A KUBE-FW-\S+ .*-s 198.51.100.0/25`, "KUBE-EXT", "KUBE-SVC")},
	{"source ranges are passed by", shop, change(`-A KUBE-SERVICES .*"demo/shop:https loadbalancer IP"`, "KUBE-FW", "KUBE-EXT")},
	{"the firewall does not drop", shop, without(`-A KUBE-PROXY-FIREWALL .*demo/shop:https `)},
	{"the firewall refuses", shop, change(`-A KUBE-PROXY-FIREWALL .*demo/shop:https `, "DROP", "REJECT")},
	{"the firewall guards another port", shop, change(`-A KUBE-PROXY-FIREWALL .*demo/shop:https `, "443", "444")},
	{"the firewall guards another address", shop, change(`-A KUBE-PROXY-FIREWALL .*demo/shop:https `, "203.0.113.20", "203.0.113.21")},
	{"the firewall guards UDP", shop, change(`-A KUBE-PROXY-FIREWALL .*demo/shop:https `, "-m tcp -p tcp", "-m udp -p udp")},
	{"the firewall guards what no range guards", far, after(`-A KUBE-PROXY-FIREWALL .*demo/shop:https `, "-A KUBE-PROXY-FIREWALL -p tcp -d 203.0.113.22 --dport 80 -j DROP")},
}

var affinity = []fault{
	{"the first endpoint is not remembered", sticky, without("-A KUBE-SVC-{demo/sticky:x} .*10.244.1.54.*--rcheck")},
	{"an endpoint in the middle is not remembered", sticky, without("-A KUBE-SVC-{demo/sticky:x} .*10.244.1.55.*--rcheck")},
	{"an endpoint in the middle is not remembered under policy Local", sticky, without("-A KUBE-SVL-{demo/sticky:x} .*10.244.1.55.*--rcheck")},
	{"clients are entered nowhere", sticky, editLines("--set .*10.244.1.55:8080", func(line string) []string {
		return []string{regexp.MustCompile(`-m recent --name \S+ --set `).ReplaceAllString(line, "")}
	})},
	{"clients are entered into another list", sticky, editLines("--set .*10.244.1.55:8080", func(line string) []string {
		return []string{regexp.MustCompile(`--name \S+`).ReplaceAllString(line, "--name KUBE-SEP-OTHER")}
	})},
	{"memory is too short", sticky, change("-A KUBE-SVC-{demo/sticky:x} .*10.244.1.55.*--rcheck", "600", "60")},
	{"memory is too long", sticky, change("-A KUBE-SVC-{demo/sticky:x} .*10.244.1.55.*--rcheck", "600", "10800")},
	{"memory is for ever", sticky, change("-A KUBE-SVC-{demo/sticky:x} .*10.244.1.55.*--rcheck", "--seconds 600 --reap ", "")},
	{"memory is asked after the choice", sticky, move("-A KUBE-SVC-{demo/sticky:x} .*10.244.1.55.*--rcheck.*", `-A KUBE-SVC-{demo/sticky:x} .*"demo/sticky:x -> 10.244.1.56:8080" -m statistic`, true)},
	{"memory leads to another endpoint", sticky, func(text string) string {
		sep := regexp.MustCompile(`"demo/sticky:x -> 10.244.1.56:8080" -j (\S+)`).FindStringSubmatch(text)[1]
		return editLines("-A KUBE-SVC-{demo/sticky:x} .*10.244.1.55.*--rcheck", func(line string) []string {
			return []string{line[:strings.LastIndex(line, " ")] + " " + sep}
		})(text)
	}},
	{"memory is turned around", sticky, change("-A KUBE-SVC-{demo/sticky:x} .*10.244.1.55.*--rcheck", "--rcheck", "! --rcheck")},
	{"memory where there is no affinity", web, change("--to-destination 10.244.2.7:8080", "-m tcp", "-m recent --name KUBE-SEP-X --set -m tcp")},
}

var filtering = []fault{
	{"no refusal at a cluster IP", empty, without(`-A KUBE-SERVICES .*REJECT`)},
	{"drop rather than refuse at a cluster IP", empty, change(`-A KUBE-SERVICES .*REJECT`, "REJECT", "DROP")},
	{"refusal at another port", empty, change(`-A KUBE-SERVICES .*REJECT`, "--dport 80", "--dport 81")},
	{"refusal for another protocol", empty, change(`-A KUBE-SERVICES .*REJECT`, "-m tcp -p tcp", "-m udp -p udp")},
	{"no drop at a cluster IP", away, without(`-A KUBE-SERVICES .*demo/away:x has no local endpoints`)},
	{"refuse rather than drop at a cluster IP", away, change(`-A KUBE-SERVICES .*demo/away:x has no local endpoints`, "DROP", "REJECT")},
	{"no refusal at an external IP", empty, without(`-A KUBE-EXTERNAL-SERVICES .*-d 203.0.113.40 `)},
	{"no refusal at a load-balancer address", empty, without(`-A KUBE-EXTERNAL-SERVICES .*-d 203.0.113.41 `)},
	{"an external refusal is an internal one", empty, change(`-A KUBE-EXTERNAL-SERVICES .*-d 203.0.113.40 `, "KUBE-EXTERNAL-SERVICES", "KUBE-SERVICES")},
	{"no refusal at a node port", empty, without(`-A KUBE-EXTERNAL-SERVICES .*30081`)},
	{"refusal at a node port of every address", empty, change(`-A KUBE-EXTERNAL-SERVICES .*30081`, "-m addrtype --dst-type LOCAL ", "")},
	{"no drop at a node port", far, without(`-A KUBE-EXTERNAL-SERVICES .*30090`)},
	{"refuse rather than drop at a node port", far, change(`-A KUBE-EXTERNAL-SERVICES .*30090`, "DROP", "REJECT")},
	{"no drop at a load-balancer address", far, without(`-A KUBE-EXTERNAL-SERVICES .*-d 203.0.113.22 `)},
	{"a health check is closed", shop, without(`-A KUBE-NODEPORTS .*demo/shop:https health`)},
	{"a health check has another port", shop, change(`-A KUBE-NODEPORTS .*demo/shop:https health`, "31555", "31557")},
	{"a health check is open for UDP", shop, change(`-A KUBE-NODEPORTS .*demo/shop:https health`, "-m tcp -p tcp", "-m udp -p udp")},
	{"a health check opens every port", "", change(`-A KUBE-NODEPORTS .*demo/shop:https health`, "--dport 31555 ", "")},
	{"invalid packets pass", "", without("-A KUBE-FORWARD .*INVALID")},
	{"invalid packets are refused", "", change("-A KUBE-FORWARD .*INVALID", "DROP", "REJECT")},
	{"marked packets are left to the policy", "", without("-A KUBE-FORWARD .*--mark")},
	{"packets with another mark are accepted", "", change("-A KUBE-FORWARD .*--mark", "0x00004000/0x00004000", "0x00008000/0x00008000")},
	{"established flows are left to the policy", "", without("-A KUBE-FORWARD .*ESTABLISHED")},
	{"related packets are left to the policy", "", change("-A KUBE-FORWARD .*ESTABLISHED", "RELATED,ESTABLISHED", "ESTABLISHED")},
	{"new flows are accepted", "", change("-A KUBE-FORWARD .*ESTABLISHED", "RELATED,", "RELATED,NEW,")},
	{"loopback is reached from elsewhere", "", without("-A KUBE-FIREWALL .*127.0.0.0/8")},
	{"loopback does not reach itself", "", change("-A KUBE-FIREWALL .*127.0.0.0/8", "! -s 127.0.0.0/8 ", "")},
	{"part of loopback is reached from elsewhere", "", change("-A KUBE-FIREWALL .*127.0.0.0/8", "-d 127.0.0.0/8", "-d 127.0.0.0/32")},
	{"flows that loopback began are cut", "", change("-A KUBE-FIREWALL .*127.0.0.0/8", "RELATED,ESTABLISHED,", "RELATED,")},
}

// orders are jumps in an order in which something else decides first.
var orders = []fault{
	{"the firewall is asked after marked packets were accepted", office, move("-A FORWARD .*KUBE-PROXY-FIREWALL", "-A FORWARD .*KUBE-FORWARD", true)},
	{"refusals come before marked packets are accepted", away, move("-A FORWARD .*KUBE-FORWARD", "-A FORWARD .*KUBE-EXTERNAL-SERVICES", true)},
	{"external refusals come before marked packets are accepted", empty, move("-A FORWARD .*KUBE-EXTERNAL-SERVICES", "-A FORWARD .*KUBE-FORWARD", false)},
	{"health checks open loopback to others", far, move("-A INPUT .*KUBE-NODEPORTS", "-A INPUT -j KUBE-FIREWALL", false)},
	{"invalid packets are accepted if marked", "", move("-A KUBE-FORWARD .*INVALID.*", "-A KUBE-FORWARD .*--mark", true)},
	{"the firewall looks at known flows", office, change("-A FORWARD .*KUBE-PROXY-FIREWALL", "NEW", "NEW,ESTABLISHED")},
	{"cluster IPs refuse known flows", away, change("-A OUTPUT .*KUBE-SERVICES", "-m conntrack --ctstate NEW ", "")},
	{"external addresses refuse known flows", empty, change("-A INPUT .*KUBE-EXTERNAL-SERVICES", "-m conntrack --ctstate NEW ", "")},
}

// sixth are faults in IPv6.
var sixth = []fault{
	{"a probability is too high", web, change("-A KUBE-SVC-{demo/web:http} ", "0.5000000000", "0.6000000000")},
	{"DNAT to a wrong port", web, change(`--to-destination \[fd00:244:2::7\]`, "8080", "80")},
	{"DNAT to a wrong address", web, change(`--to-destination \[fd00:244:2::7\]`, "2::7", "2::8")},
	{"no masquerade for strangers at a cluster IP", web, without("-A KUBE-SVC-{demo/web:http} .*KUBE-MARK-MASQ")},
	{"no masquerade under external policy Cluster", api, without(`masquerade traffic for demo/api:x`)},
	{"no masquerade for an endpoint that reaches itself", web, without(`-s fd00:244:2::7 -j KUBE-MARK-MASQ`)},
	{"a source range is too wide", office, change(`-A KUBE-FW-\S+ .*-s 2001`, "/48", "/47")},
	{"a source range is too narrow", office, change(`-A KUBE-FW-\S+ .*-s 2001`, "/48", "/49")},
	{"the firewall does not drop", office, without(`-A KUBE-PROXY-FIREWALL .*DROP`)},
	{"no refusal at a cluster IP", empty, without(`-A KUBE-SERVICES .*REJECT`)},
	{"node ports answer at ::1", api, change("must be the last rule in this chain", "! -d ::1/128 ", "")},
	{"node ports answer at ::1 alone", api, change("must be the last rule in this chain", "! -d", "-d")},
	{"loopback is closed as in IPv4", "", after("-A OUTPUT -j KUBE-FIREWALL", "-A KUBE-FIREWALL -d ::1/128 ! -s ::1/128 -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP")},
}

// wholesale are losses that concern everything.
var wholesale = []fault{
	{"the family is missing", "", func(string) string { return "" }},
	{"table nat is missing", "", table("nat")},
	{"table filter is missing", "", table("filter")},
	{"a policy of DROP stands in an accepting rule's place", "", change("-A KUBE-FORWARD .*ESTABLISHED", "ACCEPT", "DROP")},
	{"pods' packets leave the service chain at once", "", after(`-A KUBE-MARK-MASQ`, "-A KUBE-SERVICES -s 10.244.0.0/16 -j RETURN")},
	{"everything else is dropped", "", after("-A KUBE-FORWARD .*ESTABLISHED", "-A KUBE-FORWARD -j DROP")},
}

// prove gives the difference that the proof finds in a text, if any.
func prove(t *testing.T, u compiler.Unit, text string) error {
	t.Helper()
	w, err := iptables.Backend{}.Parse(u.Family, []emit.Section{{Tool: iptables.Tool, Family: u.Family, Text: []byte(text)}}, true)
	if err != nil {
		t.Fatalf("the text with the fault cannot be loaded, so it proves nothing: %v", err)
	}
	return proof.First(u.Program, w)
}

// caught plants a fault and wants the proof to name its service.
func caught(t *testing.T, u compiler.Unit, f fault) {
	text := string(u.Sections[0].Text)
	faulty := f.edit(text)
	if faulty == text {
		t.Fatal("nothing was planted")
	}
	err := prove(t, u, faulty)
	var d proof.Difference
	if !errors.As(err, &d) {
		t.Fatalf("not caught: %v", err)
	}
	if f.service != "" && d.Probe.Service != f.service {
		t.Errorf("the error names %q, not %s:\n%v", d.Probe.Service, f.service, err)
	}
}

func units(t *testing.T) (v4, v6 compiler.Unit) { return unitsAt(t, 0) }

func unitsAt(t *testing.T, level int) (v4, v6 compiler.Unit) {
	t.Helper()
	o := compiler.NewOptions()
	o.Level = level
	node, pods := "node-a", "10.244.0.0/16,fd00:244::/32"
	o.Paths, o.Flags.Node, o.Flags.ClusterCIDR = []string{"testdata/cluster.yaml"}, &node, &pods
	r, err := compiler.Compile(o, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Units) != 2 || r.Units[0].Family != ir.IPv4 {
		t.Fatalf("%d families: %v", len(r.Units), r.Diagnostics)
	}
	return r.Units[0], r.Units[1]
}

// TestPlantedFaults shows that the proof is worth something: each fault that an
// emitter could have is found, and laid at the door of the right service.
func TestPlantedFaults(t *testing.T) {
	v4, v6 := units(t)
	fourth := slices.Concat(sharing, rewriting, masquerading, external, ranges, affinity, filtering, orders, wholesale)
	if n := len(fourth) + len(sixth); n < 100 {
		t.Errorf("only %d faults", n)
	}
	for _, f := range fourth {
		t.Run("ipv4/"+f.name, func(t *testing.T) { caught(t, v4, f) })
	}
	for _, f := range sixth {
		t.Run("ipv6/"+f.name, func(t *testing.T) { caught(t, v6, f) })
	}
}

// TestPlantedHooks leaves out each jump from a built-in chain. Two lead nowhere
// in IPv6 and are therefore not missed there.
func TestPlantedHooks(t *testing.T) {
	v4, v6 := units(t)
	hook := regexp.MustCompile(`(?m)^-A (?:INPUT|FORWARD|OUTPUT|PREROUTING|POSTROUTING) .* -j (\S+)$|^-A (?:INPUT|OUTPUT) -j (KUBE-FIREWALL)$`)
	for _, u := range []compiler.Unit{v4, v6} {
		text := string(u.Sections[0].Text)
		hooks := hook.FindAllStringSubmatch(text, -1)
		if len(hooks) != 14 {
			t.Fatalf("%s: %d jumps from built-in chains, want 14", u.Family, len(hooks))
		}
		filter, _, _ := strings.Cut(text, "COMMIT")
		for _, m := range hooks {
			to := m[1] + m[2]
			if u.Family == ir.IPv6 && !strings.Contains(filter, "-A "+to+" ") && strings.Contains(filter, m[0]) {
				continue // the chain is empty
			}
			t.Run(fmt.Sprintf("%s/%s", u.Family, m[0]), func(t *testing.T) {
				caught(t, u, fault{edit: without("^" + regexp.QuoteMeta(m[0]) + "$")})
			})
		}
	}
}
