package lab

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"svcc/ir"
)

// place holds one family's addresses in the tests' little world.
type place struct {
	family                                   ir.Family
	node, pod, remote, outside               string
	masq, plain, local, reject, drop, refuse string // addresses with a rule
	cidr                                     string
}

var places = []place{
	{ir.IPv4, "192.0.2.10", "10.244.1.5", "10.244.2.7", "198.51.100.77",
		"10.96.0.1", "10.96.0.2", "10.96.0.3", "10.96.0.4", "10.96.0.5", "10.96.0.6", "10.244.0.0/16"},
	{ir.IPv6, "2001:db8::10", "fd00:244:1::5", "fd00:244:2::7", "2001:db8:77::77",
		"fd00:96::1", "fd00:96::2", "fd00:96::3", "fd00:96::4", "fd00:96::5", "fd00:96::6", "fd00:244::/32"},
}

// rules are one of each thing that rules for Services do. The reject of p.refuse
// is in INPUT, behind a DNAT to the node.
func rules(p place) string {
	to := func(addr string, port int) string {
		return netip.AddrPortFrom(netip.MustParseAddr(addr), uint16(port)).String()
	}
	var nat strings.Builder
	for _, chain := range []string{"PREROUTING", "OUTPUT"} {
		for _, proto := range []string{"tcp", "udp", "sctp"} {
			fmt.Fprintf(&nat, "-A %s -d %s -p %s --dport 80 -j MARK --set-mark 0x4000\n", chain, p.masq, proto)
			for from, dest := range map[string]string{p.masq: p.remote, p.plain: p.remote, p.local: p.node} {
				fmt.Fprintf(&nat, "-A %s -d %s -p %s --dport 80 -j DNAT --to-destination %s\n", chain, from, proto, to(dest, 8080))
			}
			fmt.Fprintf(&nat, "-A %s -d %s -p %s --dport 80 -j DNAT --to-destination %s\n", chain, p.refuse, proto, to(p.node, 9))
		}
	}
	var filter strings.Builder
	for _, chain := range []string{"FORWARD", "OUTPUT"} {
		fmt.Fprintf(&filter, "-A %s -d %s -j REJECT\n-A %[1]s -d %[3]s -j DROP\n", chain, p.reject, p.drop)
	}
	for _, proto := range []string{"tcp", "udp", "sctp"} {
		fmt.Fprintf(&filter, "-A INPUT -p %s --dport 9 -j REJECT\n", proto)
	}
	filter.WriteString("-A FORWARD -m conntrack --ctstate INVALID -j DROP\n-A FORWARD -m mark --mark 0x4000/0x4000 -j ACCEPT\n")
	return "*filter\n:INPUT ACCEPT\n:FORWARD ACCEPT\n:OUTPUT ACCEPT\n" + filter.String() + "COMMIT\n*nat\n:PREROUTING ACCEPT\n:OUTPUT ACCEPT\n:POSTROUTING ACCEPT\n" +
		nat.String() + "-A POSTROUTING -m mark --mark 0x4000/0x4000 -j MASQUERADE --random-fully\nCOMMIT\n"
}

func newLab(t *testing.T) *Lab {
	Require(t)
	var c Config
	for _, p := range places {
		c.Addrs = append(c.Addrs, netip.MustParseAddr(p.node))
		c.Pods = append(c.Pods, netip.MustParsePrefix(p.cidr))
	}
	c.Interfaces = []string{"cni0"}
	return New(t, c)
}

