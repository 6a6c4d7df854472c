package iptables

import (
	"net/netip"
	"strings"
	"testing"

	"svcc/ir"
)

// Text from a manifest cannot end its comment or its line.
func TestCommentsAreRefused(t *testing.T) {
	for _, c := range []string{
		"a\"b", "a'b", `a\b`, "a\nb", "a\rb", "a\tb", "a\x00b", "a\x1bb", "a\x7fb", "a\u0085b", "a\u2028b", "ä", "a\xffb",
		"demo/web\n-A INPUT -j ACCEPT",
	} {
		r := rule{chain: ChainServices, comment: c, action: accept}
		if b, err := appendRule(nil, &r); err == nil {
			t.Errorf("%q is printed as %q", c, b)
		} else if !strings.Contains(err.Error(), "could end it") {
			t.Errorf("%q: %v", c, err)
		}
		if b, err := appendTable(nil, &table{name: "nat", rules: []rule{r}}); err == nil || b != nil {
			t.Errorf("%q: a table, %q", c, b)
		}
	}
}

// Every printable character else may stand in a comment; blanks need quotes.
func TestCommentsArePrinted(t *testing.T) {
	for r := rune(' '); r <= '~'; r++ {
		if strings.ContainsRune("\"'\\", r) {
			continue
		}
		c := "a" + string(r) + "b"
		want := "-A X -m comment --comment " + c + "\n"
		if r == ' ' {
			want = "-A X -m comment --comment \"a b\"\n"
		}
		got, err := appendRule(nil, &rule{chain: "X", comment: c})
		if err != nil || string(got) != want {
			t.Errorf("%q: %q, %v", c, got, err)
		}
	}
}

// A name that breaks out is refused by the backend as a whole.
func TestEmitRefusesNames(t *testing.T) {
	for _, name := range []string{"we\"b", "we\nb", "we b\\", "wéb"} {
		a := netip.MustParseAddr("10.96.0.1")
		n := ir.PortName{Namespace: "demo", Name: name, Protocol: ir.TCP}
		g := &ir.Graph{Family: ir.IPv4, Options: ir.Options{MasqueradeMark: 1}, Entries: []*ir.Entry{
			{Frontend: ir.Frontend{Kind: ir.ClusterIP, Addr: a, Port: 80}, Service: n, Next: &ir.Refuse{Reason: ir.NoEndpoints}},
		}}
		if s, err := (Backend{}).Emit(g, emitLevel0); err == nil || s != nil {
			t.Errorf("%q: %v", name, s)
		}
	}
}

// How each condition and action is written, as kube-proxy writes it.
func TestWords(t *testing.T) {
	p4, p6 := netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00::/56")
	a4, a6 := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")
	for want, m := range map[string]match{
		" -s 10.244.0.0/16":                       source(p4),
		" ! -s fd00::/56":                         sourceNot(p6),
		" -s 10.0.0.1":                            sourceHost(a4),
		" -d 10.244.0.0/16":                       destination(p4),
		" ! -d fd00::/56":                         destinationNot(p6),
		" -d fd00::1":                             destinationHost(a6),
		" -m udp -p udp":                          protocol(ir.UDP),
		" -m sctp -p sctp":                        protocol(ir.SCTP),
		" --dport 65535":                          port(65535),
		" -m addrtype --src-type LOCAL":           sourceLocal,
		" -m addrtype --dst-type LOCAL":           destinationLocal,
		" -i cbr0":                                input{name: "cbr0"},
		" ! -i veth+":                             input{name: "veth+", not: true},
		" -m conntrack --ctstate NEW":             newOnly,
		" -m conntrack ! --ctstate RELATED":       states{list: "RELATED", not: true},
		" -m mark --mark 0x00004000/0x00004000":   marked{bit: 0x4000},
		" -m mark ! --mark 0x80000000/0x80000000": marked{bit: 1 << 31, not: true},
		" -m recent --name L --rcheck --seconds 10800 --reap": seen{"L", 10800},
		" -m recent --name L --set":                           remember("L"),
		" -j KUBE-SERVICES":                                   jump(ChainServices),
		" -j DNAT --to-destination 10.0.0.1:80":               dnat{to: netip.AddrPortFrom(a4, 80)},
		" -j DNAT --to-destination [fd00::1]:80":              dnat{to: netip.AddrPortFrom(a6, 80)},
		" -j MARK --or-mark 0x00004000":                       setMark{"or", 0x4000},
		" -j MARK --xor-mark 0x00000001":                      setMark{"xor", 1},
		" -j MASQUERADE --random-fully":                       masquerade{},
	} {
		if got := string(m.appendTo(nil)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
