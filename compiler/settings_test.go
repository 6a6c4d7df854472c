package compiler

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"svcc/compiler/manifest"
	"svcc/compiler/resolve"
	"svcc/emit/mode"
	"svcc/ir"
	"svcc/ir/diag"
)

func ptr[T any](v T) *T { return &v }

// configured is a manifest with a KubeProxyConfiguration that sets everything.
func configured() *manifest.Set {
	c := &manifest.ProxyConfig{
		FeatureGates:      map[string]bool{"AllowServiceExternalIPs": false},
		HostnameOverride:  "from-config",
		BindAddress:       "192.0.2.1",
		DetectLocalMode:   "BridgeInterface",
		ClusterCIDR:       "10.1.0.0/16,fd00:1::/64",
		NodePortAddresses: []string{"primary"},
	}
	c.DetectLocal.BridgeInterface, c.DetectLocal.InterfaceNamePrefix = "cbr0", "veth"
	c.IPTables.MasqueradeAll, c.IPTables.MasqueradeBit, c.IPTables.LocalhostNodePorts = true, ptr(int32(20)), ptr(false)
	c.NFTables.MasqueradeBit = ptr(int32(3)) // of another mode
	c.Conntrack.TCPBeLiberal = true
	return &manifest.Set{ProxyConfigs: []*manifest.Object[*manifest.ProxyConfig]{{Value: c, Pos: diag.Pos{File: "kp.yaml", Line: 1, Col: 1}}}}
}

func allFlags() Flags {
	return Flags{
		Node: ptr("from-flag"), NodeIPs: []netip.Addr{netip.MustParseAddr("192.0.2.9")}, Zone: ptr("z"),
		DetectLocalMode: ptr("InterfaceNamePrefix"), DetectInterface: ptr("cali"), ClusterCIDR: ptr("10.9.0.0/16"),
		NodePortAddresses: []string{"all"}, LocalhostNodePorts: ptr(true), MasqueradeAll: ptr(false), MasqueradeBit: ptr(9), TCPBeLiberal: ptr(false),
	}
}

// shown writes options so that they can be compared.
func shown(o resolve.Options) string {
	zone := "-"
	if o.Zone != nil {
		zone = *o.Zone
	}
	return fmt.Sprintf("node=%s ips=%v zone=%s detect=%s/%s cidrs=%v np=%v lo=%v all=%v bit=%d liberal=%v ext=%v",
		o.Node, o.NodeIPs, zone, o.Detect, o.Interface, o.ClusterCIDRs, o.NodePortAddresses, o.LocalhostNodePorts, o.MasqueradeAll, o.MasqueradeBit, o.TCPBeLiberal, o.ExternalIPs)
}

const (
	byDefault = "node= ips=[] zone=- detect=/ cidrs=[] np=[] lo=true all=false bit=14 liberal=false ext=true"
	byConfig  = "node=from-config ips=[192.0.2.1] zone=- detect=BridgeInterface/cbr0 cidrs=[10.1.0.0/16 fd00:1::/64] np=[primary] lo=false all=true bit=20 liberal=true ext=false"
	byFlags   = "node=from-flag ips=[192.0.2.9] zone=z detect=InterfaceNamePrefix/cali cidrs=[10.9.0.0/16] np=[all] lo=true all=false bit=9 liberal=false ext="
)

// Defaults, then the configuration, then flags.
func TestPrecedence(t *testing.T) {
	none := &manifest.Set{}
	for _, c := range []struct {
		name  string
		set   *manifest.Set
		flags Flags
		want  string
	}{
		{"defaults", none, Flags{}, byDefault},
		{"configuration", configured(), Flags{}, byConfig},
		{"flags", none, allFlags(), byFlags + "true"},
		{"flags over configuration", configured(), allFlags(), byFlags + "false"},
		{"one flag over configuration", configured(), Flags{MasqueradeBit: ptr(9)}, strings.Replace(byConfig, "bit=20", "bit=9", 1)},
		{"an empty list is set", configured(), Flags{NodePortAddresses: []string{}}, strings.Replace(byConfig, "[primary]", "[]", 1)},
		{"an empty CIDR is set", configured(), Flags{ClusterCIDR: ptr("")}, strings.Replace(byConfig, "[10.1.0.0/16 fd00:1::/64]", "[]", 1)},
		{"an empty zone is set", none, Flags{Zone: ptr("")}, strings.Replace(byDefault, "zone=-", "zone=", 1)},
	} {
		got, list := merge(c.set, Options{Mode: mode.Default, Flags: c.flags})
		if len(list) > 0 {
			t.Errorf("%s: %v", c.name, list)
		}
		if shown(got) != c.want {
			t.Errorf("%s:\n%s, want\n%s", c.name, shown(got), c.want)
		}
	}
}

// What a configuration may leave out.
func TestSparseConfig(t *testing.T) {
	set := configured()
	set.ProxyConfigs[0].Value = &manifest.ProxyConfig{BindAddress: "0.0.0.0"}
	if got, list := merge(set, Options{Mode: mode.Default}); len(list) > 0 || shown(got) != byDefault {
		t.Errorf("%s, %v", shown(got), list)
	}
	set.ProxyConfigs[0].Value = &manifest.ProxyConfig{DetectLocalMode: "InterfaceNamePrefix"}
	set.ProxyConfigs[0].Value.DetectLocal.InterfaceNamePrefix = "veth"
	set.ProxyConfigs[0].Value.BindAddress = "::"
	got, list := merge(set, Options{Mode: mode.Default, Families: []ir.Family{ir.IPv6}})
	if len(list) > 0 || got.Interface != "veth" || got.NodeIPs != nil || len(got.Families) != 1 {
		t.Errorf("%+v, %v", got, list)
	}
}

