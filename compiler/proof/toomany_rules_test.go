package proof_test

import (
	"regexp"
	"strings"
)

// planted is a rule or an entry that nobody should have made. {here} stands for a
// chain that sends packets to an endpoint, and addresses are IPv4's: in IPv6 those
// of asSixth stand in their place.
type planted struct {
	table string // of a rule; "" for another tool's line
	line  string
	// idle says where it changes nothing, by a regular expression for the layout and
	// the place, and why: "O0.*bottom: reason". Everywhere else it must be seen.
	idle string
}

// newElsewhere is why no new packet comes to the end of KUBE-FORWARD in fast layouts.
const newElsewhere = "O[12].*bottom: new packets have gone elsewhere"

// virtualRare is where nothing is said of packets that virtual servers take whatever
// rules call them.
const virtualRare = "virtual: such packets are not tried"

// tooMany are rules for every layout. Each is put at the top of its chain, and at
// its end.
var tooMany = []planted{
	// Foreign destinations captured, and every width of a destination.
	{table: "nat", line: "-A KUBE-SERVICES -p tcp -d 8.8.8.8 --dport 53 -j {here}"},
	{table: "nat", line: "-A KUBE-SERVICES -p tcp -d 8.8.0.0/16 --dport 53 -j {here}"},
	{table: "nat", line: "-A KUBE-SERVICES -p tcp -d 8.8.8.8 --dport 1000:2000 -j {here}"},
	{table: "nat", line: "-A KUBE-SERVICES -p tcp -m multiport --dports 53,853 -d 8.8.8.8 -j {here}"},
	{table: "nat", line: "-A KUBE-SERVICES -p tcp -d 8.8.8.8 -j {here}"},
	{table: "nat", line: "-A KUBE-SERVICES -d 8.8.8.8 -j {here}"},
	{table: "nat", line: "-A KUBE-SERVICES -p tcp --dport 5353 -j {here}"},
	{table: "nat", line: "-A KUBE-SERVICES -p tcp ! -d 10.0.0.0/8 --dport 5353 -j {here}"},
	{table: "nat", line: "-A KUBE-SERVICES -p tcp -s 10.9.9.9 -d 8.8.8.8 --dport 53 -j {here}"},
	{table: "nat", line: "-A KUBE-SERVICES -p tcp -s 10.9.0.0/16 -d 8.8.8.8 --dport 53 -g {here}"},
	{table: "nat", line: "-A KUBE-SERVICES -p tcp -i eth7 -d 8.8.8.8 --dport 53 -j {here}"},
	{table: "nat", line: "-A KUBE-SERVICES -p tcp -m mark --mark 0x20/0x20 -d 8.8.8.8 --dport 53 -j {here}"},
	{table: "nat", line: "-A KUBE-SERVICES -p tcp -m tcp --sport 123 -d 8.8.8.8 --dport 53 -j {here}"},
	{table: "nat", line: "-A KUBE-SERVICES -p tcp -m addrtype --src-type LOCAL -d 8.8.8.8 --dport 53 -j {here}"},
	{table: "nat", line: "-A KUBE-SERVICES -p tcp -d 8.8.8.8 -j KUBE-NODEPORTS"},
	{table: "nat", line: "-A KUBE-SERVICES -p tcp -d 8.8.8.8 --dport 53 -j DNAT --to-destination 10.244.1.5:8080"},
	{table: "nat", line: "-A KUBE-SERVICES -d 8.8.8.8 -j KUBE-MARK-MASQ"},
	{table: "nat", line: "-A KUBE-SERVICES -s 10.9.9.9 -j KUBE-MARK-MASQ"},
	{table: "nat", line: "-A KUBE-SERVICES -s 10.9.9.9 -p tcp -d 10.96.0.10 --dport 80 -j RETURN", idle: "bottom: what it returns from is at its end"},
	{table: "nat", line: "-A KUBE-SERVICES -s 10.9.9.9 -j RETURN", idle: "bottom: what it returns from is at its end"},
	{table: "nat", line: "-A KUBE-SERVICES -p tcp -d 10.96.0.10 -j {here}"},
	{table: "nat", line: "-A KUBE-SERVICES -p tcp -d 10.96.0.0/16 --dport 7777 -j {here}"},
	// Node ports.
	{table: "nat", line: "-A KUBE-NODEPORTS -p tcp --dport 22 -j {here}", idle: "(O[12]|virtual1/ipv4): the guard before lets no such port through"},
	{table: "nat", line: "-A KUBE-NODEPORTS -p tcp --dport 20:22 -s 10.9.0.0/16 -j {here}", idle: "(O[12]|virtual1/ipv4): the guard before lets no such port through"},
	{table: "nat", line: "-A KUBE-NODEPORTS -p tcp -s 10.9.9.9 -j KUBE-MARK-MASQ"},
	// Masquerading and marks.
	{table: "nat", line: "-A KUBE-POSTROUTING -s 10.244.0.0/16 -j MASQUERADE", idle: "bottom: all that comes there is masqueraded"},
	{table: "nat", line: "-A KUBE-POSTROUTING -d 8.8.8.8 -j MASQUERADE", idle: "bottom: all that comes there is masqueraded"},
	{table: "nat", line: "-A KUBE-POSTROUTING -p tcp --dport 443 -j MASQUERADE", idle: "bottom: all that comes there is masqueraded"},
	{table: "nat", line: "-A KUBE-POSTROUTING -s 10.9.9.9 -j RETURN", idle: "bottom: all that comes there is masqueraded"},
	{table: "nat", line: "-A KUBE-POSTROUTING -d 8.8.8.8 -j MARK --or-mark 0x20", idle: "bottom: all that comes there is masqueraded"},
	{table: "nat", line: "-A KUBE-SERVICES -d 10.96.0.10 -j MARK --set-xmark 0x0/0xffffffff", idle: "virtual.*bottom: what is served has been accepted, and the rest is refused"},
	{table: "nat", line: "-A KUBE-SERVICES -p tcp -d 10.96.0.10 --dport 80 -j MARK --set-xmark 0x0/0x20", idle: "bottom: the service has taken the packet"},
	{table: "nat", line: "-A KUBE-SERVICES -d 8.8.8.8 -j MARK --xor-mark 0x20"},
	{table: "nat", line: "-A KUBE-MARK-MASQ -j MARK --or-mark 0x20", idle: "O[12]: nobody jumps there"},
	{table: "nat", line: "-A KUBE-MARK-MASQ -s 10.9.9.9 -j RETURN", idle: "O[12]|bottom: nobody jumps there, or the mark is set"},
	{table: "nat", line: "-A {here} -s 10.244.9.9 -j MARK --or-mark 0x4000", idle: "(O|kube-proxy|virtual./ipv4).*bottom: the endpoint is chosen"},
	{table: "nat", line: "-A {here} -s 10.244.9.9 -j RETURN", idle: "(O|kube-proxy|virtual./ipv4).*bottom: the endpoint is chosen"},
	// Flows that another announced begin in nat as well; untracked packets do not.
	{table: "nat", line: "-A KUBE-SERVICES -p tcp -m conntrack --ctstate RELATED -j DNAT --to-destination 10.244.1.5:8080", idle: virtualRare},
	{table: "nat", line: "-A KUBE-SERVICES -m conntrack --ctstate RELATED -j ACCEPT", idle: virtualRare},
	{table: "nat", line: "-A KUBE-POSTROUTING -m conntrack --ctstate RELATED -j MASQUERADE", idle: "bottom|" + virtualRare},
	{table: "filter", line: "-A KUBE-FORWARD -m conntrack --ctstate UNTRACKED -j DROP", idle: virtualRare},
	{table: "filter", line: "-A KUBE-FORWARD -m conntrack --ctstate INVALID,UNTRACKED -j ACCEPT", idle: "virtual.*bottom: invalid ones are dropped before, and the others not tried"},
	// The filter: what is let through, and what is not.
	{table: "filter", line: "-A KUBE-FORWARD -d 10.244.1.5 -j DROP"},
	{table: "filter", line: "-A KUBE-FORWARD -d 10.244.0.0/16 -m conntrack --ctstate DNAT -j DROP", idle: "O[12].*bottom|virtual./ipv6: new packets have gone elsewhere; or nat sends nobody on"},
	{table: "filter", line: "-A KUBE-FORWARD -s 10.9.9.9 -j DROP"},
	{table: "filter", line: "-A KUBE-FORWARD -s 10.9.9.9 -j ACCEPT"},
	{table: "filter", line: "-A KUBE-FORWARD -s 10.9.9.9 -j RETURN", idle: "bottom: what it returns from is at its end"},
	{table: "filter", line: "-A KUBE-FORWARD -p tcp --dport 443 -j ACCEPT"},
	{table: "filter", line: "-A KUBE-FORWARD -p icmp -j DROP"},
	{table: "filter", line: "-A KUBE-FORWARD -m mark --mark 0x20/0x20 -j ACCEPT"},
	{table: "filter", line: "-A KUBE-FORWARD -m conntrack --ctstate NEW -i eth7 -j REJECT", idle: newElsewhere},
	{table: "filter", line: "-A INPUT -j KUBE-FORWARD"},
	{table: "filter", line: "-A INPUT -s 10.9.9.9 -j KUBE-FORWARD"},
	{table: "filter", line: "-A OUTPUT -j KUBE-FORWARD"},
	{table: "filter", line: "-A OUTPUT -d 8.8.8.8 -j KUBE-FORWARD"},
	{table: "filter", line: "-A FORWARD -s 10.9.9.9 -j KUBE-FIREWALL", idle: ".: no martian is forwarded"},
	{table: "nat", line: "-A OUTPUT -d 8.8.8.8 -j KUBE-MARK-MASQ"},
	{table: "nat", line: "-A PREROUTING -s 10.9.9.9 -j KUBE-MARK-MASQ"},
}

