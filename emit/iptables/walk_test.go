package iptables

import (
	"net/netip"
	"os"
	"strings"
	"testing"

	"svcc/emit"
	"svcc/emit/walk"
	"svcc/ir"
	"svcc/ir/eval"
)

// node is the node of the worked example, in both families.
var node = eval.Host{Addrs: []netip.Addr{netip.MustParseAddr("192.0.2.10"), netip.MustParseAddr("2001:db8:2::10")}}

func mustParse(t testing.TB, f ir.Family, text string) *audited {
	t.Helper()
	w, err := parse(f, text)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func parse(f ir.Family, text string) (*audited, error) {
	rs, err := parseRules(f, []byte(text))
	if err != nil {
		return nil, err
	}
	return &audited{walk.New(rs.Ruleset), rs, earlyChains(rs)}, nil
}

func readFile(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// packet is a new packet from an address, at port 40000.
func packet(proto ir.Protocol, from, in, to string) eval.Packet {
	return eval.Packet{
		Src: netip.AddrPortFrom(netip.MustParseAddr(from), 40000), Dst: netip.MustParseAddrPort(to),
		Protocol: proto, In: in,
	}
}

// walk1 walks a packet and traces it; both must tell the same.
func walk1(t *testing.T, w emit.Walker, p eval.Packet) string {
	t.Helper()
	out, err := w.Walk(p, node)
	if err != nil {
		t.Fatalf("%s: %v", p, err)
	}
	traced, _, err := w.Trace(p, node)
	if err != nil || !traced.Equal(out) {
		t.Errorf("%s: walked to\n%sbut traced to\n%s%v", p, out, traced, err)
	}
	return out.String()
}

func checkWalk(t *testing.T, w emit.Walker, p eval.Packet, want ...string) {
	t.Helper()
	if got, want := walk1(t, w, p), strings.Join(want, "\n")+"\n"; got != want {
		t.Errorf("%s\ngot\n%swant\n%s", p, got, want)
	}
}

const (
	pod     = "10.244.1.7"
	own     = "192.0.2.10"
	outside = "8.8.8.8"
)

// TestWorkedExample holds the rules of the worked example against the truth
// table of traffic policies and the table of verdicts without endpoints.
func TestWorkedExample(t *testing.T) {
	w := mustParse(t, ir.IPv4, readFile(t, "worked.rules"))
	for _, c := range []struct {
		name, from, in, to string
		want               []string
	}{
		{"cluster IP from a pod", pod, "cali1", "10.96.0.10:80",
			[]string{"1/2 to 10.244.1.5:8080 forward=policy", "1/2 to 10.244.2.7:8080 forward=policy"}},
		{"cluster IP from the node", own, "", "10.96.0.10:80",
			[]string{"1/2 to 10.244.1.5:8080 masquerade output=policy", "1/2 to 10.244.2.7:8080 masquerade output=policy"}},
		{"cluster IP from outside", outside, "eth0", "10.96.0.10:80",
			[]string{"1/2 to 10.244.1.5:8080 masquerade forward=accept", "1/2 to 10.244.2.7:8080 masquerade forward=accept"}},
		{"cluster IP from its own endpoint", "10.244.1.5", "cali1", "10.96.0.10:80",
			[]string{"1/2 to 10.244.1.5:8080 masquerade forward=accept", "1/2 to 10.244.2.7:8080 forward=policy"}},
		{"another port", pod, "cali1", "10.96.0.10:81", []string{"1 as it is to 10.96.0.10:81 forward=policy"}},
		{"no service", pod, "cali1", "1.1.1.1:80", []string{"1 as it is to 1.1.1.1:80 forward=policy"}},
		{"internal policy local, none local, from a pod", pod, "cali1", "10.96.0.50:80",
			[]string{"1 drop as it is to 10.96.0.50:80 forward=drop"}},
		{"the same from the node", own, "", "10.96.0.50:80", []string{"1 drop as it is to 10.96.0.50:80 output=drop"}},
		{"no endpoints, from a pod", pod, "cali1", "10.96.0.40:80",
			[]string{"1 reject as it is to 10.96.0.40:80 forward=reject"}},
		{"no endpoints, from the node", own, "", "10.96.0.40:80",
			[]string{"1 reject as it is to 10.96.0.40:80 output=reject"}},
		{"no endpoints, node port from outside", outside, "eth0", "192.0.2.10:30081",
			[]string{"1 reject as it is to 192.0.2.10:30081 input=reject"}},
		{"no endpoints, node port from the node", own, "", "192.0.2.10:30081",
			[]string{"1 reject as it is to 192.0.2.10:30081 output=policy input=reject"}},
		{"external policy cluster, node port from outside", outside, "eth0", "192.0.2.10:30080",
			[]string{"1 to 10.244.2.11:6000 masquerade forward=accept"}},
		{"external policy cluster, node port from a pod", pod, "cali1", "192.0.2.10:30080",
			[]string{"1 to 10.244.2.11:6000 masquerade forward=accept"}},
		{"node port at loopback", "127.0.0.1", "", "127.0.0.1:30080",
			[]string{"1 to 10.244.2.11:6000 masquerade output=policy"}},
		{"node port at another node", pod, "cali1", "192.0.2.11:30080",
			[]string{"1 as it is to 192.0.2.11:30080 forward=policy"}},
		{"external IP from outside", outside, "eth0", "203.0.113.9:6000",
			[]string{"1 to 10.244.2.11:6000 masquerade forward=accept"}},
		{"external IP from a pod", pod, "cali1", "203.0.113.9:6000",
			[]string{"1 to 10.244.2.11:6000 masquerade forward=accept"}},
		{"load balancer, allowed source", "198.51.100.7", "eth0", "203.0.113.20:443",
			[]string{"1 to 10.244.1.6:8443 forward=policy"}},
		{"load balancer, refused source", outside, "eth0", "203.0.113.20:443",
			[]string{"1 drop as it is to 203.0.113.20:443 forward=drop"}},
		{"load balancer, pod not in the ranges", pod, "cali1", "203.0.113.20:443",
			[]string{"1 drop as it is to 203.0.113.20:443 forward=drop"}},
		{"load balancer from the node, which is in a range", own, "", "203.0.113.20:443",
			[]string{"1/2 to 10.244.1.6:8443 masquerade output=policy", "1/2 to 10.244.2.8:8443 masquerade output=policy"}},
		{"external policy local, node port from outside", outside, "eth0", "192.0.2.10:30443",
			[]string{"1 to 10.244.1.6:8443 forward=policy"}},
		{"external policy local, node port from a pod", pod, "cali1", "192.0.2.10:30443",
			[]string{"1/2 to 10.244.1.6:8443 forward=policy", "1/2 to 10.244.2.8:8443 forward=policy"}},
		{"external policy local, node port from the node", own, "", "192.0.2.10:30443",
			[]string{"1/2 to 10.244.1.6:8443 masquerade output=policy", "1/2 to 10.244.2.8:8443 masquerade output=policy"}},
		{"health check port", outside, "eth0", "192.0.2.10:31555",
			[]string{"1 as it is to 192.0.2.10:31555 input=accept"}},
		{"loopback address from outside", outside, "eth0", "127.0.0.1:22",
			[]string{"1 drop as it is to 127.0.0.1:22 input=drop"}},
		{"the node to itself", "127.0.0.1", "", "127.0.0.1:22",
			[]string{"1 as it is to 127.0.0.1:22 output=policy input=policy"}},
	} {
		t.Run(c.name, func(t *testing.T) { checkWalk(t, w, packet(ir.TCP, c.from, c.in, c.to), c.want...) })
	}
	t.Run("another protocol", func(t *testing.T) {
		checkWalk(t, w, packet(ir.SCTP, pod, "cali1", "10.96.0.10:80"), "1 as it is to 10.96.0.10:80 forward=policy")
	})
}

func TestWorkedExampleStates(t *testing.T) {
	w := mustParse(t, ir.IPv4, readFile(t, "worked.rules"))
	for _, c := range []struct {
		state eval.State
		mark  uint32
		want  string
	}{
		{eval.Established, 0, "1 as it is to 10.96.0.40:80 forward=accept"},
		{eval.Related, 0, "1 as it is to 10.96.0.40:80 forward=accept"},
		{eval.Invalid, 0, "1 drop as it is to 10.96.0.40:80 forward=drop"},
		{eval.Invalid, 0x4000, "1 drop as it is to 10.96.0.40:80 forward=drop"},
		{eval.Established, 0x4000, "1 as it is to 10.96.0.40:80 mark 0x4000 forward=accept"},
		{eval.New, 0x4001, "1 as it is to 10.96.0.40:80 masquerade mark 0x1 forward=accept"},
		{eval.New, 0x2, "1 reject as it is to 10.96.0.40:80 forward=reject"},
	} {
		p := packet(ir.TCP, pod, "cali1", "10.96.0.40:80")
		p.State, p.Mark = c.state, c.mark
		checkWalk(t, w, p, c.want)
	}
}

func TestWorkedExampleAffinity(t *testing.T) {
	w := mustParse(t, ir.IPv4, readFile(t, "worked.rules"))
	p := packet(ir.UDP, pod, "cali1", "10.96.0.53:53")
	fresh := []string{
		"1/2 to 10.244.1.9:5353 forward=policy sticky 10800s", "1/2 to 10.244.2.9:5353 forward=policy sticky 10800s"}
	checkWalk(t, w, p, fresh...)
	p.Remembered = netip.MustParseAddrPort("10.244.2.9:5353")
	checkWalk(t, w, p, "1 to 10.244.2.9:5353 forward=policy sticky 10800s")
	p.Remembered = netip.MustParseAddrPort("10.244.2.99:5353")
	checkWalk(t, w, p, fresh...)
}

func TestWorkedExampleIPv6(t *testing.T) {
	w := mustParse(t, ir.IPv6, readFile(t, "worked6.rules"))
	checkWalk(t, w, packet(ir.TCP, "fd00:244:1::5", "cali1", "[fd00:96::10]:80"),
		"1/2 to [fd00:244:1::5]:8080 masquerade forward=accept", "1/2 to [fd00:244:2::7]:8080 forward=policy")
	checkWalk(t, w, packet(ir.TCP, "2001:db8:100::1", "eth0", "[2001:db8:113::20]:443"),
		"1 to [fd00:244:1::6]:8443 forward=policy")
	checkWalk(t, w, packet(ir.TCP, "2001:db8:101::1", "eth0", "[2001:db8:113::20]:443"),
		"1 drop as it is to [2001:db8:113::20]:443 forward=drop")
	checkWalk(t, w, packet(ir.TCP, "2001:db8:101::1", "eth0", "[2001:db8:2::10]:30080"),
		"1 to [fd00:244:2::11]:6000 masquerade forward=accept")
	checkWalk(t, w, packet(ir.TCP, "::1", "", "[::1]:30080"), "1 as it is to [::1]:30080 output=policy input=policy")
}

func TestTrace(t *testing.T) {
	w := mustParse(t, ir.IPv4, readFile(t, "worked.rules"))
	_, hops, err := w.Trace(packet(ir.TCP, "10.244.1.5", "cali1", "10.96.0.10:80"), node)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"PREROUTING nat PREROUTING 0 1 jump",
		"PREROUTING nat KUBE-SERVICES 1 1 jump",
		"PREROUTING nat KUBE-SVC-XRY76EGRC3BSCIIJ 2 1/2 jump",
		"PREROUTING nat KUBE-SEP-NW5VICAF3Z2QABHQ 3 1/2 jump",
		"PREROUTING nat KUBE-MARK-MASQ 4 1/2 mark 0x4000",
		"PREROUTING nat KUBE-SEP-NW5VICAF3Z2QABHQ 3 1/2 dnat 10.244.1.5:8080",
		"PREROUTING nat KUBE-SVC-XRY76EGRC3BSCIIJ 2 1/2 jump",
		"PREROUTING nat KUBE-SEP-JPICTQTYOLMYNIJ7 3 1/2 dnat 10.244.2.7:8080",
		"FORWARD filter FORWARD 0 1 jump",
		"FORWARD filter FORWARD 0 1 jump",
		"FORWARD filter KUBE-FORWARD 1 1/2 accept",
		"FORWARD filter FORWARD 0 1/2 jump",
		"FORWARD filter FORWARD 0 1/2 jump",
		"POSTROUTING nat POSTROUTING 0 1 jump",
		"POSTROUTING nat KUBE-POSTROUTING 1 1/2 mark 0x0",
		"POSTROUTING nat KUBE-POSTROUTING 1 1/2 masquerade",
		"POSTROUTING nat KUBE-POSTROUTING 1 1/2 return",
	}
	if got := hopLines(hops); got != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	if r := hops[1].Rule; !strings.HasPrefix(r, `-A KUBE-SERVICES -m comment --comment "demo/web:http cluster IP"`) {
		t.Errorf("rule told as %q", r)
	}
}

func hopLines(hops []emit.Hop) string {
	var lines []string
	for _, h := range hops {
		lines = append(lines, strings.Join([]string{h.Hook, h.Table, h.Chain, string(rune('0' + h.Depth)), h.Share.String(), h.Note}, " "))
	}
	return strings.Join(lines, "\n")
}

// TestJumpsAndReturns tells apart what goto, jump, RETURN and a chain's end do,
// by the mark that is left.
func TestJumpsAndReturns(t *testing.T) {
	for _, c := range []struct{ name, rules, want string }{
		{"a jump comes back", "-A OUTPUT -j A\n-A OUTPUT -j MARK --or-mark 0x10\n-A A -j MARK --or-mark 0x1\n", "0x11"},
		{"return in a jump", "-A OUTPUT -j A\n-A OUTPUT -j MARK --or-mark 0x10\n-A A -j RETURN\n-A A -j MARK --or-mark 0x1\n", "0x10"},
		{"goto returns past its chain", "-A OUTPUT -j A\n-A OUTPUT -j MARK --or-mark 0x10\n" +
			"-A A -g B\n-A A -j MARK --or-mark 0x1\n-A B -j MARK --or-mark 0x2\n", "0x12"},
		{"goto from a base chain ends at the policy", "-A OUTPUT -g A\n-A OUTPUT -j MARK --or-mark 0x10\n-A A -j MARK --or-mark 0x1\n", "0x1"},
		{"return in a base chain", "-A OUTPUT -j RETURN\n-A OUTPUT -j MARK --or-mark 0x10\n", ""},
		{"goto within goto", "-A OUTPUT -j A\n-A OUTPUT -j MARK --or-mark 0x10\n-A A -g B\n-A B -g C\n" +
			"-A B -j MARK --or-mark 0x1\n-A C -j MARK --or-mark 0x2\n", "0x12"},
		{"xor, and, set", "-A OUTPUT -j MARK --set-mark 0xff\n-A OUTPUT -j MARK --xor-mark 0x0f\n-A OUTPUT -j MARK --and-mark 0x3f\n" +
			"-A OUTPUT -j MARK --set-xmark 0x1/0x20\n", "0x11"},
		{"--set-mark sets what its mask lacks", "-A OUTPUT -j MARK --set-mark 0x11\n-A OUTPUT -j MARK --set-mark 0x10/0x1\n", "0x10"},
		{"-I goes on top, the last first", "-A A -j MARK --set-mark 0x1\n-I A -j MARK --set-mark 0x2\n-I A 1 -j RETURN\n-A OUTPUT -j A\n", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := "*nat\n:A - [0:0]\n:B - [0:0]\n:C - [0:0]\n" + c.rules + "COMMIT\n"
			want := "1 as it is to 1.1.1.1:80 output=policy"
			if c.want != "" {
				want = "1 as it is to 1.1.1.1:80 mark " + c.want + " output=policy"
			}
			checkWalk(t, mustParse(t, ir.IPv4, text), packet(ir.TCP, own, "", "1.1.1.1:80"), want)
		})
	}
}

