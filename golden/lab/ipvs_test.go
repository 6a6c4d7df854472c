package lab_test

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"svcc/golden/lab"
	"svcc/golden/uml"
	"svcc/ir"
)

func TestMain(m *testing.M) { uml.Main(m) }

// The laboratory works in User Mode Linux as it does here.
func TestKernelInUML(t *testing.T) {
	uml.Run(t, "^Test(Verdicts|ForwardPolicy|Flush|ConnectionsAreForgotten|Forget|ManyFlows|Errors)$")
}

// world holds one family's addresses.
type world struct {
	family                               ir.Family
	node, vip, empty, outside, pod, pod2 string
	pods                                 string
}

var worlds = []world{
	{ir.IPv4, "192.0.2.10", "10.96.0.10", "10.96.0.11", "198.51.100.77", "10.244.1.5", "10.244.2.7", "10.244.0.0/16"},
	{ir.IPv6, "2001:db8::10", "fd00:96::10", "fd00:96::11", "2001:db8:77::77", "fd00:244:1::5", "fd00:244:2::7", "fd00:244::/32"},
}

func port(a string, p uint16) netip.AddrPort { return netip.AddrPortFrom(netip.MustParseAddr(a), p) }

// TestKernelIPVS has packets meet virtual servers by every way, as kube-proxy's IPVS
// mode arranges them.
func TestKernelIPVS(t *testing.T) {
	uml.Test(t, func(t *testing.T) {
		var c lab.Config
		for _, w := range worlds {
			c.Addrs = append(c.Addrs, netip.MustParseAddr(w.node))
			c.Pods = append(c.Pods, netip.MustParsePrefix(w.pods))
		}
		l := lab.New(t, c)
		err := l.Do(func() error { return os.WriteFile("/proc/sys/net/ipv4/vs/conntrack", []byte("1"), 0) })
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Run("", "ip", "link", "add", "kube-ipvs0", "type", "dummy"); err != nil {
			t.Fatal(err)
		}
		for _, w := range worlds {
			t.Run(w.family.String(), func(t *testing.T) { w.run(t, l) })
		}
	})
}

// run loads virtual servers and sends packets to them.
func (w world) run(t *testing.T, l *lab.Lab) {
	for _, a := range []string{w.vip, w.empty} {
		argv := []string{"ip", "addr", "add", netip.PrefixFrom(netip.MustParseAddr(a), netip.MustParseAddr(a).BitLen()).String(), "dev", "kube-ipvs0"}
		if w.family == ir.IPv6 {
			argv = append(argv, "nodad")
		}
		if err := l.Run("", argv...); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Run(w.servers(), "ipvsadm", "-R"); err != nil {
		t.Fatal(err)
	}
	if err := l.LoadIPTables(lab.Legacy, w.family, masquerade); err != nil {
		t.Fatal(err)
	}
	w.check(t, l)
	w.shares(t, l)
}

// masquerade is kube-proxy's glue at its shortest: of what IPVS sends on,
// whatever bears the mark is masqueraded.
const masquerade = `*nat
-A POSTROUTING -m mark --mark 0x4000/0x4000 -j MASQUERADE
COMMIT
`

// servers has for each protocol a server on port 80 with one endpoint, on port
// 81 with two, on port 82 with the node itself, and on w.empty one without.
func (w world) servers() string {
	var b strings.Builder
	for _, f := range []string{"-t", "-u", "--sctp-service"} {
		fmt.Fprintf(&b, "-A %s %s -s rr\n", f, port(w.empty, 80))
		for _, v := range []struct {
			port uint16
			to   []netip.AddrPort
		}{
			{80, []netip.AddrPort{port(w.pod, 8080)}},
			{81, []netip.AddrPort{port(w.pod, 8081), port(w.pod2, 8081)}},
			{82, []netip.AddrPort{port(w.node, 8082)}},
		} {
			fmt.Fprintf(&b, "-A %s %s -s rr\n", f, port(w.vip, v.port))
			for _, d := range v.to {
				fmt.Fprintf(&b, "-a %s %s -r %s -m -w 1\n", f, port(w.vip, v.port), d)
			}
		}
	}
	return b.String()
}

// check sends packets of each protocol from each place.
func (w world) check(t *testing.T, l *lab.Lab) {
	places := []struct{ in, src string }{{lab.Pods, w.pod2}, {lab.Outside, w.outside}, {"", w.vip}, {"", w.node}}
	var flows []lab.Flow
	var wants []string
	add := func(in, src string, dst netip.AddrPort, mark uint32, want string) {
		for _, p := range []ir.Protocol{ir.TCP, ir.UDP, ir.SCTP} {
			flows = append(flows, lab.Flow{Src: port(src, uint16(20000+len(flows))), Dst: dst, Protocol: p, In: in, Mark: mark})
			wants = append(wants, want)
		}
	}
	for _, from := range places {
		add(from.in, from.src, port(w.vip, 80), 0, "sent to "+port(w.pod, 8080).String())
		add(from.in, from.src, port(w.vip, 80), 0x4000, "sent to "+port(w.pod, 8080).String()+" masquerade")
		add(from.in, from.src, port(w.empty, 80), 0, "rejected")
		add(from.in, from.src, port(w.vip, 82), 0, "delivered to "+port(w.node, 8082).String())
		add(from.in, from.src, port(w.vip, 99), 0, "delivered to "+port(w.vip, 99).String())
	}
	seen, err := l.Probe(flows)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range seen {
		if s.String() != wants[i] {
			t.Errorf("%+v: %s from %s, want %s", flows[i], s, s.From, wants[i])
		}
	}
}

// shares has round robin go on from one endpoint to the other, exactly.
func (w world) shares(t *testing.T, l *lab.Lab) {
	for _, p := range []ir.Protocol{ir.TCP, ir.UDP, ir.SCTP} {
		var flows []lab.Flow
		for i := range 10 {
			flows = append(flows, lab.Flow{Src: port(w.outside, uint16(30000+i)), Dst: port(w.vip, 81), Protocol: p, In: lab.Outside})
		}
		seen, err := l.Probe(flows)
		if err != nil {
			t.Fatal(err)
		}
		met := map[netip.AddrPort]int{}
		for i, s := range seen {
			if met[s.To]++; s.Fate != lab.Sent || i > 0 && s.To == seen[i-1].To {
				t.Errorf("%s %d: %s", p, i, s)
			}
		}
		if met[port(w.pod, 8081)] != 5 || met[port(w.pod2, 8081)] != 5 {
			t.Errorf("%s: %v", p, met)
		}
	}
}
