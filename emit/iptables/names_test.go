package iptables

import (
	"net/netip"
	"strings"
	"testing"

	"svcc/ir"
)

// The hashes of the worked example of kube-proxy's semantics.
func TestChainNames(t *testing.T) {
	for _, c := range []struct {
		name      ir.PortName
		want      string
		endpoints map[string]string
	}{
		{ir.PortName{Namespace: "demo", Name: "api", Protocol: ir.TCP}, "SXTQ4CE67PWVDQLA", map[string]string{"10.244.2.11:6000": "JZVMPAKECDH4VND6"}},
		{ir.PortName{Namespace: "demo", Name: "dns", Port: "dns", Protocol: ir.UDP}, "IXHL676EY46F5RLS",
			map[string]string{"10.244.1.9:5353": "YKGW6BDGHSFMOWAP", "10.244.2.9:5353": "4ODRXJ4VAIBV3S4H"}},
		{ir.PortName{Namespace: "demo", Name: "shop", Port: "https", Protocol: ir.TCP}, "6RPHUCFPUBGIVHOV",
			map[string]string{"10.244.1.6:8443": "3CEFB7SZ53VU465F", "10.244.2.8:8443": "DT337XHOSWLRFJJH"}},
		{ir.PortName{Namespace: "demo", Name: "web", Port: "http", Protocol: ir.TCP}, "XRY76EGRC3BSCIIJ",
			map[string]string{"10.244.1.5:8080": "NW5VICAF3Z2QABHQ", "10.244.2.7:8080": "JPICTQTYOLMYNIJ7"}},
	} {
		if got := serviceHash(c.name); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		for a, want := range c.endpoints {
			e := netip.MustParseAddrPort(a)
			if got := endpointChain(c.name, ir.Endpoint{Addr: e.Addr(), Port: e.Port()}); got != "KUBE-SEP-"+want {
				t.Errorf("%s at %s: %s, want KUBE-SEP-%s", c.name, a, got, want)
			}
		}
	}
}

// A protocol is part of a name, where an endpoint is does not matter.
func TestChainNamesTellApart(t *testing.T) {
	tcp := ir.PortName{Namespace: "demo", Name: "dns", Port: "dns", Protocol: ir.TCP}
	udp := tcp
	udp.Protocol = ir.UDP
	if serviceHash(tcp) == serviceHash(udp) {
		t.Error("TCP and UDP have one name")
	}
	e := ir.Endpoint{Addr: netip.MustParseAddr("10.0.0.1"), Port: 53}
	here := e
	here.Local = true
	if endpointChain(tcp, e) != endpointChain(tcp, here) {
		t.Error("an endpoint's place is part of its name")
	}
}

// iptables takes 28 characters, whatever the names of the manifests.
func TestChainNamesAreShort(t *testing.T) {
	n := ir.PortName{Namespace: strings.Repeat("n", 63), Name: strings.Repeat("s", 63), Port: strings.Repeat("p", 63), Protocol: ir.SCTP}
	names := []string{endpointChain(n, ir.Endpoint{Addr: netip.MustParseAddr("2001:db8:1111:2222:3333:4444:5555:6666"), Port: 65535})}
	for _, p := range prefixes {
		names = append(names, p+serviceHash(n))
	}
	names = append(names, ChainServices, chainExternalServices, ChainForward, chainNodePorts, ChainProxyFirewall, chainFirewall, ChainPostrouting, ChainMarkMasq)
	for _, name := range names {
		if len(name) > 28 {
			t.Errorf("%s has %d characters", name, len(name))
		}
	}
	if len(prefixes) != 4 {
		t.Errorf("%d prefixes", len(prefixes))
	}
}