// each runs f with the rules loaded, in both flavours and families.
func each(t *testing.T, f func(t *testing.T, l *Lab, fl Flavour, p place)) {
	l := newLab(t)
	for _, fl := range Flavours {
		for _, p := range places {
			t.Run(fmt.Sprintf("%s/%s", fl, p.family), func(t *testing.T) {
				if err := l.LoadIPTables(fl, p.family, rules(p)); err != nil {
					t.Fatal(err)
				}
				f(t, l, fl, p)
				if err := l.Flush(fl); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}

// row is a packet and what becomes of it, as Seen.String says.
type row struct {
	in, src, dst string
	port         uint16
	mark         uint32
	invalid      bool
	want         string
}

func check(t *testing.T, l *Lab, rows []row) {
	t.Helper()
	var flows []Flow
	var wants []string
	for i, r := range rows {
		for _, proto := range []ir.Protocol{ir.TCP, ir.UDP, ir.SCTP} {
			src := netip.AddrPortFrom(netip.MustParseAddr(r.src), uint16(20000+i))
			dst := netip.AddrPortFrom(netip.MustParseAddr(r.dst), r.port)
			flows = append(flows, Flow{Src: src, Dst: dst, Protocol: proto, In: r.in, Mark: r.mark, Invalid: r.invalid})
			wants = append(wants, r.want)
		}
	}
	seen, err := l.Probe(flows)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range seen {
		if s.String() != wants[i] {
			t.Errorf("%+v: %s, want %s", flows[i], s, wants[i])
		}
	}
}

func TestVerdicts(t *testing.T) {
	each(t, func(t *testing.T, l *Lab, fl Flavour, p place) {
		remote := netip.AddrPortFrom(netip.MustParseAddr(p.remote), 8080).String()
		local := netip.AddrPortFrom(netip.MustParseAddr(p.node), 8080).String()
		asIs := func(a string) string { return netip.AddrPortFrom(netip.MustParseAddr(a), 80).String() }
		var rows []row
		for in, src := range map[string]string{Pods: p.pod, Outside: p.outside, "cni0": p.pod, "": p.node} {
			rows = append(rows,
				row{in, src, p.masq, 80, 0, false, "sent to " + remote + " masquerade"},
				row{in, src, p.plain, 80, 0, false, "sent to " + remote},
				row{in, src, p.plain, 80, 0x4000, false, "sent to " + remote + " masquerade"},
				row{in, src, p.plain, 80, 0x8000, false, "sent to " + remote},
				row{in, src, p.reject, 80, 0, false, "rejected"},
				row{in, src, p.drop, 80, 0, false, "lost"},
				row{in, src, p.refuse, 80, 0, false, "rejected"},
				row{in, src, p.outside, 80, 0, false, "sent to " + asIs(p.outside)},
				row{in, src, p.outside, 80, 0x4000, false, "sent to " + asIs(p.outside) + " masquerade"},
				row{in, src, p.node, 80, 0, false, "delivered to " + asIs(p.node)},
			)
		}
		for in, src := range map[string]string{Pods: p.pod, Outside: p.outside} {
			rows = append(rows, row{in, src, p.local, 80, 0, false, "delivered to " + local},
				row{in, src, p.masq, 80, 0, true, "lost"})
		}
		// What the node sends to itself is masqueraded on its way over loopback.
		rows = append(rows, row{"", p.node, p.local, 80, 0x4000, false, "delivered to " + local + " masquerade"},
			row{"", p.node, p.masq, 80, 0, true, "sent to " + asIs(p.masq)})
		check(t, l, rows)
	})
}

func TestForwardPolicy(t *testing.T) {
	each(t, func(t *testing.T, l *Lab, fl Flavour, p place) {
		if err := l.ForwardPolicy(fl, p.family, "DROP"); err != nil {
			t.Fatal(err)
		}
		remote := netip.AddrPortFrom(netip.MustParseAddr(p.remote), 8080).String()
		check(t, l, []row{
			{Outside, p.outside, p.masq, 80, 0, false, "sent to " + remote + " masquerade"},
			{Outside, p.outside, p.plain, 80, 0, false, "lost"},
			{"", p.node, p.plain, 80, 0, false, "sent to " + remote},
		})
	})
}

// A flushed Lab has no rule left, and one without rules passes everything.
func TestFlush(t *testing.T) {
	l := newLab(t)
	for _, fl := range Flavours {
		for _, p := range places {
			if err := l.LoadIPTables(fl, p.family, rules(p)); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Flush(fl); err != nil {
			t.Fatal(err)
		}
		for _, p := range places {
			check(t, l, []row{{Outside, p.outside, p.drop, 80, 0, false, "sent to " + netip.AddrPortFrom(netip.MustParseAddr(p.drop), 80).String()}})
		}
	}
}

// The same packet sent again is the first of a new connection.
func TestConnectionsAreForgotten(t *testing.T) {
	each(t, func(t *testing.T, l *Lab, fl Flavour, p place) {
		remote := netip.AddrPortFrom(netip.MustParseAddr(p.remote), 8080).String()
		rows := []row{{Outside, p.outside, p.masq, 80, 0, false, "sent to " + remote + " masquerade"}}
		check(t, l, rows)
		if err := l.ForwardPolicy(fl, p.family, "DROP"); err != nil {
			t.Fatal(err)
		}
		check(t, l, rows) // accepted for the mark that only a new connection gets
	})
}

// Affinity by xt_recent holds until Forget.
func TestForget(t *testing.T) {
	l := newLab(t)
	for _, fl := range Flavours {
		text := `*nat
:PREROUTING ACCEPT
:A -
:B -
-A PREROUTING -d 10.96.0.1/32 -m recent --name A --rcheck --seconds 100 -j A
-A PREROUTING -d 10.96.0.1/32 -m recent --name B --rcheck --seconds 100 -j B
-A PREROUTING -d 10.96.0.1/32 -m statistic --mode random --probability 0.5 -j A
-A PREROUTING -d 10.96.0.1/32 -j B
-A A -m recent --name A --set -p tcp -j DNAT --to-destination 10.244.2.1:80
-A B -m recent --name B --set -p tcp -j DNAT --to-destination 10.244.2.2:80
COMMIT
`
		if err := l.LoadIPTables(fl, ir.IPv4, text); err != nil {
			t.Fatal(err)
		}
		var flows []Flow
		for i := range 80 {
			flows = append(flows, Flow{Src: netip.MustParseAddrPort(fmt.Sprintf("198.51.100.77:%d", 30000+i)),
				Dst: netip.MustParseAddrPort("10.96.0.1:80"), Protocol: ir.TCP, In: Outside, Forget: i%2 == 0})
		}
		seen, err := l.Probe(flows)
		if err != nil {
			t.Fatal(err)
		}
		met := map[netip.AddrPort]int{}
		for i := 0; i < len(seen); i += 2 {
			if seen[i].Fate != Sent || seen[i].To != seen[i+1].To {
				t.Errorf("%s: %v, then %v", fl, seen[i], seen[i+1])
			}
			met[seen[i].To]++
		}
		if len(met) != 2 { // wrong in 1 of 2^39 runs
			t.Errorf("%s: only %v", fl, met)
		}
		if err := l.Flush(fl); err != nil {
			t.Fatal(err)
		}
	}
}

// Dropped packets cost no waiting, and more packets than a device can queue
// are all seen.
func TestManyFlows(t *testing.T) {
	l := newLab(t)
	p := places[0]
	if err := l.LoadIPTables(Legacy, ir.IPv4, rules(p)); err != nil {
		t.Fatal(err)
	}
	var flows []Flow
	for i := range 3000 {
		dst := []string{p.drop, p.plain, p.reject}[i%3]
		flows = append(flows, Flow{Src: netip.AddrPortFrom(netip.MustParseAddr(p.outside), uint16(10000+i)),
			Dst: netip.AddrPortFrom(netip.MustParseAddr(dst), 80), Protocol: ir.TCP, In: Outside})
	}
	start := time.Now()
	seen, err := l.Probe(flows)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d packets in %v", len(flows), time.Since(start))
	for i, s := range seen {
		if want := []Fate{Lost, Sent, Rejected}[i%3]; s.Fate != want {
			t.Fatalf("packet %d: %v, want %v", i, s, want)
		}
	}
}

func TestErrors(t *testing.T) {
	l := newLab(t)
	err := l.LoadIPTables(Legacy, ir.IPv4, "*filter\n-A FORWARD -j NOWHERE\nCOMMIT\n")
	if err == nil || !strings.Contains(err.Error(), "NOWHERE") {
		t.Errorf("a rule that cannot be loaded: %v", err)
	}
	f := Flow{Src: netip.MustParseAddrPort("198.51.100.77:1"), Dst: netip.MustParseAddrPort("10.96.0.1:80"), Protocol: ir.TCP, In: "eth7"}
	if _, err := l.Probe([]Flow{f}); err == nil || !strings.Contains(err.Error(), "eth7") {
		t.Errorf("an interface that does not exist: %v", err)
	}
	f.In = Outside
	if _, err := l.Probe([]Flow{f, f}); err != nil {
		t.Errorf("after an error: %v", err)
	}
}