// ofTables are rules for chains that mode iptables has.
var ofTables = []planted{
	{table: "filter", line: "-A KUBE-NODEPORTS -p tcp --dport 22 -j ACCEPT"},
	{table: "filter", line: "-A KUBE-NODEPORTS -p tcp --dport 22 -j DROP"},
	{table: "filter", line: "-A KUBE-NODEPORTS -p tcp --dport 20:25 -s 10.9.0.0/16 -j DROP"},
	{table: "filter", line: "-A KUBE-FIREWALL -s 10.9.9.9 -j DROP"},
	{table: "filter", line: "-A KUBE-FIREWALL -d 8.8.8.8 -j DROP"},
	{table: "filter", line: "-A KUBE-SERVICES -p tcp -d 8.8.8.8 --dport 53 -j REJECT"},
	{table: "filter", line: "-A KUBE-SERVICES -d 8.8.8.0/24 -j DROP"},
	{table: "filter", line: "-A KUBE-EXTERNAL-SERVICES -p tcp -d 8.8.8.8 --dport 53 -j REJECT"},
	{table: "filter", line: "-A KUBE-EXTERNAL-SERVICES -p tcp -m addrtype --dst-type LOCAL --dport 22 -j DROP"},
}

// ofVirtual are entries for IPVS mode.
var ofVirtual = []planted{
	{line: "add KUBE-CLUSTER-IP 8.8.8.8,tcp:53"},
	{line: "add KUBE-CLUSTER-IP 10.96.0.10,tcp:81"},
	{line: "add KUBE-EXTERNAL-IP 8.8.8.8,tcp:53"},
	{line: "add KUBE-LOAD-BALANCER 8.8.8.8,tcp:53"},
	{line: "add KUBE-IPVS-IPS 8.8.8.8"},
	{line: "add KUBE-NODE-PORT-TCP 22"},
	{line: "add KUBE-NODE-PORT-UDP 53", idle: ".: the cluster has no such node port, so no rule asks the set"},
	{line: "add KUBE-HEALTH-CHECK-NODE-PORT 22", idle: "ipv6: no rule asks the set"},
	{line: "add KUBE-NO-LOCAL-ENDPOINTS 8.8.8.8,tcp:53", idle: "ipv6: no rule asks the set"},
	{line: "add KUBE-LOAD-BALANCER-FW 8.8.8.8,tcp:53"},
	{line: "add KUBE-LOAD-BALANCER-SOURCE-CIDR 203.0.113.21,tcp:443,10.9.0.0/16"},
	{line: "add KUBE-LOOP-BACK 10.244.1.5,tcp:8080,10.244.9.9"},
	{line: "add KUBE-LOAD-BALANCER-LOCAL 8.8.8.8,tcp:53", idle: ".: a load balancer's address is asked first"},
	{line: "address replace 8.8.8.8/32 dev kube-ipvs0"},
	{line: "-A -t 8.8.8.8:53 -s rr"},
	{line: "-A -t 10.96.0.10:81 -s rr\n-a -t 10.96.0.10:81 -r 10.244.1.5:8080 -m -w 1"},
	{line: "-A -u 10.96.0.10:80 -s rr\n-a -u 10.96.0.10:80 -r 10.244.1.5:8080 -m -w 1"},
	{line: "-A -t 192.0.2.10:22 -s rr\n-a -t 192.0.2.10:22 -r 10.244.1.5:8080 -m -w 1"},
	{line: "-a -t 10.96.0.10:80 -r 10.244.9.9:8080 -m -w 1"},
}