// TestSticky checks that affinity is believed only if it works.
func TestSticky(t *testing.T) {
	const seven, eight = "1/2 to 10.0.0.7:1 output=policy", "1/2 to 10.0.0.8:1 output=policy"
	check := func(chain, list string) string {
		return "-A OUTPUT -m recent --name " + list + " --rcheck --seconds 60 --reap -j " + chain + "\n"
	}
	tail := "-A OUTPUT -m statistic --mode random --probability 0.5 -j A\n-A OUTPUT -j B\n" +
		"-A A -m recent --name a --set -p tcp -j DNAT --to-destination 10.0.0.7:1\n" +
		"-A B -m recent --name b --set -p tcp -j DNAT --to-destination 10.0.0.8:1\n"
	for _, c := range []struct{ name, rules, a, b string }{
		{"both kept", check("A", "a") + check("B", "b") + tail, " sticky 60s", " sticky 60s"},
		{"one is not asked for", check("A", "a") + tail, " sticky 60s", " sticky -1s"},
		{"swapped", check("A", "b") + check("B", "a") + tail, " sticky -1s", " sticky -1s"},
		{"another age", check("A", "a") + strings.Replace(check("B", "b"), "60", "61", 1) + tail, " sticky 60s", " sticky 61s"},
		{"never entered", check("A", "a") + check("B", "b") + strings.ReplaceAll(tail, "--set", "! --rcheck"), "", ""},
		{"asked for too late", tail + check("A", "a") + check("B", "b"), " sticky -1s", " sticky -1s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := mustParse(t, ir.IPv4, "*nat\n:A - [0:0]\n:B - [0:0]\n"+c.rules+"COMMIT\n")
			checkWalk(t, w, packet(ir.TCP, own, "", "1.1.1.1:80"), seven+c.a, eight+c.b)
		})
	}
}

