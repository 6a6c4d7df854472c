package resolve_test

import (
	"net/netip"
	"strings"
	"testing"

	"svcc/compiler/resolve"
	"svcc/ir"
	"svcc/ir/diag"
)

// nodePortAddresses in words, CIDRs and both families. The node is 192.0.2.10
// and 2001:db8::10; "lo" is localhost node ports in IPv4.
func TestNodePortAddresses(t *testing.T) {
	const every = "every local address"
	for _, c := range []struct {
		list   string
		v4     string
		lo     bool
		v6     string
		primes string // the node's addresses; "" for the usual
	}{
		{"", every, true, every, ""},
		{"all", every, true, every, ""},
		{"0.0.0.0/0", every, true, every, ""},
		{"0.0.0.0/0 10.0.0.0/8", every, true, every, ""},
		{"10.0.0.0/8 0.0.0.0/0", every, true, every, ""},
		{"::/0", every, true, every, ""},
		{"primary", "192.0.2.10", false, "2001:db8::10", ""},
		{"primary localhost", "127.0.0.1, 192.0.2.10", true, "2001:db8::10", ""},
		{"localhost", "127.0.0.1", true, "no address", ""},
		{"localhost all", every, true, every, ""},
		{"127.0.0.0/8", "127.0.0.1", true, every, ""},
		{"127.0.0.1/32", "127.0.0.1", true, every, ""},
		{"::1/128", every, true, "no address", ""},
		{"::1/128 127.0.0.1/32", "127.0.0.1", true, "no address", ""},
		{"10.0.0.0/8", "local addresses in 10.0.0.0/8", false, every, ""},
		{"fd00::/8", every, true, "local addresses in fd00::/8", ""},
		{"10.0.0.0/8 fd00::/8", "local addresses in 10.0.0.0/8", false, "local addresses in fd00::/8", ""},
		{"10.0.0.5/8", "local addresses in 10.0.0.0/8", false, every, ""},
		{"10.0.0.9/32 10.0.0.10/32 10.0.0.9/32", "10.0.0.9, 10.0.0.10", false, every, ""},
		{"10.0.0.9/32 10.0.0.0/8", "local addresses in 10.0.0.0/8", false, every, ""},
		{"10.1.0.0/16 10.0.0.0/8 10.1.2.0/24 172.16.0.0/12", "local addresses in 10.0.0.0/8, local addresses in 172.16.0.0/12", false, every, ""},
		{"primary 192.0.2.0/24", "local addresses in 192.0.2.0/24", false, "2001:db8::10", ""},
		{"primary", "192.0.2.10", false, every, "192.0.2.10"},
		{"primary", every, true, "2001:db8::10", "2001:db8::10"},
		{"primary", every, true, every, "127.0.0.1 ::1"},
		{"primary", every, true, every, "-"},
	} {
		w := newWorld()
		w.options.Families = []ir.Family{ir.IPv4, ir.IPv6}
		w.options.Detect, w.options.Interface = resolve.DetectBridge, "cbr0"
		w.options.NodePortAddresses = strings.Fields(c.list)
		ips := []string{"192.0.2.10", "2001:db8::10"}
		if c.primes != "" {
			ips = strings.Fields(strings.Trim(c.primes, "-"))
		}
		w.Nodes = nil
		w.addNode("node-a", "", ips...)
		programs, list := w.resolve(t)
		if len(list) > 0 {
			t.Errorf("%s: %v", c.list, list)
			continue
		}
		for _, p := range programs {
			if err := p.Check(); err != nil {
				t.Errorf("%s: %v", c.list, err)
			}
		}
		v4, v6 := programs[0].Options, programs[1].Options
		if v4.NodePorts.String() != c.v4 || v4.LocalhostNodePorts != c.lo {
			t.Errorf("%q, node %v: IPv4 %s localhost %v, want %s and %v", c.list, ips, v4.NodePorts, v4.LocalhostNodePorts, c.v4, c.lo)
		}
		if v6.NodePorts.String() != c.v6 || v6.LocalhostNodePorts {
			t.Errorf("%q, node %v: IPv6 %s localhost %v, want %s", c.list, ips, v6.NodePorts, v6.LocalhostNodePorts, c.v6)
		}
	}
}

// With localhost node ports switched off, loopback is nowhere.
func TestNodePortAddressesWithoutLocalhost(t *testing.T) {
	for list, want := range map[string]string{
		"": "every local address", "localhost": "no address", "primary localhost": "192.0.2.10", "127.0.0.1/32": "no address",
	} {
		w := newWorld()
		w.options.LocalhostNodePorts = false
		w.options.NodePortAddresses = strings.Fields(list)
		o := w.program(t).Options
		if o.LocalhostNodePorts || o.NodePorts.String() != want {
			t.Errorf("%q: %s localhost %v, want %s", list, o.NodePorts, o.LocalhostNodePorts, want)
		}
	}
}

func TestOptions(t *testing.T) {
	w := newWorld()
	o := w.program(t).Options
	if o.MasqueradeMark != 0x4000 || o.MasqueradeAll || !o.LocalhostNodePorts || !o.DropInvalid {
		t.Errorf("defaults %+v", o)
	}
	w.options.MasqueradeBit, w.options.MasqueradeAll, w.options.TCPBeLiberal = 31, true, true
	o = w.program(t).Options
	if o.MasqueradeMark != 0x80000000 || !o.MasqueradeAll || o.DropInvalid {
		t.Errorf("set %+v", o)
	}
	w.options.MasqueradeBit = 0
	if o = w.program(t).Options; o.MasqueradeMark != 1 {
		t.Errorf("bit 0 is the mark %#x", o.MasqueradeMark)
	}
}

// A pods' range that holds everybody is refused, whoever gives it: iptables-nft
// loads no rule that asks who is outside it.
func TestPodRangeOfEverybody(t *testing.T) {
	for _, family := range ir.Families {
		for _, detect := range []resolve.DetectMode{resolve.DetectClusterCIDR, resolve.DetectNodeCIDR} {
			w := newWorld()
			w.options.Families, w.options.Detect = []ir.Family{family}, detect
			w.options.ClusterCIDRs = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
			w.Nodes[0].Value.Spec.PodCIDRs = []string{"0.0.0.0/0", "::/0"}
			_, list := w.resolve(t)
			if len(list) != 1 || list[0].Code != diag.BadOption || !strings.Contains(list[0].Message, "holds every address") {
				t.Errorf("%s %s: %v", family, detect, list)
			}
		}
	}
}
