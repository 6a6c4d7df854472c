package iptables

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"svcc/emit"
	"svcc/emit/iptables/rule"
	"svcc/ir"
	"svcc/ir/eval"
)

func TestParseErrors(t *testing.T) {
	deep := "*nat\n"
	for i := range 64 + 2 {
		deep += fmt.Sprintf(":KUBE-%d - [0:0]\n", i)
	}
	for i := range 64 + 1 {
		deep += fmt.Sprintf("-A KUBE-%d -j KUBE-%d\n", i, i+1)
	}
	for _, c := range []struct{ text, want string }{
		{"*nat\n", "line 1: table nat ends without COMMIT"},
		{"*nat\n*filter\n", "line 2: table \"filter\" opens before COMMIT"},
		{"*nat\nCOMMIT\n*nat\nCOMMIT\n", "line 3: table nat opens again"},
		{"*mat\n", "line 1: table \"mat\" is unknown"},
		{"-A INPUT -j DROP\n", "outside a table"},
		{"*nat\nhello\n", "line 2: \"hello\": neither"},
		{"*nat\n:A - [0:0]\n:A - [0:0]\n", "line 3: chain \"A\" is declared again; first at line 2"},
		{"*nat\n:A ACCEPT [0:0]\n", "line 2: chain \"A\" is not built in"},
		{"*nat\n:A -b [0:0]\n", "line 2: "},
		{"*nat\n:A - [0:x]\n", "line 2: a chain line"},
		{"*nat\n:OUTPUT REJECT [0:0]\n", "neither ACCEPT nor DROP"},
		{"*nat\n:DNAT - [0:0]\n", "cannot be a chain's name"},
		{"*nat\n:LOG - [0:0]\n", "cannot be a chain's name"},
		{"*nat\n:" + strings.Repeat("A", 29) + " - [0:0]\n", "longer than 28"},
		{"*nat\n-A A -j ACCEPT\n", "line 2: chain \"A\" is not declared"},
		{"*nat\n-A OUTPUT -j A\n:A - [0:0]\n", "line 2: jumps to \"A\", which is neither"},
		{"*nat\n:A - [0:0]\nCOMMIT\n*filter\n-A OUTPUT -j A\nCOMMIT\n", "declared in table filter"},
		{"*nat\n-A OUTPUT -g ACCEPT\n", "jumps to \"ACCEPT\""},
		{"*nat\n-A OUTPUT -j OUTPUT\n", "built-in chain"},
		{"*nat\n-A OUTPUT -m comment --comment \"a -j ACCEPT\n", "a quote is not closed"},
		{"*nat\n-D OUTPUT -j ACCEPT\n", "\"-D\" is not one that makes rules"},
		{"*nat\n-I OUTPUT 2 -j ACCEPT\n", "only the first"},
		{"*nat\n-A\n", "a rule is"},
		{"*nat\n:A - [0:0]\n-A OUTPUT -j A\n-X A\n", "cannot be deleted"},
		{"*nat\n-X OUTPUT\n", "cannot be deleted"},
		{"*nat\n:A - [0:0]\n-X A\n-A A -j ACCEPT\n", "line 4: chain \"A\" is not declared"},
		{"*nat\n# " + strings.Repeat("x", maxLine) + "\nCOMMIT\n", "line 2: longer than"},
		{"*nat\n:A\x00 - [0:0]\n", "NUL"},
		{"*nat\n:A - [0:0]\n-A A -j A\nCOMMIT\n", "line 3: \"-A A -j A\": jumps in a circle"},
		{"*nat\n:A - [0:0]\n:B - [0:0]\n-A A -g B\n-A B -j A\nCOMMIT\n", "jumps in a circle"},
		{deep + "COMMIT\n", "more than 64 chains deep"},
	} {
		if _, err := parseRules(ir.IPv4, []byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q\ngot error %v, want %s", c.text, err, c.want)
		}
	}
}

