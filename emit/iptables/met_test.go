package iptables

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"svcc/emit"
	"svcc/ir"
	"svcc/ir/eval"
)

// Met counts by hand: OUTPUT has no rules, so only nat PREROUTING, KUBE-SERVICES
// and, for half of the packets, the second endpoint's rule count.
func TestMet(t *testing.T) {
	const text = `*nat
:KUBE-SERVICES - [0:0]
:KUBE-SVC-A - [0:0]
-A PREROUTING -j KUBE-SERVICES
-A KUBE-SERVICES -p tcp -m tcp -d 10.0.0.1 --dport 80 -j KUBE-SVC-A
-A KUBE-SERVICES -p tcp -m tcp -d 10.0.0.2 --dport 80 -j KUBE-SVC-A
-A KUBE-SVC-A -p tcp -m statistic --mode random --probability 0.5 -j DNAT --to-destination 10.1.0.1:80
-A KUBE-SVC-A -p tcp -j DNAT --to-destination 10.1.0.2:80
COMMIT
`
	w, err := Backend{}.Parse(ir.IPv4, []emit.Section{{Tool: Tool, Family: ir.IPv4, Text: []byte(text)}}, true)
	if err != nil {
		t.Fatal(err)
	}
	for dst, want := range map[string]float64{
		"10.0.0.1:80": 1 + 1 + 1.5,
		"10.0.0.2:80": 1 + 2 + 1.5,
		"10.0.0.3:80": 1 + 2,
	} {
		p := eval.Packet{Src: netip.MustParseAddrPort("10.9.0.1:4000"), Dst: netip.MustParseAddrPort(dst), Protocol: ir.TCP, In: "eth0"}
		if got, err := w.Met(p, eval.Host{}); err != nil || got != want {
			t.Errorf("to %s: %v rules, %v; want %v", dst, got, err, want)
		}
	}
}

// A chain that is long enough for an index is met whole where none of its rules
// matches.
func TestMetNothingInALongChain(t *testing.T) {
	var text strings.Builder
	text.WriteString("*nat\n:KUBE-SERVICES - [0:0]\n-A PREROUTING -j KUBE-SERVICES\n")
	for i := range 32 {
		fmt.Fprintf(&text, "-A KUBE-SERVICES -p tcp -m tcp -d 10.0.0.%d --dport 80 -j RETURN\n", i+1)
	}
	text.WriteString("COMMIT\n")
	p := packet(ir.TCP, "10.9.0.1", "eth0", "10.1.0.1:80")
	if got, err := mustParse(t, ir.IPv4, text.String()).Met(p, eval.Host{}); err != nil || got != 33 {
		t.Errorf("%v rules, %v", got, err)
	}
}
