package iptables

import (
	"net/netip"
	"strings"
	"testing"

	"svcc/emit/iptables/rule"
	"svcc/ir"
)

// Text from a manifest cannot end its comment or its line.
func TestCommentsAreRefused(t *testing.T) {
	for _, c := range []string{
		"a\"b", "a'b", `a\b`, "a\nb", "a\rb", "a\tb", "a\x00b", "a\x1bb", "a\x7fb", "a\u0085b", "a\u2028b", "ä", "a\xffb",
		"demo/web\n-A INPUT -j ACCEPT",
	} {
		r := rule.Rule{Chain: ChainServices, Comment: c, Action: rule.Accept}
		if b, err := rule.Append(nil, &r); err == nil {
			t.Errorf("%q is printed as %q", c, b)
		} else if !strings.Contains(err.Error(), "could end it") {
			t.Errorf("%q: %v", c, err)
		}
		if b, err := rule.AppendTable(nil, &rule.Table{Name: "nat", Rules: []rule.Rule{r}}); err == nil || b != nil {
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
		got, err := rule.Append(nil, &rule.Rule{Chain: "X", Comment: c})
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
	for want, m := range map[string]rule.Match{
		" -s 10.244.0.0/16":                       rule.Source(p4),
		" ! -s fd00::/56":                         rule.SourceNot(p6),
		" -s 10.0.0.1":                            rule.SourceHost(a4),
		" -d 10.244.0.0/16":                       rule.Destination(p4),
		" ! -d fd00::/56":                         rule.DestinationNot(p6),
		" -d fd00::1":                             rule.DestinationHost(a6),
		" -m udp -p udp":                          rule.Protocol(ir.UDP),
		" -m sctp -p sctp":                        rule.Protocol(ir.SCTP),
		" --dport 65535":                          rule.Port(65535),
		" -m addrtype --src-type LOCAL":           rule.SourceLocal,
		" -m addrtype --dst-type LOCAL":           rule.DestinationLocal,
		" -i cbr0":                                rule.Input{Name: "cbr0"},
		" ! -i veth+":                             rule.Input{Name: "veth+", Not: true},
		" -m conntrack --ctstate NEW":             newOnly,
		" -m conntrack ! --ctstate RELATED":       rule.States{List: "RELATED", Not: true},
		" -m mark --mark 0x00004000/0x00004000":   rule.Marked{Bit: 0x4000},
		" -m mark ! --mark 0x80000000/0x80000000": rule.Marked{Bit: 1 << 31, Not: true},
		" -m recent --name L --rcheck --seconds 10800 --reap": rule.Seen{List: "L", Seconds: 10800},
		" -m recent --name L --set":                           rule.Remember("L"),
		" -j KUBE-SERVICES":                                   rule.Jump(ChainServices),
		" -j DNAT --to-destination 10.0.0.1:80":               rule.DNAT{To: netip.AddrPortFrom(a4, 80)},
		" -j DNAT --to-destination [fd00::1]:80":              rule.DNAT{To: netip.AddrPortFrom(a6, 80)},
		" -j MARK --or-mark 0x00004000":                       rule.SetMark{Op: "or", Bit: 0x4000},
		" -j MARK --xor-mark 0x00000001":                      rule.SetMark{Op: "xor", Bit: 1},
		" -j MASQUERADE --random-fully":                       rule.Masquerade{},
	} {
		if got := string(m.AppendTo(nil)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