// TestNotModelled has rules that must not be guessed at: an error in a chain of
// ours or on the way into one, left out and told of in a foreign one.
func TestNotModelled(t *testing.T) {
	for rule, why := range map[string]string{
		"-m set --match-set x dst -j ACCEPT":                     `match "set" has no model`,
		"-o eth0 -j ACCEPT":                                      "-o: the interface of exit",
		"-p tcp --dport 80:90:100 -j ACCEPT":                     "not a port",
		"-p tcp --dport 70000 -j ACCEPT":                         "not a port",
		"-p tcp --dport ssh -j ACCEPT":                           "not a port",
		"-p tcp --syn -j ACCEPT":                                 `option "--syn" has no model`,
		"-m tcp --dport 80 -j ACCEPT":                            "-m tcp without -p tcp",
		"-j DNAT --to-destination 10.0.0.1:80":                   "DNAT to a port without -p",
		"-m udp -p tcp --dport 80 -j ACCEPT":                     "-m udp without -p udp",
		"--dport 80 -j ACCEPT":                                   `option "--dport" has no model`,
		"-d 10.0.0.1,10.0.0.2 -j ACCEPT":                         "not an address of ipv4",
		"-d fd00::1 -j ACCEPT":                                   "not an address of ipv4",
		"-d 10.0.0.0/33 -j ACCEPT":                               "not an address of ipv4",
		"-d 010.0.0.1 -j ACCEPT":                                 "not an address of ipv4",
		"-d 10.0.0.1 -d 10.0.0.2 -j ACCEPT":                      "one option twice",
		"-p xyz -j ACCEPT":                                       `protocol "xyz" is unknown`,
		"-i averyveryverylongname -j ACCEPT":                     "cannot be an interface's name",
		"-m addrtype --dst-type UNICAST -j ACCEPT":               "no model but for LOCAL",
		"-m conntrack --ctstate NEW,OLD -j ACCEPT":               "not a list of states",
		"-m mark --mark 1/2/3 -j ACCEPT":                         "not a mark",
		"-m statistic --mode nth --every 2 -j ACCEPT":            "no model but for random",
		"-m statistic --mode random -j ACCEPT":                   "needs --mode random and --probability",
		"-m statistic --probability 0.5 -j ACCEPT":               "needs --mode random and --probability",
		"-m statistic --mode random --probability 1.5 -j ACCEPT": "not a probability",
		"-m recent --name a -j ACCEPT":                           "match recent needs",
		"-m recent --rcheck -j ACCEPT":                           "match recent needs",
		"-m recent --name a --set --rcheck -j ACCEPT":            "a second mode",
		"-m recent --name a --rcheck --hitcount 3 -j ACCEPT":     `"--hitcount" has no model`,
		"-m recent --name a --rcheck --mask 255.255.255.0":       "whole addresses",
		"! -m mark --mark 1 -j ACCEPT":                           "! before -m",
		"-m comment ! --comment x -j ACCEPT":                     "! --comment has no model",
		"! ! -p tcp -j ACCEPT":                                   "! twice",
		"-p tcp !":                                               "! at the end",
		"-p":                                                     "-p has no value",
		"-j ACCEPT -j DROP":                                      "a second target",
		"-j LOG --log-prefix \"a -j ACCEPT\"":                    "target LOG has no model",
		"-j MARK":                                                "MARK without",
		"-j MARK --set-xmark 0x100000000":                        "not a mark",
		"-j DNAT":                                                "DNAT without",
		"-p tcp -j DNAT --to-destination 10.0.0.1-10.0.0.9":      "not one address",
		"-p tcp -j DNAT --to-destination [fd00::1]:80":           "not an address of ipv4",
		"-j ACCEPT --reject-with tcp-reset":                      `"--reject-with" has no model`,
		"-m comment --comment x \"--dport\" 80 -j ACCEPT":        `"--dport": not an option`,
	} {
		head := "*filter\n:KUBE-X - [0:0]\n:CNI-X - [0:0]\n-A OUTPUT -j CNI-X\n"
		text := head + "-A KUBE-X " + rule + "\nCOMMIT\n"
		if _, err := parseRules(ir.IPv4, []byte(text)); err == nil || !strings.Contains(err.Error(), "line 5: ") || !strings.Contains(err.Error(), why) {
			t.Errorf("%s\ngot error %v, want %s", rule, err, why)
		}
		w, err := parse(ir.IPv4, head+"-A CNI-X "+rule+"\nCOMMIT\n")
		if err != nil {
			t.Errorf("foreign %s: %v", rule, err)
			continue
		}
		if f := w.Foreign(); len(f) != 1 || !strings.HasPrefix(f[0], "table filter: line 5: -A CNI-X ") || !strings.Contains(f[0], why) {
			t.Errorf("foreign %s: told as %q", rule, f)
		}
		checkWalk(t, w, packet(ir.TCP, own, "", "1.1.1.1:80"), "1 as it is to 1.1.1.1:80 output=policy")
	}
	for _, text := range []string{
		"*filter\n:KUBE-X - [0:0]\n-A OUTPUT -m set --match-set x dst -j KUBE-X\nCOMMIT\n",
		"*filter\n:KUBE-X - [0:0]\n-A KUBE-X -j REJECT --reject-with tcp-reset\nCOMMIT\n",
	} {
		if _, err := parseRules(ir.IPv4, []byte(text)); err == nil || !strings.Contains(err.Error(), "line 3: ") {
			t.Errorf("%s\ngot error %v", text, err)
		}
	}
}

