package proof_test

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	"svcc/compiler"
	"svcc/compiler/passes"
	"svcc/emit"
	"svcc/emit/iptables"
	"svcc/ir"
	"svcc/ir/irtest"
)

// Rules of levels 1 and 2 are told by what they ask, not by chains' names,
// which differ.

// aim makes the rule that matches one lead to where the rule that matches the
// other leads.
func aim(re, other string) edit {
	return func(text string) string {
		m := regexp.MustCompile(`(?m)^.*` + other + `(?: .*)? -[jg] (\S+)$`).FindStringSubmatch(text)
		if m == nil {
			return text
		}
		return editLines(re, func(line string) []string { return []string{line[:strings.LastIndex(line, " ")+1] + m[1]} })(text)
	}
}

var guards = []fault{
	{"a guard is too narrow", dns, change("-A KUBE-SERVICES -d 10.96.0.0/26 -j", "/26", "/27")},
	{"a guard is elsewhere", api, change("-A KUBE-SERVICES -d 203.0.113.0/27", "203", "202")},
	{"a guard is missing", api, without("-A KUBE-SERVICES -d 203.0.113.0/27")},
	{"a guard leads to another tree", api, aim("-A KUBE-SERVICES -d 203.0.113.0/27", "-A KUBE-SERVICES -d 10.96.0.0/26")},
	{"a guard goes rather than jumps: node ports at local external addresses", "", change("-A KUBE-SERVICES -d 203.0.113.0/27", "-j", "-g")},
	{"a guard goes rather than jumps: node ports at local ClusterIPs", "", change("-A KUBE-SERVICES -d 10.96.0.0/26 -j", "-j", "-g")},
	{"a node port lies beside the span", office, change("-A KUBE-SERVICES -p tcp --dport 30054:30444", "30444", "30443")},
	{"node ports answer anywhere", "", change("-A KUBE-SERVICES -p tcp --dport 30054:30444", "-m addrtype --dst-type LOCAL ", "")},
	{"node ports come first", same, move("-A KUBE-SERVICES -p tcp --dport 30054:30444.*", "-A KUBE-SERVICES -d 10.96.0.0/26 -j", false)},
	{"node ports are of UDP", "", change("-A KUBE-SERVICES -p tcp --dport 30054:30444", "tcp", "udp")},
	{"no node ports", "", without("-A KUBE-SERVICES -p tcp --dport 30054:30444")},
	{"the filter's guard is too narrow", office, change("-A KUBE-SVCC-NEW -d 203.0.113.20/31", "/31", "/32")},
	{"refusals of ClusterIPs are behind no guard of the node's", away, without("-A KUBE-SERVICES -d 10.96.0.24/32")},
	{"refusals of external addresses are not asked for delivered packets", empty, without("-A KUBE-EXTERNAL-SERVICES -d 203.0.113.40/31")},
	{"refusals of external addresses are not asked for forwarded packets", empty, without("-A KUBE-SVCC-NEW -d 203.0.113.40/31")},
	{"a refused node port lies beside the span", far, change("-A KUBE-EXTERNAL-SERVICES -p tcp --dport 30081:30090", "30090", "30089")},
}

var trees = []fault{
	{"a branch leads to another chain", "", aim("-d 10.96.0.32/27 -g", "-d 10.96.0.0/27")},
	{"a branch is missing", dns, without("-d 10.96.0.32/27 -g")},
	{"a branch is too narrow", dns, change("-d 10.96.0.32/27 -g", "/27", "/29")},
	{"a branch takes in its neighbours", dns, change("-d 10.96.0.0/27 -g", "/27", "/26")},
	{"a branch of ports is too narrow", office, change("-A KUBE-NODEPORTS -p tcp --dport 30336:30463", "30463", "30443")},
	{"a branch of ports is of UDP", "", change("-A KUBE-NODEPORTS -p tcp --dport 30080:30207", "tcp", "udp")},
	{"a branch of ports leads to another chain", "", aim("-A KUBE-NODEPORTS -p tcp --dport 30080:30207", "-A KUBE-NODEPORTS -p tcp --dport 30336:30463")},
	{"TCP leads to UDP's endpoints", "demo/dns:dns-tcp/tcp", aim("-p tcp -d 10.96.0.53 --dport 53 -g", "-p udp -d 10.96.0.53 --dport 53")},
	{"a leaf leads to another service", web, aim("-d 10.96.0.10 --dport 80 -g", "-d 10.96.0.20 --dport 443")},
	{"a leaf is missing", web, without("-d 10.96.0.10 --dport 80 ")},
	{"a leaf has another port", web, change("-d 10.96.0.10 --dport 80 ", "80", "81")},
	{"a leaf has another address", web, change("-d 10.96.0.10 --dport 80 ", "10.96.0.10", "10.96.0.11")},
	{"a leaf serves every port", web, change("-d 10.96.0.10 --dport 80 ", "--dport 80 ", "")},
	{"a leaf delivers to another port", api, change("-d 10.96.0.30 --dport 6000 -j DNAT", "2.11:6000", "2.11:6001")},
	{"source ranges are passed by", shop, aim("-d 203.0.113.20 --dport 443 -g", "--dport 30443")},
	{"a leaf of drops is missing", shop, without("-d 203.0.113.20 --dport 443 -j DROP")},
	{"a refusal is a drop", empty, change("-d 10.96.0.40 --dport 80 -j REJECT", "REJECT", "DROP")},
	{"a drop is a refusal", away, change("-d 10.96.0.24 --dport 80 -j DROP", "DROP", "REJECT")},
	{"a refused node port is another", far, change("--dport 30090 -j DROP", "30090", "30091")},
}

