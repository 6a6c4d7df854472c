package iptables

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"svcc/emit"
	"svcc/ir"
)

// parseDump reads a text as a node's dump.
func parseDump(t testing.TB, text string) emit.Walker {
	t.Helper()
	w, err := parseSections(ir.IPv4, []emit.Section{{Tool: Tool, Family: ir.IPv4, Text: []byte(text), Dump: true}}, true, nil)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// shareOut is a chain that shares out among endpoints .1, .2, ... with the
// probabilities given.
func shareOut(probabilities ...string) string {
	var b strings.Builder
	b.WriteString("*nat\n:KUBE-SVC-A - [0:0]\n-A OUTPUT -j KUBE-SVC-A\n")
	for i, p := range append(probabilities, "") {
		if p != "" {
			p = "-m statistic --mode random --probability " + p + " "
		}
		fmt.Fprintf(&b, "-A KUBE-SVC-A -p tcp %s-j DNAT --to-destination 10.0.%d.%d:80\n", p, i/200, i%200+1)
	}
	return b.String() + "COMMIT\n"
}

// What five digits and the kernel's resolution leave of 1/n is 1/n in a dump, and
// what it is in a text of svcc's own. Half of a chance too many is seen.
func TestCoarseShares(t *testing.T) {
	p := packet(ir.TCP, own, "", "1.1.1.1:80")
	third := "1/3 to 10.0.0.1:80 output=policy\n1/3 to 10.0.0.2:80 output=policy\n1/3 to 10.0.0.3:80 output=policy"
	checkWalk(t, parseDump(t, shareOut("0.33332999982", "0.50000000000")), p, third)
	checkWalk(t, parseDump(t, shareOut("0.33333333349", "0.50000000000")), p, third)
	if got := walk1(t, mustParse(t, ir.IPv4, shareOut("0.33332999982", "0.50000000000")), p); !strings.HasPrefix(got, "33328/99985 to") {
		t.Errorf("in a text of svcc's own: %s", got)
	}
	checkWalk(t, parseDump(t, shareOut("0.50000000000", "0.50000000000")), p,
		"1/2 to 10.0.0.1:80 output=policy\n1/4 to 10.0.0.2:80 output=policy\n1/4 to 10.0.0.3:80 output=policy")
	checkWalk(t, parseDump(t, shareOut("0.33332999982")), p, "1/3 to 10.0.0.1:80 output=policy\n2/3 to 10.0.0.2:80 output=policy")
}

// Five digits say 1/500 and 1/501 alike; the place in the chain tells which.
func TestCoarseSharesOfMany(t *testing.T) {
	const n = 700
	var list []string
	for i := n; i > 1; i-- {
		list = append(list, fmt.Sprintf("%.5f", 1/float64(i)))
	}
	got := walk1(t, parseDump(t, shareOut(list...)), packet(ir.TCP, own, "", "1.1.1.1:80"))
	if c := strings.Count(got, "1/700 to "); c != n {
		t.Errorf("%d of %d endpoints have their share", c, n)
	}
}

// A bridge's port is no way in, whatever the mode.
func TestPhysdev(t *testing.T) {
	w := mustParse(t, ir.IPv4, "*nat\n:KUBE-SERVICES - [0:0]\n-A PREROUTING -j KUBE-SERVICES\n"+
		"-A KUBE-SERVICES -p tcp -m physdev --physdev-is-in -j DNAT --to-destination 10.0.0.1:80\n"+
		"-A KUBE-SERVICES -p tcp -m physdev ! --physdev-is-in -m addrtype ! --src-type LOCAL -j DNAT --to-destination 10.0.0.2:80\nCOMMIT\n")
	checkWalk(t, w, packet(ir.TCP, outside, "eth0", "203.0.113.9:80"), "1 to 10.0.0.2:80 forward=policy")
}

// Nothing foreign stops the reading of a dump, nor a rule of ours that cannot be
// read but the packets that meet it.
func TestUnread(t *testing.T) {
	w := parseDump(t, `*filter
-A FORWARD -j NDPI --flow
-A FORWARD -j INPUT
COMMIT
*rawpost
:POSTROUTING ACCEPT [0:0]
-A POSTROUTING -j RAWSNAT --to-source 192.0.2.1
COMMIT
*nat
:CNI-X - [0:0]
:LED - [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-SEP-A - [0:0]
-A PREROUTING -j CNI-X
-A PREROUTING -j KUBE-SERVICES
-A CNI-X -p tcp -j DNETMAP --prefix 10.1.0.0/16
-A KUBE-SERVICES -d 10.96.0.1/32 -p tcp -m tcp --dport 80 -j KUBE-SEP-A
-A KUBE-SERVICES -d 10.96.0.2/32 -p tcp -m tcp --dport 80 -j DNAT --to-destination 10.0.0.2:80
-A KUBE-SEP-A -s 10.0.0.1/32 -j KUBE-GONE
-A KUBE-SEP-A -p tcp -m tcp -j DNAT --to-destination  --random --to-destination
COMMIT
`)
	checkWalk(t, w, packet(ir.TCP, outside, "eth0", "10.96.0.2:80"), "1 to 10.0.0.2:80 forward=policy")
	for from, want := range map[string]string{outside: `--to-destination`, "10.0.0.1": "KUBE-GONE"} {
		_, err := w.Walk(packet(ir.TCP, from, "eth0", "10.96.0.1:80"), node)
		if !errors.Is(err, emit.ErrUnreadable) || !strings.Contains(err.Error(), "an iptables of another version") || !strings.Contains(err.Error(), want) {
			t.Errorf("from %s: %v", from, err)
		}
	}
	if got := strings.Join(w.Foreign(), "\n"); strings.Count(got, "\n") != 2 || !strings.Contains(got, `jumps to "DNETMAP"`) || !strings.Contains(got, `"NDPI"`) {
		t.Errorf("told %s", got)
	}
}
