package iptables

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"svcc/emit/walk"
	"svcc/ir"
	"svcc/ir/eval"
)

// clusterText is kube-proxy's layout for n services of k endpoints.
func clusterText(n, k int, affinity bool) string {
	var chains, rules strings.Builder
	for i := range n {
		vip := fmt.Sprintf("10.%d.%d.%d", 96+i>>16, i>>8&255, i&255)
		svc := fmt.Sprintf("KUBE-SVC-%016d", i)
		fmt.Fprintf(&chains, ":%s - [0:0]\n", svc)
		fmt.Fprintf(&rules, "-A KUBE-SERVICES -m comment --comment \"ns/svc-%d:http cluster IP\" -m tcp -p tcp -d %s --dport 80 -j %s\n", i, vip, svc)
		fmt.Fprintf(&rules, "-A %s -m comment --comment \"ns/svc-%d:http cluster IP\" -m tcp -p tcp -d %s --dport 80 ! -s 10.244.0.0/16 -j KUBE-MARK-MASQ\n", svc, i, vip)
		var seps, balance strings.Builder
		for e := range k {
			ep := fmt.Sprintf("10.244.%d.%d", (i*k+e)>>8&255, (i*k+e)&255)
			sep := fmt.Sprintf("KUBE-SEP-%08d%08d", i, e)
			fmt.Fprintf(&chains, ":%s - [0:0]\n", sep)
			set := ""
			if affinity {
				fmt.Fprintf(&rules, "-A %s -m comment --comment \"ns/svc-%d:http -> %s:%d\" -m recent --name %s --rcheck --seconds 10800 --reap -j %s\n", svc, i, ep, 8000+e, sep, sep)
				set = " -m recent --name " + sep + " --set"
			}
			p := ""
			if e < k-1 {
				p = fmt.Sprintf(" -m statistic --mode random --probability %.10f", 1/float64(k-e))
			}
			fmt.Fprintf(&balance, "-A %s -m comment --comment \"ns/svc-%d:http -> %s:%d\"%s -j %s\n", svc, i, ep, 8000+e, p, sep)
			fmt.Fprintf(&seps, "-A %s -m comment --comment ns/svc-%d:http -s %s -j KUBE-MARK-MASQ\n", sep, i, ep)
			fmt.Fprintf(&seps, "-A %s -m comment --comment ns/svc-%d:http%s -m tcp -p tcp -j DNAT --to-destination %s:%d\n", sep, i, set, ep, 8000+e)
		}
		rules.WriteString(balance.String() + seps.String())
	}
	return `*filter
:KUBE-FORWARD - [0:0]
-A FORWARD -j KUBE-FORWARD
-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP
-A KUBE-FORWARD -m mark --mark 0x00004000/0x00004000 -j ACCEPT
-A KUBE-FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
COMMIT
*nat
:KUBE-SERVICES - [0:0]
:KUBE-POSTROUTING - [0:0]
:KUBE-MARK-MASQ - [0:0]
` + chains.String() + `-A PREROUTING -j KUBE-SERVICES
-A OUTPUT -j KUBE-SERVICES
-A POSTROUTING -j KUBE-POSTROUTING
-A KUBE-POSTROUTING -m mark ! --mark 0x00004000/0x00004000 -j RETURN
-A KUBE-POSTROUTING -j MARK --xor-mark 0x00004000
-A KUBE-POSTROUTING -j MASQUERADE --random-fully
-A KUBE-MARK-MASQ -j MARK --or-mark 0x00004000
` + rules.String() + "COMMIT\n"
}

// TestLargeService has every endpoint of a large service reached alike and
// remembered, which the index must not change.
func TestLargeService(t *testing.T) {
	w := mustParse(t, ir.IPv4, clusterText(40, 500, true))
	p := packet(ir.TCP, pod, "cali1", "10.96.0.7:80")
	out, err := w.Walk(p, node)
	if err != nil || len(out) != 500 {
		t.Fatalf("%d branches, %v", len(out), err)
	}
	for _, b := range out {
		if b.Share != eval.OneIn(500) || b.Sticky != 10800 || !b.DNAT {
			t.Fatalf("a branch is %s", b)
		}
	}
	p.Remembered = out[321].To
	again, err := w.Walk(p, node)
	if err != nil || len(again) != 1 || again[0].To != p.Remembered || again[0].Sticky != 10800 {
		t.Errorf("remembered, the client goes to %s, %v", again, err)
	}
}