var choices = []fault{
	{"a share is too high", web, change("-j DNAT --to 10.244.1.5:8080", "--prob 0.3333333333", "--prob 0.5")},
	{"a share is a little too high", web, change("-j DNAT --to 10.244.1.5:8080", "0.3333333333", "0.3334333333")},
	{"the last endpoint is missing", web, without("-j DNAT --to 10.244.3.9:8080")},
	{"endpoints are of UDP", web, change("-j DNAT --to 10.244.2.7:8080", "-p tcp", "-p udp")},
	{"memory is for ever", sticky, change("--update .*10.244.1.55:8080", "--seconds 600 --reap ", "")},
	{"memory is too short", sticky, change("--update .*10.244.1.55:8080", "600", "60")},
	{"memory leads to another endpoint", sticky, change("--update .*10.244.1.55:8080", "1.55", "1.56")},
	{"memory is not asked", sticky, without("--update .*10.244.1.55:8080")},
	{"clients are entered nowhere", sticky, editLines("--set .*10.244.1.55:8080", func(line string) []string {
		return []string{regexp.MustCompile(`-m recent --name \S+ --set `).ReplaceAllString(line, "")}
	})},
	{"clients are entered into another list", sticky, editLines("--set .*10.244.1.55:8080", func(line string) []string {
		return []string{regexp.MustCompile(`--name \S+`).ReplaceAllString(line, "--name KUBE-SEP-OTHER")}
	})},
	{"clients are entered before the dice fall", sticky, editLines("--set .*10.244.1.55:8080", func(line string) []string {
		return []string{regexp.MustCompile(`(-m statistic .*)(-m recent --name \S+ --set )`).ReplaceAllString(line, "$2$1")}
	})},
	{"pods are strangers to external policy Local", shop, without("-s 10.244.0.0/16 -g")},
	{"the node is a stranger to external policy Local", shop, change("! --src-type LOCAL -j DNAT --to 10.244.1.6:8443", "-m addrtype ! --src-type LOCAL ", "")},
	{"without a local endpoint, strangers reach remote ones", far, without("! --src-type LOCAL -j RETURN")},
	{"a way returns too early", far, change("! --src-type LOCAL -j RETURN", "-m addrtype ! --src-type LOCAL ", "")},
	{"no masquerade under external policy Cluster", "", without("-A KUBE-EXT-[0-9A-Z]+ .*-j MARK")},
	{"masquerade comes after the choice", "", move("-A KUBE-EXT-[0-9A-Z]+ (?:-m comment --comment .*demo/office\\S+ external destinations\" )?-j MARK.*", "-A KUBE-EXT-[0-9A-Z]+ -p tcp -j DNAT --to 10.244.1.21:8443", true)},
	{"a source range is too wide", shop, change("-s 198.51.100.0/25 -g", "/25", "/24")},
	{"a source range is missing", shop, without("-s 192.0.2.0/24 -g")},
}