// TestUpdateKeeps has affinity without a chain for each endpoint.
func TestUpdateKeeps(t *testing.T) {
	w := mustParse(t, ir.IPv4, `*nat
-A OUTPUT -p tcp -m recent --name a --update --seconds 30 --reap -j DNAT --to-destination 10.0.0.7:1
-A OUTPUT -p tcp -m recent --name b --update --seconds 30 --reap -j DNAT --to-destination 10.0.0.8:1
-A OUTPUT -p tcp -m statistic --mode random --probability 0.5 -m recent --name a --set -j DNAT --to-destination 10.0.0.7:1
-A OUTPUT -p tcp -m recent --name b --set -j DNAT --to-destination 10.0.0.8:1
COMMIT
`)
	p := packet(ir.TCP, own, "", "1.1.1.1:80")
	checkWalk(t, w, p, "1/2 to 10.0.0.7:1 output=policy sticky 30s", "1/2 to 10.0.0.8:1 output=policy sticky 30s")
	p.Remembered = netip.MustParseAddrPort("10.0.0.8:1")
	checkWalk(t, w, p, "1 to 10.0.0.8:1 output=policy sticky 30s")
}

// TestAcceptInNat has a packet end its way through nat at a rule that accepts it,
// from below as well: no later rule of that hook sees it.
func TestAcceptInNat(t *testing.T) {
	w := mustParse(t, ir.IPv4, "*nat\n:A - [0:0]\n-A OUTPUT -j A\n-A OUTPUT -j MARK --or-mark 0x10\n-A A -j ACCEPT\nCOMMIT\n")
	checkWalk(t, w, packet(ir.TCP, own, "", "1.1.1.1:80"), "1 as it is to 1.1.1.1:80 nat=accept output=policy")
}

// parseRules reads a text of both tables.
func parseRules(f ir.Family, text []byte) (ruleset, error) {
	p := newParser(f)
	if err := p.read(string(text)); err != nil {
		return ruleset{}, err
	}
	return p.finish()
}
