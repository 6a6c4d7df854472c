package rule

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
		r := Rule{Chain: "KUBE-SERVICES", Comment: c, Action: Accept}
		if b, err := Append(nil, &r); err == nil {
			t.Errorf("%q is printed as %q", c, b)
		} else if !strings.Contains(err.Error(), "could end it") {
			t.Errorf("%q: %v", c, err)
		}
		if b, err := AppendTable(nil, &Table{Name: "nat", Rules: []Rule{r}}); err == nil || b != nil {
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
		got, err := Append(nil, &Rule{Chain: "X", Comment: c})
		if err != nil || string(got) != want {
			t.Errorf("%q: %q, %v", c, got, err)
		}
	}
}

// How each condition and action is written, as kube-proxy writes it.
func TestWords(t *testing.T) {
	p4, p6 := netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00::/56")
	a4, a6 := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")
	for want, m := range map[string]Match{
		" -s 10.244.0.0/16":                       Source(p4),
		" ! -s fd00::/56":                         SourceNot(p6),
		" -s 10.0.0.1":                            SourceHost(a4),
		" -d 10.244.0.0/16":                       Destination(p4),
		" ! -d fd00::/56":                         DestinationNot(p6),
		" -d fd00::1":                             DestinationHost(a6),
		" -m udp -p udp":                          Protocol(ir.UDP),
		" -m sctp -p sctp":                        Protocol(ir.SCTP),
		" --dport 65535":                          Port(65535),
		" -m addrtype --src-type LOCAL":           SourceLocal,
		" -m addrtype --dst-type LOCAL":           DestinationLocal,
		" -i cbr0":                                Input{Name: "cbr0"},
		" ! -i veth+":                             Input{Name: "veth+", Not: true},
		" -m conntrack --ctstate NEW":             States{List: "NEW"},
		" -m conntrack ! --ctstate RELATED":       States{List: "RELATED", Not: true},
		" -m mark --mark 0x00004000/0x00004000":   Marked{Bit: 0x4000},
		" -m mark ! --mark 0x80000000/0x80000000": Marked{Bit: 1 << 31, Not: true},
		" -m recent --name L --rcheck --seconds 10800 --reap": Seen{List: "L", Seconds: 10800},
		" -m recent --name L --set":                           Remember("L"),
		" -j KUBE-SERVICES":                                   Jump("KUBE-SERVICES"),
		" -j DNAT --to-destination 10.0.0.1:80":               DNAT{To: netip.AddrPortFrom(a4, 80)},
		" -j DNAT --to-destination [fd00::1]:80":              DNAT{To: netip.AddrPortFrom(a6, 80)},
		" -j MARK --or-mark 0x00004000":                       SetMark{Op: "or", Bit: 0x4000},
		" -j MARK --xor-mark 0x00000001":                      SetMark{Op: "xor", Bit: 1},
		" -j MASQUERADE --random-fully":                       Masquerade{},
	} {
		if got := string(m.appendTo(nil)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