// TestIndex walks the same rules with and without indexes.
func TestIndex(t *testing.T) {
	var text, apart, chains strings.Builder // in one chain, and in many that are too short for an index
	text.WriteString("*nat\n:KUBE-X - [0:0]\n-A OUTPUT -j KUBE-X\n")
	for i := range 400 {
		rules := []string{
			fmt.Sprintf("-p tcp -d 10.0.0.%d --dport %d -j MARK --xor-mark %#x", i%5, i%3, i+1),
			fmt.Sprintf("-p udp --dport %d -j MARK --xor-mark %#x", i%3, i*7+1),
			fmt.Sprintf("-s 10.1.0.%d -j MARK --xor-mark %#x", i%4, i*13+1),
			fmt.Sprintf("-d 10.0.0.%d -m mark --mark 0x%d/0x%d -j MARK --xor-mark %#x", i%5, i&1, 1, i*17+1),
			fmt.Sprintf("! -d 10.0.0.%d -p tcp --dport %d: -j MARK --xor-mark %#x", i%5, i%3, i*19+1),
			fmt.Sprintf("-m recent --name l%d --rcheck -j MARK --xor-mark %#x", i%6, i*23+1),
			fmt.Sprintf("-s 10.1.0.%d -m recent --name l%d --set", i%9, i%4),
			fmt.Sprintf("-p tcp -d 10.0.0.%d -m recent --name l%d ! --update -j MARK --xor-mark %#x", i%5, i%6, i*29+1),
		}
		rule := rules[(i*5+i/8)%len(rules)]
		fmt.Fprintf(&text, "-A KUBE-X %s\n", rule)
		if i%10 == 0 {
			fmt.Fprintf(&chains, ":KUBE-%d - [0:0]\n", i)
			fmt.Fprintf(&apart, "-A OUTPUT -j KUBE-%d\n", i)
		}
		fmt.Fprintf(&apart, "-A KUBE-%d %s\n", i-i%10, rule)
	}
	text.WriteString("COMMIT\n")
	with, without := mustParse(t, ir.IPv4, text.String()), mustParse(t, ir.IPv4, "*nat\n"+chains.String()+apart.String()+"COMMIT\n")
	seen := map[string]bool{}
	for i := range 400 {
		p := packet(ir.TCP, fmt.Sprintf("10.1.0.%d", i%7), "", fmt.Sprintf("10.0.0.%d:%d", i/7%6, i%4))
		if i%3 == 0 {
			p.Protocol = ir.UDP
		}
		want := walk1(t, without, p)
		if got := walk1(t, with, p); got != want {
			t.Errorf("%s: with index\n%swithout\n%s", p, got, want)
		}
		seen[want] = true
	}
	if len(seen) < 50 {
		t.Errorf("only %d outcomes", len(seen))
	}
}

func BenchmarkParse(b *testing.B) {
	text := []byte(clusterText(9000, 5, false))
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		rs, err := parseRules(ir.IPv4, text)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(len(rs.Rules)), "rules")
	}
}

func BenchmarkNewWalker(b *testing.B) {
	rs, err := parseRules(ir.IPv4, []byte(clusterText(10000, 5, false)))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		walk.New(rs.Ruleset)
	}
}

func BenchmarkWalk(b *testing.B) {
	for _, c := range []struct {
		name     string
		n, k     int
		affinity bool
	}{{"10000services", 10000, 5, false}, {"affinity", 1000, 5, true}, {"1000endpoints", 10, 1000, false}, {"1000endpoints-affinity", 10, 1000, true}} {
		b.Run(c.name, func(b *testing.B) {
			w := mustParse(b, ir.IPv4, clusterText(c.n, c.k, c.affinity))
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				i = (i + 7919) % c.n
				p := packet(ir.TCP, pod, "cali1", "1.1.1.1:80")
				p.Dst = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)}), 80)
				if out, err := w.Walk(p, node); err != nil || !out[0].DNAT {
					b.Fatal(out, err)
				}
			}
		})
	}
}