var chosen = []fault{
	{"nobody is asked after the choice, forwarded", "", without("-A KUBE-SVCC-NEW .*-j KUBE-SVCC-CHOSEN")},
	{"nobody is asked after the choice, on the node", "", without("-A KUBE-SERVICES .*-j KUBE-SVCC-CHOSEN")},
	{"what was not chosen is asked about", "", change("-A KUBE-SVCC-NEW .*-j KUBE-SVCC-CHOSEN", "-m conntrack --ctstate DNAT ", "")},
	{"what follows the question is lost", "", change("-A KUBE-SVCC-NEW .*-j KUBE-SVCC-CHOSEN", "-j", "-g")},
	{"masquerade by range is missing", "", without("-A KUBE-SVCC-CHOSEN .*--ctorigdst")},
	{"masquerade by range is too narrow", dns, change("-A KUBE-SVCC-CHOSEN .*--ctorigdst", "/26", "/27")},
	{"masquerade by range is too wide", "", change("-A KUBE-SVCC-CHOSEN .*--ctorigdst", "10.96.0.0/26", "0.0.0.0/0")},
	{"masquerade by range counts for pods", "", change("-A KUBE-SVCC-CHOSEN .*--ctorigdst", "! -s 10.244.0.0/16 ", "")},
	{"masquerade by range counts for pods alone", "", change("-A KUBE-SVCC-CHOSEN .*--ctorigdst", "! -s", "-s")},
	{"masquerade by range counts for node ports at local ClusterIPs", "", change("-A KUBE-SVCC-CHOSEN .*--ctorigdst", "! --ctorigdstport 30000:32767 ", "")},
	{"no hairpins", "", without("-A KUBE-SVCC-CHOSEN -g")},
	{"hairpins are not marked", "", without("-A KUBE-SVCC-HAIRPIN -j MARK")},
	{"a range's port between node ports has no decision of its own", same, without("-d 10.96.0.31 --dport 30080 .*-j MARK")},
}

var states = []fault{
	{"marked packets are accepted before the firewall", "", move("-A KUBE-SVCC-NEW -m mark.*", "-A KUBE-SVCC-NEW -d 203.0.113.20/31", false)},
	{"marked packets are accepted before they are marked", "", move("-A KUBE-SVCC-NEW -m mark.*", "-A KUBE-SVCC-NEW .*-j KUBE-SVCC-CHOSEN", false)},
	{"marked new packets are left to the policy", "", without("-A KUBE-SVCC-NEW -m mark")},
	{"refusals come before marked packets are accepted", "", move("-A KUBE-SVCC-NEW -m mark.*", "-A KUBE-SVCC-NEW -d 203.0.113.40/31", true)},
	{"every state is new to FORWARD", "", change("-A KUBE-FORWARD .*-g KUBE-SVCC-NEW", "-m conntrack --ctstate NEW ", "")},
	{"nothing is new to FORWARD", "", without("-A KUBE-FORWARD .*-g KUBE-SVCC-NEW")},
	{"every state is new to INPUT", "", change("-A INPUT .*KUBE-EXTERNAL-SERVICES", "-m conntrack --ctstate NEW ", "")},
	{"every state is new to OUTPUT", "", change("-A OUTPUT .*-j KUBE-SERVICES", "-m conntrack --ctstate NEW ", "")},
	{"invalid packets pass", "", without("-A KUBE-FORWARD .*INVALID")},
	{"invalid packets are accepted if marked", "", move("-A KUBE-FORWARD .*INVALID.*", "-A KUBE-FORWARD -m mark", true)},
	{"established flows are left to the policy", "", without("-A KUBE-FORWARD .*ESTABLISHED")},
	{"a health check is closed to known connections", "", without("-A INPUT .*KUBE-NODEPORTS")},
	{"a health check has another port", shop, change("--dport 31555 -j ACCEPT", "31555", "31557")},
}

// TestPlantedFaultsOfLevels is TestPlantedFaults for the layouts of levels 1
// and 2.
func TestPlantedFaultsOfLevels(t *testing.T) {
	for level := 1; level <= 2; level++ {
		v4, _ := unitsAt(t, level)
		for _, f := range slices.Concat(guards, trees, choices, chosen, states) {
			t.Run(fmt.Sprintf("O%d/%s", level, f.name), func(t *testing.T) { caught(t, v4, f) })
		}
	}
}