// TestForeignNode has what else a node's dump holds.
func TestForeignNode(t *testing.T) {
	w := mustParse(t, ir.IPv4, `# Generated by iptables-save v1.8.9
*raw
:PREROUTING ACCEPT [1:2]
-A PREROUTING -i x -j CT --notrack
COMMIT
*mangle
:PREROUTING ACCEPT [1:2]
:KUBE-KUBELET-CANARY - [0:0]
:KUBE-IPTABLES-HINT - [0:0]
-A PREROUTING -j MARK --set-xmark 0x1/0x1
COMMIT
*filter
:INPUT DROP [12:34]
:FORWARD DROP [0:0]
:DOCKER-USER - [0:0]
:KUBE-ROUTER-FORWARD - [0:0]
:UNUSED - [0:0]
[5:6] -A INPUT -p icmp -m icmp --icmp-type 8 -j ACCEPT
-A INPUT -j REJECT --reject-with icmp-host-prohibited
-A FORWARD -j DOCKER-USER
-A FORWARD -o docker0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A FORWARD -j KUBE-ROUTER-FORWARD
-A FORWARD -c 7 8 -s 10.0.0.0/8 -m comment --comment "cni \"x\" \\ -j" -j ACCEPT
-A DOCKER-USER -j RETURN
-A KUBE-ROUTER-FORWARD -m set --match-set s src -j DROP
-A UNUSED -m set --match-set s src -j DROP
COMMIT
`)
	want := []string{"line 4: -A PREROUTING -i x -j CT", "line 10: -A PREROUTING -j MARK", "line 21: -A FORWARD -o docker0", "line 25: -A KUBE-ROUTER-FORWARD"}
	got := w.Foreign()
	if len(got) != len(want) {
		t.Fatalf("told of %q", got)
	}
	for i := range want {
		if !strings.Contains(got[i], want[i]) {
			t.Errorf("told %q, want %q", got[i], want[i])
		}
	}
	checkWalk(t, w, packet(ir.TCP, "10.1.1.1", "c", "1.1.1.1:80"), "1 as it is to 1.1.1.1:80 forward=accept")
	checkWalk(t, w, packet(ir.TCP, "11.1.1.1", "c", "1.1.1.1:80"), "1 as it is to 1.1.1.1:80 forward=policy")
	checkWalk(t, w, packet(ir.TCP, "11.1.1.1", "c", "192.0.2.10:80"), "1 reject as it is to 192.0.2.10:80 input=reject")
	checkWalk(t, w.Own(), packet(ir.TCP, "10.1.1.1", "c", "1.1.1.1:80"), "1 as it is to 1.1.1.1:80 forward=policy")
	if p := w.Policy("FORWARD"); p != eval.Drop {
		t.Errorf("policy of FORWARD is %s", p)
	}
	if p := w.Policy("OUTPUT"); p != eval.Accept {
		t.Errorf("policy of OUTPUT is %s", p)
	}
}

