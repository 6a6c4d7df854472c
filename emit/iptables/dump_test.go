package iptables

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"svcc/golden/lab"
	"svcc/ir"
	"svcc/ir/eval"
)

// families has what a test of both families needs.
var families = []struct {
	f               ir.Family
	source, restore string
}{
	{ir.IPv4, "worked.rules", "iptables"},
	{ir.IPv6, "worked6.rules", "ip6tables"},
}

var flavours = []string{"legacy", "nft"}

// TestDumps walks what each flavour's save tool printed after loading the
// worked example.
func TestDumps(t *testing.T) {
	for _, fam := range families {
		source := readFile(t, fam.source)
		for _, flavour := range flavours {
			dump := readFile(t, strings.TrimSuffix(fam.source, ".rules")+"."+flavour+".save")
			sameWalks(t, fam.f, source, dump)
		}
	}
}

// TestKernel loads the worked example with each flavour in a namespace and
// walks the dump, with counters.
func TestKernel(t *testing.T) {
	lab.Need(t, lab.Root())
	for _, fam := range families {
		for _, flavour := range flavours {
			t.Run(fam.restore+"-"+flavour, func(t *testing.T) {
				source := readFile(t, fam.source)
				sameWalks(t, fam.f, source, reload(t, fam.restore+"-"+flavour, source))
			})
		}
	}
}

// reload loads text in a new network namespace and dumps it with counters.
func reload(t *testing.T, tool, text string) string {
	t.Helper()
	lab.Need(t, lab.Tools("ip", tool+"-restore", tool+"-save"))
	ns := fmt.Sprintf("svcc-walk-%d-%s", os.Getpid(), tool)
	run := func(stdin string, args ...string) string {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, "ip", args...)
		var stderr bytes.Buffer
		cmd.Stdin, cmd.Stderr = strings.NewReader(stdin), &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("ip %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
		}
		return string(out)
	}
	run("", "netns", "add", ns)
	t.Cleanup(func() { run("", "netns", "del", ns) })
	run(text, "netns", "exec", ns, tool+"-restore")
	return run("", "netns", "exec", ns, tool+"-save", "-c")
}

// sameWalks sends some hundred packets through both texts. The outcomes must
// be the same, and differ among themselves.
func sameWalks(t *testing.T, f ir.Family, source, dump string) {
	t.Helper()
	a, b := mustParse(t, f, source), mustParse(t, f, dump)
	if x := b.Foreign(); len(x) != 0 {
		t.Errorf("foreign rules in a dump of our own: %q", x)
	}
	packets := grid(a.rs)
	kinds := map[string]bool{}
	for _, p := range packets {
		want, got := walk1(t, a, p), walk1(t, b, p)
		if got != want {
			t.Errorf("%s\nthe dump gives\n%swant\n%s", p, got, want)
		}
		kinds[want] = true
	}
	if len(packets) < 300 || len(kinds) < 40 {
		t.Errorf("only %d packets with %d outcomes", len(packets), len(kinds))
	}
}

// grid has a packet from each of some sources to each service of the worked
// example, found by its rules, and the other ports, states and protocols.
func grid(rs ruleset) []eval.Packet {
	sources := []string{"10.244.1.5", "10.244.1.7", "10.244.2.11", "192.0.2.10", "198.51.100.1", "8.8.8.8", "127.0.0.1"}
	to := []string{"10.96.0.30:6000", "203.0.113.9:6000", "10.96.0.53:53", "10.96.0.40:80", "10.96.0.50:80", "10.96.0.20:443",
		"203.0.113.20:443", "10.96.0.10:80", "192.0.2.10:30080", "192.0.2.10:30081", "192.0.2.10:30443", "192.0.2.10:31555",
		"127.0.0.1:30080", "10.96.0.10:81", "9.9.9.9:53"}
	var out []eval.Packet
	for _, s := range sources {
		for _, d := range to {
			src, dst := netip.AddrPortFrom(netip.MustParseAddr(s), 40000), netip.MustParseAddrPort(d)
			if rs.Family == ir.IPv6 {
				src, dst = wide(src), wide(dst)
			}
			p := eval.Packet{Src: src, Dst: dst, Protocol: ir.TCP, In: "eth0"}
			if node.Local(src.Addr()) {
				p.In = ""
			}
			marked, gone := p, p
			marked.Mark, gone.State = 0x4001, eval.Invalid
			out = append(out, p, marked, gone)
			p.Protocol = ir.UDP
			out = append(out, p)
		}
	}
	return out
}

// wide gives the IPv6 address that stands for an IPv4 one in worked6.rules.
func wide(a netip.AddrPort) netip.AddrPort {
	b := a.Addr().As4()
	s := map[[2]byte]string{
		{10, 244}: fmt.Sprintf("fd00:244:%d::%d", b[2], b[3]), {10, 96}: fmt.Sprintf("fd00:96::%d", b[3]),
		{203, 0}: fmt.Sprintf("2001:db8:113::%d", b[3]), {192, 0}: fmt.Sprintf("2001:db8:2::%d", b[3]),
		{198, 51}: fmt.Sprintf("2001:db8:100::%d", b[3]), {127, 0}: "::1",
	}[[2]byte{b[0], b[1]}]
	if s == "" {
		s = fmt.Sprintf("2001:db8:ff::%d", b[3])
	}
	return netip.AddrPortFrom(netip.MustParseAddr(s), a.Port())
}