// Each bit of the question about hairpins counts, one value of it at least: in
// IPv4 strangers tell it, in IPv6 pods, whose addresses differ in 96 bits.
func TestPlantedBits(t *testing.T) {
	for level := 1; level <= 2; level++ {
		v4, v6 := unitsAt(t, level)
		for u, least := range map[*compiler.Unit]int{&v4: 32, &v6: 96} {
			text := string(u.Sections[0].Text)
			found := 0
			for _, r := range regexp.MustCompile(`(?m)^-A KUBE-SVCC-HAIRPIN -s .*\n`).FindAllString(text, -1) {
				if prove(t, *u, strings.Replace(text, r, "", 1)) != nil {
					found++
				}
			}
			if found < least {
				t.Errorf("O%d %s: %d missing rules are found, want %d", level, u.Family, found, least)
			}
		}
	}
}

// spacious is a node with a large service, an endpoint on the node itself and
// external addresses on which a health check is open.
func spacious(t *testing.T, level int) compiler.Unit {
	t.Helper()
	p := irtest.Shop()
	shop := p.Services[0]
	large := *shop
	large.PortName = ir.PortName{Namespace: "demo", Name: "large", Protocol: ir.TCP}
	large.Frontends = []ir.Frontend{{Kind: ir.ClusterIP, Addr: netip.MustParseAddr("10.96.0.9"), Port: 80}}
	large.SourceRanges, large.NodeAllowed, large.HealthCheckNodePort = nil, false, 0
	large.ExternalPolicy, large.Local, large.Cluster, large.Serving = ir.Cluster, nil, nil, nil
	own := large
	own.PortName = ir.PortName{Namespace: "demo", Name: "own", Protocol: ir.TCP}
	own.Frontends = []ir.Frontend{{Kind: ir.ClusterIP, Addr: netip.MustParseAddr("10.96.0.10"), Port: 80}}
	own.Cluster = []ir.Endpoint{{Addr: p.Node.IP, Port: 80, Local: true}}
	for i := range 100 {
		large.Cluster = append(large.Cluster, ir.Endpoint{Addr: irtest.Addr(ir.IPv4, 200, i+1), Port: 80})
	}
	slices.SortFunc(large.Cluster, ir.CompareEndpoints)
	bare := large
	bare.PortName = ir.PortName{Namespace: "demo", Name: "bare", Protocol: ir.TCP}
	bare.Usable, bare.Cluster = false, nil
	bare.Frontends = []ir.Frontend{
		{Kind: ir.ClusterIP, Addr: netip.MustParseAddr("10.96.0.8"), Port: 31555},
		{Kind: ir.ExternalIP, Addr: netip.MustParseAddr("203.0.113.50"), Port: 31555},
	}
	p.Services = []*ir.ServicePort{&bare, &large, &own, shop}
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	g, err := passes.Graph(p, level)
	if err != nil {
		t.Fatal(err)
	}
	s, err := iptables.Backend{}.Emit(g, emit.Options{Level: level, Hooks: true})
	if err != nil {
		t.Fatal(err)
	}
	u := compiler.Unit{Program: p, Sections: s}
	u.Family = p.Family
	if err := prove(t, u, string(s[0].Text)); err != nil {
		t.Fatal(err)
	}
	return u
}

const large = "demo/large/tcp"

var spaced = []fault{
	{"nobody is asked after the choice, delivered", "", without("-A KUBE-EXTERNAL-SERVICES .*-j KUBE-SVCC-CHOSEN")},
	{"the choice is asked about twice on the way to the node itself", "", change("-A KUBE-EXTERNAL-SERVICES .*-j KUBE-SVCC-CHOSEN", "! -i lo ", "")},
	{"a split has a wrong share", large, change("--prob 0.17 -g", "0.17", "0.16")},
	{"a split is missing", large, without("--prob 0.2048192771 -g")},
	{"a split leads to another's endpoints", large, aim("--prob 0.2048192771 -g", "--prob 0.2575757576")},
	{"the last split is taken by chance", large, change("-A KUBE-SVC-[0-9A-Z]{5,16} -g KUBE-SVC", " -g", " -m statistic --mode random --prob 0.5 -g")},
	{"a health check is refused where nobody serves", "demo/bare/tcp", move("-A KUBE-EXTERNAL-SERVICES -p tcp -j KUBE-NODEPORTS", "-A KUBE-EXTERNAL-SERVICES -d 203.0.113.50/32", true)},
}

func TestPlantedFaultsOfSpaciousNode(t *testing.T) {
	for level := 1; level <= 2; level++ {
		u := spacious(t, level)
		for _, f := range spaced {
			t.Run(fmt.Sprintf("O%d/%s", level, f.name), func(t *testing.T) { caught(t, u, f) })
		}
	}
}
