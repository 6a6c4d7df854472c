package iptables

import (
	"bytes"
	"net/netip"
	"testing"

	"svcc/emit"
	"svcc/ir"
	"svcc/ir/eval"
)

// FuzzParse reads any bytes as rules of both families. What is read must be
// walked without a panic, traced to the same end, and have shares that add up.
func FuzzParse(f *testing.F) {
	// Short seeds: the time to minimize a find grows with the square.
	for _, text := range []string{
		":A - [0:0]\n-A OUTPUT -p 6 -d 0.0.0.1/0.0.0.3 -g A\n-I A -m statistic --mode random --probability 0.3 -j RETURN\n",
		"-A INPUT -m \"x y\" -j LOG --z \"\\\"\" ! -i lo\n[1:2] -A INPUT ! -s ::1/::1 -j REJECT --reject-with x\n-P INPUT DROP\n",
		":KUBE-A - [0:0]\n-A OUTPUT -m tcp -p tcp -d 10.96.0.10 --dport 80 -j KUBE-A\n-A KUBE-A -p tcp -j DNAT --to-destination 10.244.1.5:80\n",
		":KUBE-A - [0:0]\n-A PREROUTING -j KUBE-A\n-A KUBE-A -m recent --name a --rcheck --seconds 9 --reap -j RETURN\n-A KUBE-A -m recent --set --name a --mask 255.255.255.255 --rsource -p udp -j DNAT --to-destination 10.244.1.9:53\n",
		"-A POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN\n-A POSTROUTING -j MARK --xor-mark 0x4000\n-A POSTROUTING -j MASQUERADE --random-fully\n",
		"-A OUTPUT -m conntrack ! --ctstate NEW,DNAT -m addrtype --dst-type LOCAL -i a+ -j ACCEPT\n-N B\n-X B\n",
		"-A OUTPUT -p tcp -m multiport --dports 1,2:3 -d fd00::1 -m comment --comment \"a b\"\n-A OUTPUT -p tcp -j DNAT --to-destination [fd00::1]:80\n",
	} {
		f.Add([]byte("*nat\n" + text + "COMMIT\n"))
		f.Add([]byte("*filter\n" + text + "COMMIT\n"))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if bytes.Count(text, []byte("statistic")) > 10 {
			return // ways that double at each rule teach nothing
		}
		for _, family := range ir.Families {
			w, err := parse(family, string(text))
			if err != nil {
				continue
			}
			w.Foreign()
			for _, p := range fuzzPackets(w.rs) {
				fuzzWalk(t, w, p)
			}
		}
	})
}

func fuzzWalk(t *testing.T, w emit.Walker, p eval.Packet) {
	out, err := w.Walk(p, node)
	if err != nil {
		return
	}
	var sum eval.Share
	for _, b := range out {
		if sum, err = sum.Add(b.Share); err != nil {
			return
		}
	}
	if sum != eval.Whole {
		t.Errorf("%s: shares add up to %s:\n%s", p, sum, out)
	}
	traced, _, err := w.Trace(p, node)
	if err == nil && !traced.Equal(out) {
		t.Errorf("%s: walked to\n%sbut traced to\n%s", p, out, traced)
	}
}

// fuzzPackets are packets from outside, a pod and the node, to the worked
// example's services and to what the text's first rules lead to.
func fuzzPackets(rs ruleset) []eval.Packet {
	wideOrNot := func(s string) netip.AddrPort {
		a := netip.MustParseAddrPort(s)
		if rs.Family == ir.IPv6 {
			return wide(a)
		}
		return a
	}
	out := []eval.Packet{
		{Src: wideOrNot("10.244.1.5:40000"), Dst: wideOrNot("10.96.0.10:80"), Protocol: ir.TCP, In: "cali1"},
		{Src: wideOrNot("192.0.2.10:40000"), Dst: wideOrNot("192.0.2.10:30443"), Protocol: ir.TCP},
		{Src: wideOrNot("8.8.8.8:40000"), Dst: wideOrNot("10.96.0.53:53"), Protocol: ir.UDP, In: "eth0"},
		{Src: wideOrNot("8.8.8.8:40000"), Dst: wideOrNot("203.0.113.20:443"), Protocol: ir.TCP, In: "eth0", State: eval.Established, Mark: 0x4000},
	}
	if len(rs.Dests) > 0 {
		p := out[2]
		p.Remembered = rs.Dests[len(rs.Dests)-1]
		out = append(out, p)
	}
	return out
}