// TestMatches has each condition hold and fail, plain and negated.
func TestMatches(t *testing.T) {
	for _, c := range []struct {
		match string
		holds bool
	}{
		{"-s 10.244.1.0/24", true}, {"! -s 10.244.1.0/24", false}, {"-s 10.244.2.0/24", false}, {"! -s 10.244.2.0/24", true},
		{"-s 0.0.0.0/0", true}, {"-d 1.1.1.1", true}, {"-d 1.1.1.1/32", true}, {"-d 1.1.1.0/255.255.255.0", true},
		{"-d 0.0.0.1/0.0.0.3", true}, {"-d 0.0.0.2/0.0.0.3", false}, {"-d 1.1.1.99/0.0.0.1", true},
		{"-p tcp", true}, {"-p 6", true}, {"! -p udp", true}, {"-p udp", false}, {"-p all", true}, {"-p icmp", false},
		{"-p tcp --dport 80", true}, {"-p tcp -m tcp ! --dport 80", false}, {"-m tcp -p tcp --dport 79:81", true},
		{"-p tcp --dport :79", false}, {"-p tcp --dport 80:", true}, {"-p tcp --sport 40000", true}, {"-p tcp --sport 1", false},
		{"-p tcp -m multiport --dports 1,80", true}, {"-p tcp -m multiport --dports 1,81:90", false},
		{"-p tcp -m multiport --ports 40000", true}, {"-p tcp -m multiport ! --sports 40000", false},
		{"-i cali1", true}, {"-i cali", false}, {"-i cali+", true}, {"! -i cali+", false}, {"-i +", true},
		{"-m conntrack --ctstate NEW", true}, {"-m conntrack --ctstate RELATED,ESTABLISHED", false},
		{"-m conntrack ! --ctstate INVALID", true}, {"-m state --state NEW", true}, {"-m conntrack --ctstate DNAT,SNAT", false},
		{"-m mark --mark 0x30/0x30", true}, {"-m mark --mark 0x30", false}, {"-m mark --mark 060/48", true}, {"-m mark ! --mark 0x1/0x1", false}, {"-m mark ! --mark 0x8/0x8", true},
		{"-m addrtype --src-type LOCAL", false}, {"-m addrtype ! --dst-type LOCAL --src-type LOCAL", false},
		{"-m addrtype ! --dst-type LOCAL ! --src-type LOCAL", true}, {"-m nfacct --nfacct-name x", true},
		{"-m recent --name x --rcheck", false}, {"-m recent --name x ! --rcheck", true}, {"-m recent --name x --set", true},
		{"-m recent --name x --set -m recent --name x --rcheck", true},
		{"-m statistic --mode random --probability 1", true}, {"-m statistic --mode random --probability 0", false},
		{"-m statistic --mode random ! --probability 0", true}, {`-m comment --comment ""`, true}, {`-m comment --comment "-j" -p udp`, false},
	} {
		w := mustParse(t, ir.IPv4, "*filter\n:KUBE-X - [0:0]\n-A FORWARD -j KUBE-X\n-A KUBE-X "+c.match+" -j ACCEPT\nCOMMIT\n")
		p := packet(ir.TCP, pod, "cali1", "1.1.1.1:80")
		p.Mark = 0x73
		out, err := w.Walk(p, node)
		if err != nil {
			t.Fatal(err)
		}
		if got := out[0].Forward == eval.Accept; got != c.holds || len(out) != 1 {
			t.Errorf("%s: %v, want %v", c.match, got, c.holds)
		}
	}
}

// TestProbability reads every probability that kube-proxy writes, and that a
// dump prints after the kernel has rounded it to 31 bits, as the fraction meant.
func TestProbability(t *testing.T) {
	for k := uint64(1); k <= 10000; k++ {
		kernel := math.Round(math.Exp2(31)/float64(k)) / math.Exp2(31)
		for _, s := range []string{fmt.Sprintf("%.10f", 1/float64(k)), fmt.Sprintf("%.11f", kernel)} {
			if p, ok := parseProbability(s); !ok || p != eval.OneIn(k) {
				t.Fatalf("%s read as %s, %v; want 1/%d", s, p, ok, k)
			}
		}
	}
	for s, want := range map[string]eval.Share{
		"0.6666666667": eval.Of(2, 3), "0.66666666651": eval.Of(2, 3), "0.0063291139": eval.OneIn(158),
		"0.375": eval.Of(3, 8), "0.1280000000": eval.Of(16, 125), "0": {}, "1": eval.Whole, "1.0": eval.Whole,
	} {
		if got, ok := parseProbability(s); !ok || got != want {
			t.Errorf("%s read as %s, %v; want %s", s, got, ok, want)
		}
	}
	// What is off by more than printing explains must not become a neat share.
	for s, not := range map[string]eval.Share{"0.33333": eval.OneIn(3), "0.500000001": eval.OneIn(2), "0.00010002": eval.OneIn(9999)} {
		want, _ := strconv.ParseFloat(s, 64)
		if got, ok := parseProbability(s); !ok || got == not || math.Abs(got.Float()-want) > 5e-10 {
			t.Errorf("%s read as %s, %v", s, got, ok)
		}
	}
	for _, s := range []string{"", ".5", "-0.5", "1.1", "2", "1e-3", "0x1", "99999999999999999999999"} {
		if p, ok := parseProbability(s); ok {
			t.Errorf("%q read as %s", s, p)
		}
	}
}

