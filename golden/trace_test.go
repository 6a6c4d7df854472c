package golden

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"svcc/ir"
	"svcc/ir/eval"
)

func addr(s string) netip.Addr         { return netip.MustParseAddr(s) }
func addrPrefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }
func addrPort(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

func TestParseTrace(t *testing.T) {
	goes := func(share eval.Share, to string, masq bool, sticky int) Branch {
		return Branch{Share: share, Verdict: eval.Accept, To: addrPort(to), DNAT: true, Masquerade: masq, Sticky: sticky}
	}
	half := eval.OneIn(2)
	for line, want := range map[string]Trace{
		"pod -> 10.96.0.10:80 = pass": {From: Pod, Dst: addrPort("10.96.0.10:80"), Protocol: ir.TCP,
			Want: []Branch{{Share: eval.Whole, Verdict: eval.Accept, To: addrPort("10.96.0.10:80")}}},
		"node 127.0.0.1 -> 127.0.0.1:30080/udp = pass masq": {From: Node, Src: addr("127.0.0.1"), Dst: addrPort("127.0.0.1:30080"), Protocol: ir.UDP,
			Want: []Branch{{Share: eval.Whole, Verdict: eval.Accept, To: addrPort("127.0.0.1:30080"), Masquerade: true}}},
		"outside->[fd00::1]:80/sctp state=invalid mark=0x4000 via=eth7 forward-policy=drop local=fd00::1,fd00::2 = drop": {
			From: Outside, Dst: addrPort("[fd00::1]:80"), Protocol: ir.SCTP, State: eval.Invalid, Mark: 0x4000, Via: "eth7", ForwardDrop: true,
			Local: []netip.Addr{addr("fd00::1"), addr("fd00::2")}, Want: []Branch{{Share: eval.Whole, Verdict: eval.Drop}}},
		"pod -> 1.2.3.4:5 = reject": {From: Pod, Dst: addrPort("1.2.3.4:5"), Protocol: ir.TCP, Want: []Branch{{Share: eval.Whole, Verdict: eval.Reject}}},
		"pod 10.2.0.1 -> 1.2.3.4:5 = 10.2.0.2:7, 10.2.0.1:7 masq sticky 90": {From: Pod, Src: addr("10.2.0.1"), Dst: addrPort("1.2.3.4:5"), Protocol: ir.TCP,
			Want: []Branch{goes(half, "10.2.0.1:7", true, 90), goes(half, "10.2.0.2:7", false, 90)}},
		"pod -> 1.2.3.4:5 = 1/4 10.2.0.1:7, 3/4 10.2.0.2:7 masq": {From: Pod, Dst: addrPort("1.2.3.4:5"), Protocol: ir.TCP,
			Want: []Branch{goes(eval.OneIn(4), "10.2.0.1:7", false, 0), goes(eval.Of(3, 4), "10.2.0.2:7", true, 0)}},
	} {
		got, err := ParseTraces("# comment\n\n  " + line + "\n")
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		want.Line, want.Text = 3, line
		if d := cmp.Diff([]Trace{want}, got, cmp.Comparer(func(a, b Branch) bool { return a == b }),
			cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); d != "" {
			t.Errorf("%s:\n%s", line, d)
		}
	}
}

func TestParseTraceErrors(t *testing.T) {
	for line, want := range map[string]string{
		"pod -> 1.2.3.4:5":                                         `" = "`,
		"pod 1.2.3.4:5 = pass":                                     `"->"`,
		"pod -> = pass":                                            "no destination",
		"-> 1.2.3.4:5 = pass":                                      "sender",
		"client -> 1.2.3.4:5 = pass":                               `"client"`,
		"pod 10.1 -> 1.2.3.4:5 = pass":                             "10.1",
		"pod 10.0.0.1 10.0.0.2 -> 1.2.3.4:5 = pass":                "sender",
		"pod fd00::1 -> 1.2.3.4:5 = pass":                          "families",
		"pod -> 1.2.3.4 = pass":                                    "1.2.3.4",
		"pod -> 1.2.3.4:5/icmp = pass":                             "icmp",
		"pod -> 1.2.3.4:5 state=old = pass":                        "state=old",
		"pod -> 1.2.3.4:5 mark=x = pass":                           "mark=x",
		"pod -> 1.2.3.4:5 forward-policy=no = pass":                "forward-policy=no",
		"pod -> 1.2.3.4:5 local=a = pass":                          "local=a",
		"pod -> 1.2.3.4:5 fast = pass":                             "fast",
		"node -> 1.2.3.4:5 via=eth0 = pass":                        "interface",
		"pod -> 1.2.3.4:5 = ":                                      `" = "`,
		"pod -> 1.2.3.4:5 = nowhere":                               "nowhere",
		"pod -> 1.2.3.4:5 = 10.0.0.1:80 mask":                      "no share",
		"pod -> 1.2.3.4:5 = 10.0.0.1:80,":                          "no result",
		"pod -> 1.2.3.4:5 = [fd00::1]:80":                          "families",
		"pod -> 1.2.3.4:5 = drop, 10.0.0.1:80":                     "alternatives",
		"pod -> 1.2.3.4:5 = pass sticky 10":                        "keeps no endpoint",
		"pod -> 1.2.3.4:5 = 10.0.0.1:80 sticky soon":               "soon",
		"pod -> 1.2.3.4:5 = 1/2 10.0.0.1:80, 10.0.0.2:80":          "all alternatives",
		"pod -> 1.2.3.4:5 = 1/2 10.0.0.1:80, 1/3 10.0.0.2:80":      "5/6",
		"pod -> 1.2.3.4:5 = 0/2 10.0.0.1:80, 2/2 10.0.0.2:80":      "no share",
		"pod -> 1.2.3.4:5 = 10.0.0.1:80 masq masq":                 "no result",
		"pod -> 1.2.3.4:5 state=invalid forward-policy=drop=drop":  `" = "`,
		"pod -> 1.2.3.4:5 local=10.0.0.1,fd00::1 state=bad = drop": "state=bad",
	} {
		_, err := ParseTraces("pod -> 1.2.3.4:5 = pass\n\n" + line + "\n")
		if err == nil || !strings.HasPrefix(err.Error(), "trace line 3: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one about line 3 with %q", line, err, want)
		}
	}
}

// FuzzParseTraces holds that no line makes the parser panic and that whatever
// it reads has shares that add up.
func FuzzParseTraces(f *testing.F) {
	f.Add("pod 10.2.0.1 -> 1.2.3.4:5/udp mark=1 = 1/4 10.2.0.1:7, 3/4 10.2.0.2:7 masq sticky 9")
	f.Fuzz(func(t *testing.T, text string) {
		traces, err := ParseTraces(text)
		if err != nil {
			return
		}
		for _, tr := range traces {
			var sum eval.Share
			for _, b := range tr.Want {
				sum, _ = sum.Add(b.Share)
			}
			if sum != eval.Whole {
				t.Errorf("%q: shares add up to %s", tr.Text, sum)
			}
		}
	})
}