// sixth are the addresses of the same cluster in IPv6.
var asSixth = strings.NewReplacer(
	"8.8.8.8/32", "2001:4860::8/128", "8.8.8.8 ", "2001:4860::8 ", "8.8.0.0/16", "2001:4860::/32", "8.8.8.0/24", "2001:4860::/64", "8.8.8.8:53", "[2001:4860::8]:53",
	"8.8.8.8", "2001:4860::8", "10.9.9.9", "fd00:9::9", "10.9.0.0/16", "fd00:9::/32", "10.0.0.0/8", "fd00::/16", "10.96.0.0/16", "fd00:96::/64",
	"10.244.9.9:8080", "[fd00:244:9::9]:8080", "10.96.0.10:", "[fd00:96::10]:", "10.96.0.10", "fd00:96::10", "10.244.1.5:8080", "[fd00:244:1::5]:8080", "10.244.1.5", "fd00:244:1::5", "10.244.0.0/16", "fd00:244::/32",
	"192.0.2.10:", "[2001:db8:2::10]:", "203.0.113.21", "2001:db8:113::21", "10.244.9.9", "fd00:244:9::9", "icmp", "ipv6-icmp",
)

// inSixth is a line with the addresses of IPv6.
func inSixth(line string) string {
	if strings.HasPrefix(line, "add KUBE-") {
		name, entry, _ := strings.Cut(strings.TrimPrefix(line, "add KUBE-"), " ")
		name = "KUBE-6-" + name
		return "add " + name[:min(len(name), 31)] + " " + strings.NewReplacer("10.96.0.10", "fd00:96::10", "10.244.1.5", "fd00:244:1::5").Replace(asSixth.Replace(entry))
	}
	return strings.Replace(asSixth.Replace(line), "/32 dev", "/128 dev", 1)
}