func TestTokenize(t *testing.T) {
	for line, want := range map[string][]string{
		`a  b	c`:         {"a", "b", "c"},
		`--x "a b" c`:    {"--x", "a b", "c"},
		`"a\"b\\c"`:      {`a"b\c`},
		`a"b c" d`:       {"ab c", "d"},
		`"" x`:           {"", "x"},
		`"a""b"`:         {"a", "b"},
		`a\b`:            {`a\b`},
		`"a \x b" "c"  `: {"a x b", "c"},
	} {
		toks, ok := rule.Tokenize(nil, line)
		var got []string
		for _, tok := range toks {
			got = append(got, tok.Text)
		}
		if !ok || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v; want %q", line, got, ok, want)
		}
	}
	for _, line := range []string{`"a`, `"a\`, `a"b`, `"a\"`} {
		if _, ok := rule.Tokenize(nil, line); ok {
			t.Errorf("%s: no error", line)
		}
	}
}

func TestSections(t *testing.T) {
	s := func(tool string, f ir.Family, text string) emit.Section {
		return emit.Section{Tool: tool, Family: f, Text: []byte(text)}
	}
	chains := s(Tool, ir.IPv4, "*nat\n:KUBE-X - [0:0]\n-A KUBE-X -j MARK --or-mark 0x1\nCOMMIT\n")
	hooks := s(Tool, ir.IPv4, "*nat\n-A OUTPUT -j KUBE-X\nCOMMIT\n")
	w, err := parseSections(ir.IPv4, []emit.Section{chains, hooks}, true, nil)
	if err != nil {
		t.Fatal(err)
	}
	checkWalk(t, w, packet(ir.TCP, own, "", "1.1.1.1:80"), "1 as it is to 1.1.1.1:80 mark 0x1 output=policy")
	for _, c := range []struct {
		sections []emit.Section
		want     string
	}{
		{[]emit.Section{s("nft", ir.IPv4, "")}, "section nft ipv4"},
		{[]emit.Section{s(Tool, ir.IPv6, "")}, "section iptables-restore ipv6"},
		{[]emit.Section{chains, s(Tool, ir.IPv4, "*nat\nCOMMIT\nx\n")}, "section iptables-restore ipv4: line 3: "},
	} {
		if _, err := parseSections(ir.IPv4, c.sections, true, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got error %v, want %s", err, c.want)
		}
	}
	if _, err := w.Walk(packet(ir.TCP, "fd00::1", "", "[fd00::2]:80"), node); err == nil {
		t.Error("a packet of the other family was walked")
	}
}

// TestWalkErrors has rules that load but that no packet can be sent through.
func TestWalkErrors(t *testing.T) {
	doubling := "*nat\n"
	for i := range 40 {
		doubling += fmt.Sprintf(":KUBE-%d - [0:0]\n", i)
	}
	for i := range 39 {
		doubling += fmt.Sprintf("-A KUBE-%d -j KUBE-%d\n-A KUBE-%d -j KUBE-%d\n", i, i+1, i, i+1)
	}
	shares := "*nat\n"
	for i := range 30 {
		shares += fmt.Sprintf("-A OUTPUT -m statistic --mode random --probability 1.%05d -j ACCEPT\n", i)
	}
	shares = strings.ReplaceAll(shares, " 1.", " 0.777")
	for _, c := range []struct{ text, want string }{
		{"*filter\n-A OUTPUT -p tcp -j DNAT --to-destination 1.2.3.4:5\nCOMMIT\n", "line 2: \"-A OUTPUT -p tcp -j DNAT --to-destination 1.2.3.4:5\": DNAT outside"},
		{"*nat\n-A OUTPUT -j MASQUERADE\nCOMMIT\n", "MASQUERADE outside"},
		{"*nat\n-A OUTPUT -j DROP\nCOMMIT\n", "a refusal in table nat"},
		{doubling + "-A OUTPUT -j KUBE-0\nCOMMIT\n", "too many ways"},
		{shares + "COMMIT\n", eval.ErrInexact.Error()},
	} {
		w := mustParse(t, ir.IPv4, c.text)
		if _, err := w.Walk(packet(ir.TCP, own, "", "1.1.1.1:80"), node); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got error %v, want %s", err, c.want)
		}
	}
}
