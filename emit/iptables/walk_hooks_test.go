package iptables

import (
	"sync"
	"testing"

	"svcc/ir"
	"svcc/ir/eval"
)

// TestLoopback sends a packet from the node to a service whose endpoint is the
// node. Seen so on a kernel with both flavours: at INPUT it comes by lo with
// the source and mark that POSTROUTING left, conntrack knows of the DNAT, and
// nat is not asked again.
func TestLoopback(t *testing.T) {
	const rules = `*filter
-A OUTPUT -m mark --mark 0x4000/0x4000 -j MARK --or-mark 0x1
-A INPUT -i lo -j MARK --or-mark 0x2
-A INPUT -s 192.0.2.10 -j MARK --or-mark 0x4
-A INPUT -m addrtype --src-type LOCAL -s 192.0.2.0/24 -j MARK --or-mark 0x8
-A INPUT -m mark --mark 0x4000/0x4000 -j MARK --or-mark 0x10
-A INPUT -m conntrack --ctstate DNAT -j MARK --or-mark 0x20
-A INPUT -m conntrack --ctstate SNAT -j MARK --or-mark 0x40
-A INPUT -m conntrack --ctstate NEW -j MARK --or-mark 0x80
-A OUTPUT -m conntrack --ctstate SNAT -j MARK --or-mark 0x100
-A FORWARD -j DROP
COMMIT
*nat
-A PREROUTING -j MARK --or-mark 0x200
-A OUTPUT -d 10.96.0.1 -j MARK --or-mark 0x4000
-A OUTPUT -d 10.96.0.1 -j DNAT --to-destination 192.0.2.10
-A POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN
-A POSTROUTING -j MARK --xor-mark 0x4000
-A POSTROUTING -j MASQUERADE
COMMIT
`
	w := mustParse(t, ir.IPv4, rules)
	checkWalk(t, w, packet(ir.UDP, "127.0.0.1", "", "10.96.0.1:53"),
		"1 to 192.0.2.10:53 masquerade mark 0xef output=policy input=policy")
	p := packet(ir.UDP, "127.0.0.1", "", "10.96.0.1:53")
	p.State = eval.Established
	checkWalk(t, w, p, "1 as it is to 10.96.0.1:53 output=policy")
	checkWalk(t, w, packet(ir.UDP, outside, "eth0", "192.0.2.10:53"),
		"1 as it is to 192.0.2.10:53 mark 0x280 input=policy")
	checkWalk(t, w, packet(ir.UDP, outside, "lo", "10.96.0.1:53"), "1 drop as it is to 10.96.0.1:53 forward=drop")
}

// TestNoTables has every hook end at its policy where the text has no table.
func TestNoTables(t *testing.T) {
	w := mustParse(t, ir.IPv4, "")
	checkWalk(t, w, packet(ir.TCP, own, "", "192.0.2.10:1"), "1 as it is to 192.0.2.10:1 output=policy input=policy")
	checkWalk(t, w, packet(ir.TCP, pod, "x", "1.1.1.1:1"), "1 as it is to 1.1.1.1:1 forward=policy")
}

// TestStickyAge takes the least age that a remembered client must have, and
// does not believe affinity that changes the source address.
func TestStickyAge(t *testing.T) {
	for _, c := range []struct{ name, rules, want string }{
		{"two ages on one way", "-A OUTPUT -m recent --name a --rcheck --seconds 60 -j B\n" +
			"-A OUTPUT -m recent --name a --rcheck --seconds 30 -j A\n-A OUTPUT -m mark --mark 0 -j A\n", " sticky 30s"},
		{"the greater age last", "-A OUTPUT -m recent --name a --rcheck --seconds 30 -j B\n" +
			"-A OUTPUT -m recent --name a --rcheck --seconds 60 -j A\n-A OUTPUT -m mark --mark 0 -j A\n", " sticky 30s"},
		{"ages on two ways", "-A OUTPUT -m statistic --mode random --probability 0.5 -m recent --name a --rcheck --seconds 30 -j A\n" +
			"-A OUTPUT -m recent --name a --rcheck --seconds 60 -j A\n-A OUTPUT -m mark --mark 0 -j A\n", " sticky 30s"},
		{"and the other way round", "-A OUTPUT -m statistic --mode random --probability 0.5 -m recent --name a --rcheck --seconds 60 -j A\n" +
			"-A OUTPUT -m recent --name a --rcheck --seconds 30 -j A\n-A OUTPUT -m mark --mark 0 -j A\n", " sticky 30s"},
		{"no age", "-A OUTPUT -m recent --name a --rcheck -j A\n-A OUTPUT -m mark --mark 0 -j A\n", " sticky 2147483647s"},
		{"never asked", "-A OUTPUT -j A\n", " sticky -1s"},
		{"masqueraded when remembered", "-A OUTPUT -m recent --name a --rcheck --seconds 30 -j MARK --or-mark 1\n-A OUTPUT -j A\n", " sticky -1s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := mustParse(t, ir.IPv4, "*nat\n:A - [0:0]\n:B - [0:0]\n"+c.rules+
				"-A A -p tcp -m recent --name a --set -j DNAT --to-destination 10.0.0.7:1\n"+
				"-A POSTROUTING -m mark --mark 1 -j MASQUERADE\nCOMMIT\n")
			checkWalk(t, w, packet(ir.TCP, own, "", "1.1.1.1:80"), "1 to 10.0.0.7:1 output=policy"+c.want)
		})
	}
}

// TestConcurrent walks from several goroutines.
func TestConcurrent(t *testing.T) {
	w := mustParse(t, ir.IPv4, readFile(t, "worked.rules"))
	p := packet(ir.UDP, pod, "cali1", "10.96.0.53:53")
	want, err := w.Walk(p, node)
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 200 {
				if got, err := w.Walk(p, node); err != nil || !got.Equal(want) {
					t.Errorf("got %s, %v", got, err)
					return
				}
			}
		})
	}
	group.Wait()
}