// place puts a rule at the top or the end of its chain, and another line at the end
// of its tool's part.
func (p planted) place(text string, top bool) string {
	line := p.line + "\n"
	if p.table == "" {
		return placeLine(text, line)
	}
	from := strings.Index(text, "*"+p.table+"\n")
	to := from + strings.Index(text[from:], "\nCOMMIT") + 1
	body := text[from:to]
	if strings.Contains(line, "{here}") {
		line = strings.ReplaceAll(line, "{here}", delivering(body))
	}
	chain := strings.Fields(line)[1]
	if at := strings.Index(body, "\n-A "+chain+" "); top && at >= 0 {
		body = body[:at+1] + line + body[at+1:]
	} else {
		body += line
	}
	return text[:from] + body + text[to:]
}

var delivers = regexp.MustCompile(`(?m)^-A (KUBE-S\S+) .*-p tcp .*-j DNAT `)

// delivering is a chain of a text that sends TCP to an endpoint and asks nothing of
// the destination.
func delivering(nat string) string {
	for _, m := range delivers.FindAllStringSubmatch(nat, -1) {
		if !strings.Contains(m[0], " -d ") {
			return m[1]
		}
	}
	return "there-is-none"
}

// placeLine puts a line behind the last that begins like it.
func placeLine(text, line string) string {
	word := regexp.MustCompile(`^(add KUBE-|address |-A -|-a -)`).FindString(line)
	at := strings.LastIndex(text, "\n"+word)
	if at < 0 {
		return text
	}
	end := at + 1 + strings.Index(text[at+1:], "\n") + 1
	return text[:end] + line + text[end:]
}