func TestBadOptions(t *testing.T) {
	detect := func(mode, name string) Flags { return Flags{DetectLocalMode: &mode, DetectInterface: &name} }
	for _, c := range []struct {
		flags Flags
		want  string // "" for none
	}{
		{Flags{MasqueradeBit: ptr(-1)}, "masquerade bit -1"},
		{Flags{MasqueradeBit: ptr(32)}, "masquerade bit 32"},
		{Flags{MasqueradeBit: ptr(0)}, ""},
		{Flags{MasqueradeBit: ptr(31)}, ""},
		{Flags{Node: ptr("a\n-A INPUT -j DROP")}, "is not a DNS name"},
		{Flags{Node: ptr("a level=0")}, "is not a DNS name"},
		{Flags{Node: ptr("-")}, "is not a DNS name"},
		{Flags{Node: ptr("a\x1b[31m")}, "is not a DNS name"},
		{Flags{Node: ptr(" Node-1.example.com\n")}, ""},
		{detect("Bridge", ""), `detectLocalMode "Bridge" is none of`},
		{detect("BridgeInterface", ""), "an interface name or prefix is needed"},
		{detect("InterfaceNamePrefix", ""), "an interface name or prefix is needed"},
		{detect("BridgeInterface", "sixteen-bytes-xx"), "longer than 15 bytes"},
		{detect("BridgeInterface", "fifteen-bytes-x"), ""},
		{detect("InterfaceNamePrefix", "fifteen-bytes-x"), "longer than 14 bytes"},
		{detect("InterfaceNamePrefix", "fourteen-bytes"), ""},
		{detect("InterfaceNamePrefix", "veth+"), "no rule can express"},
		{detect("BridgeInterface", "a b"), "no rule can express"},
		{detect("BridgeInterface", "a\nb"), "no rule can express"},
		{detect("BridgeInterface", "a\x00b"), "no rule can express"},
		{detect("BridgeInterface", "a/b"), "no rule can express"},
		{detect("BridgeInterface", "!a"), "no rule can express"},
		{detect("BridgeInterface", `a"b`), "no rule can express"},
		{detect("BridgeInterface", "a'b"), "no rule can express"},
		{detect("BridgeInterface", `a\b`), "no rule can express"},
		{detect("BridgeInterface", "brücke"), "no rule can express"},
		{detect("BridgeInterface", "eth0.100"), ""},
		{detect("ClusterCIDR", ""), ""},
		{detect("NodeCIDR", ""), ""},
		{detect("", "+"), ""}, // an interface that no mode looks for
		{Flags{ClusterCIDR: ptr("10.0.0.0")}, "is not a CIDR"},
		{Flags{ClusterCIDR: ptr("10.0.0.0/8,10.1.0.0/16")}, "two ranges of ipv4"},
		{Flags{ClusterCIDR: ptr("fd00::/8,fd01::/64")}, "two ranges of ipv6"},
		{Flags{ClusterCIDR: ptr(" 10.0.0.0/8 , fd00::/8 ,")}, ""},
		{Flags{NodePortAddresses: []string{"primary", "primary"}}, `"primary" twice`},
		{Flags{NodePortAddresses: []string{"10.0.0.0/8", "10.0.0.0/8"}}, `"10.0.0.0/8" twice`},
		{Flags{NodePortAddresses: []string{"node"}}, "nor primary, localhost or all"},
		{Flags{NodePortAddresses: []string{"10.0.0.1"}}, "nor primary, localhost or all"},
		{Flags{NodePortAddresses: []string{"126.0.0.0/7"}}, "give them apart"},
		{Flags{NodePortAddresses: []string{"::/64"}}, "give them apart"},
		{Flags{NodePortAddresses: []string{"primary", "localhost", "all", "0.0.0.0/0", "::/0", "127.0.0.0/8", "127.0.0.1/32", "::1/128", "fd00::/8"}}, ""},
	} {
		_, list := merge(&manifest.Set{}, Options{Mode: mode.Default, Flags: c.flags})
		if c.want == "" {
			if len(list) > 0 {
				t.Errorf("%+v: %v", c.flags, list)
			}
			continue
		}
		if len(list) != 1 || list[0].Code != diag.BadOption || list[0].Severity != diag.Error || !strings.Contains(list[0].Message, c.want) {
			t.Errorf("%v, want %q", list, c.want)
		}
	}
}

// A fault of a configuration stands at its place; two are one too many.
func TestBadConfig(t *testing.T) {
	set := configured()
	set.ProxyConfigs[0].Value.ClusterCIDR = "x"
	if _, list := merge(set, Options{Mode: mode.Default}); len(list) != 1 || list[0].Pos.String() != "kp.yaml:1:1" {
		t.Errorf("%v", list)
	}
	set = configured()
	other := *set.ProxyConfigs[0]
	other.Pos.File = "second.yaml"
	set.ProxyConfigs = append(set.ProxyConfigs, &other)
	_, list := merge(set, Options{Mode: mode.Default})
	if len(list) != 1 || list[0].Code != diag.BadOption || list[0].Pos.File != "second.yaml" || len(list[0].Related) != 1 || list[0].Related[0].Pos.File != "kp.yaml" {
		t.Errorf("%v", list)
	}
}
