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
	"svcc/emit/ipvs"
	"svcc/emit/mode"
	"svcc/ir"
)

// virtualUnits are the cluster in IPVS mode.
func virtualUnits(t *testing.T, level int) (v4, v6 compiler.Unit) {
	t.Helper()
	o := compiler.NewOptions()
	o.Mode, o.Level = mode.IPVS, level
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

const sectionHead = "# section "

// joined is a unit's text: its sections, each below a head.
func joined(u compiler.Unit) string {
	var b strings.Builder
	for _, s := range u.Sections {
		fmt.Fprintf(&b, "%s%s\n%s", sectionHead, s.Tool, s.Text)
	}
	return b.String()
}

// proveVirtual gives what keeps a text from being proved: it cannot be read, or
// there is a difference.
func proveVirtual(u compiler.Unit, text string) error {
	w, err := ipvs.Backend{}.Parse(u.Family, parted(u.Family, text), true)
	if err != nil {
		return err
	}
	return proof.First(u.Program, w)
}

// parted are the sections of what joined gives.
func parted(f ir.Family, text string) (out []emit.Section) {
	for part := range strings.SplitSeq(text, sectionHead) {
		if tool, body, ok := strings.Cut(part, "\n"); ok {
			out = append(out, emit.Section{Tool: tool, Family: f, Text: []byte(body)})
		}
	}
	return out
}

var virtualFaults = []fault{
	{"a server is missing", web, func(text string) string {
		return without("-a -t 10.96.0.10:80 ")(without("-A -t 10.96.0.10:80 ")(text))
	}},
	{"a server has another port", web, editLines("-[Aa] -t 10.96.0.10:80 ", func(line string) []string {
		return []string{strings.Replace(line, ":80 ", ":81 ", 1)}
	})},
	{"a server is of UDP", web, editLines("-[Aa] -t 10.96.0.10:80 ", func(line string) []string {
		return []string{strings.Replace(line, "-t", "-u", 1)}
	})},
	{"a destination is missing", web, without("-a -t 10.96.0.10:80 -r 10.244.2.7:8080")},
	{"a destination too many", web, after("-a -t 10.96.0.10:80 -r 10.244.2.7:8080", "-a -t 10.96.0.10:80 -r 10.244.9.9:8080 -m -w 1")},
	{"a destination has another port", web, change("-a -t 10.96.0.10:80 -r 10.244.2.7:8080", "7:8080", "7:8081")},
	{"a destination is drained", web, change("-a -t 10.96.0.10:80 -r 10.244.2.7:8080", "-w 1", "-w 0")},
	{"a destination has more weight", web, change("-a -t 10.96.0.10:80 -r 10.244.2.7:8080", "-w 1", "-w 2")},
	{"no persistence", sticky, change(`-A -t \S+ -s rr -p 600`, " -p 600", "")},
	{"another persistence", sticky, change(`-A -t \S+ -s rr -p 600`, "600", "60")},
	{"persistence where there is no affinity", web, change("-A -t 10.96.0.10:80 -s rr", "-s rr", "-s rr -p 600")},
	{"external policy Local leads strangers to remote endpoints", shop, after("-a -t 203.0.113.20:443 ", "-a -t 203.0.113.20:443 -r 10.244.2.8:8443 -m -w 1")},
	{"what has no endpoints is not refused", empty, without("-A -t 203.0.113.40:80 ")},
	{"what has no local endpoints is refused", away, func(text string) string {
		text = without("add KUBE-NO-LOCAL-ENDPOINTS 10.96.0.24,tcp:80")(text)
		return text + "-A -t 10.96.0.24:80 -s rr\n"
	}},
	{"an address is not borne", "", without("address replace 10.96.0.10/32")},
	{"an address is borne for nobody", "", after("address replace 10.96.0.10/32", "address replace 198.51.100.77/32 dev kube-ipvs0 nodad")},
	{"a cluster IP is not in its set", web, without("add KUBE-CLUSTER-IP 10.96.0.10,tcp:80")},
	{"a cluster IP is in the set of external IPs", web, change("add KUBE-CLUSTER-IP 10.96.0.10,tcp:80", "CLUSTER-IP", "EXTERNAL-IP")},
	{"an external address has local policy", api, change("add KUBE-EXTERNAL-IP .*", "EXTERNAL-IP ", "EXTERNAL-IP-LOCAL ")},
	{"a range is too wide", shop, change("add KUBE-LOAD-BALANCER-SOURCE-CIDR 203.0.113.20,tcp:443,198.51.100.0/25", "/25", "/24")},
	{"a range is too narrow", shop, change("add KUBE-LOAD-BALANCER-SOURCE-CIDR 203.0.113.20,tcp:443,198.51.100.0/25", "/25", "/26")},
	{"the node's own packets are held to other ranges", office, change("-A KUBE-SVCC-.* -s 198.18.0.0/16", "-s", "! -s")},
	{"nobody guards the node's own packets", office, without("-A KUBE-IPVS-OUT-FILTER -m ipvs --vaddr 203.0.113.21")},
	{"a guard is of another port", office, change("-A KUBE-IPVS-OUT-FILTER -m ipvs --vaddr 203.0.113.21", "--vport ", "--vport 1")},
	{"everybody is guarded as the node is", "", change("-A KUBE-IPVS-OUT-FILTER -m addrtype", "! --src-type", "--src-type")},
	{"the mark is another bit", "", change("-A KUBE-MARK-MASQ", "0x00004000", "0x00008000")},
	{"pods are masqueraded at cluster IPs", "", change("-A KUBE-SERVICES .*KUBE-CLUSTER-IP dst,dst ! -s", "! -s 10.244.0.0/16 ", "")},
	{"a client that is its own endpoint is not recognised", web, without("add KUBE-LOOP-BACK 10.244.1.5,tcp:8080,10.244.1.5")},
	{"a client is taken for its own endpoint", "", after("add KUBE-LOOP-BACK 10.244.1.5,tcp:8080,10.244.1.5", "add KUBE-LOOP-BACK 10.244.1.5,tcp:8080,10.244.0.1")},
	{"who is its own endpoint is asked of everybody", "", editLines("-A KUBE-POSTROUTING .*--ipvs", func(line string) []string {
		return []string{strings.Replace(line, "-m ipvs --ipvs ", "", 1)}
	})},
	{"a node port is marked for everybody", shop, without("add KUBE-NODE-PORT-LOCAL-TCP 30443")},
	{"node ports are marked at another address", api, change("-A KUBE-SERVICES -d 192.0.2.10 -j KUBE-NODE-PORT$", "192.0.2.10", "192.0.2.11")},
	{"a node port of UDP is one of TCP", "", change("-A KUBE-NODE-PORT -p tcp .*KUBE-NODE-PORT-TCP", "-p tcp", "-p udp")},
	{"a health check is closed", shop, without("add KUBE-HEALTH-CHECK-NODE-PORT 31555")},
	{"a health check is open for UDP", "", change("-A KUBE-NODE-PORT -p tcp .*HEALTH-CHECK", "-p tcp", "-p udp")},
	{"pods are strangers to external policy Local", shop, without("pod traffic for demo/shop:https")},
	{"strangers are pods to external policy Local", shop, change("pod traffic for demo/shop:https", "-s 10.244.0.0/16 ", "")},
}

// TestPlantedVirtualFaults has the faults that only IPVS mode can have found.
func TestPlantedVirtualFaults(t *testing.T) {
	u, _ := virtualUnits(t, 0)
	text := joined(u)
	if err := proveVirtual(u, text); err != nil {
		t.Fatal(err)
	}
	for _, f := range virtualFaults {
		t.Run(f.name, func(t *testing.T) {
			faulty := f.edit(text)
			if faulty == text {
				t.Fatal("nothing was planted")
			}
			err := proveVirtual(u, faulty)
			var d proof.Difference
			if !errors.As(err, &d) {
				t.Fatalf("not caught: %v", err)
			}
			if f.service != "" && d.Probe.Service != f.service {
				t.Errorf("the error names %q, not %s:\n%v", d.Probe.Service, f.service, err)
			}
		})
	}
}

// idle are lines that no packet misses: what other programs' rules may jump to,
// and what says again, for readers and in kube-proxy's order, what another line
// says.
var idle = regexp.MustCompile(strings.Join([]string{
	`^#`, `^flush `, `^link add `, `^COMMIT$`,
	`^-A KUBE-SERVICES -m set --match-set \S+ dst,dst -j ACCEPT$`, // of other programs' rules behind
	`^-A \S+ -m comment --comment "other traffic to `,             // a remark
	`^-A KUBE-IPVS-OUT-FILTER -m ipvs ! --ipvs -j RETURN$`,        // a short cut
	// What nobody is sent from, and node ports of policy Local, are not marked in
	// any case; kube-proxy has them in its sets all the same.
	`^add KUBE-(6-)?(CLUSTER-IP|EXTERNAL-IP) (10.96.0.24|10.96.0.40|fd00:96::40|203.0.113.40|2001:db8:113::40),tcp:80$`,
	`^add KUBE-LOAD-BALANCER(-LOCAL)? (203.0.113.22|203.0.113.41),tcp:80$`,
	`^add KUBE-(6-)?NODE-PORT(-LOCAL)?-TCP (30054|30081|30090|30443)$`,
	`^-A KUBE-(IPVS-FILTER|SERVICES) .*KUBE-6-EXTERNAL-IP dst,dst`,
	// The node's own packets come by OUTPUT; kube-proxy lets them in here.
	`KUBE-LOAD-BALANCER-SOURCE-IP `,
}, "|"))

// TestEveryLineCounts takes each line away in turn.
func TestEveryLineCounts(t *testing.T) {
	for level := range 2 {
		v4, v6 := virtualUnits(t, level)
		for _, u := range []compiler.Unit{v4, v6} {
			lines := strings.SplitAfter(joined(u), "\n")
			var missed []string
			for i, line := range lines {
				// No server of the cluster in IPv6 lets in nobody of the node.
				shortCut := u.Family == ir.IPv6 && strings.HasPrefix(line, "-A KUBE-IPVS-OUT-FILTER -m addrtype ")
				if line == "" || shortCut || idle.MatchString(strings.TrimSpace(line)) {
					continue
				}
				rest := slices.Concat(lines[:i], lines[i+1:])
				if proveVirtual(u, strings.Join(rest, "")) == nil {
					missed = append(missed, line)
				}
			}
			if len(missed) > 0 {
				t.Errorf("-O%d %s: nobody misses\n%s", level, u.Family, strings.Join(missed, ""))
			}
		}
	}
}
