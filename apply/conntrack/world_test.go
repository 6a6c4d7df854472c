package conntrack_test

import (
	"context"
	"net/netip"
	"slices"

	"svcc/apply/conntrack"
	"svcc/ir"
)

// fake is a table in memory. It shows TCP entries too, so that tests see them
// spared.
type fake struct {
	entries     []conntrack.Entry
	local       []netip.Prefix
	interrupted int // listings that break off after their first entry
	listings    int
	deletions   int
}

func (f *fake) Local(ir.Family) ([]netip.Prefix, error) { return f.local, nil }

func (f *fake) Each(_ context.Context, family ir.Family, see func(conntrack.Entry)) error {
	f.listings++
	for i, e := range f.entries {
		if !family.Of(e.Dst.Addr()) {
			continue
		}
		if f.interrupted > 0 && i > 0 {
			f.interrupted--
			return conntrack.ErrInterrupted
		}
		see(e)
	}
	return nil
}

func (f *fake) Delete(_ context.Context, _ ir.Family, dead []conntrack.Entry) (int, error) {
	f.deletions++
	n := len(f.entries)
	f.entries = slices.DeleteFunc(f.entries, func(e conntrack.Entry) bool { return slices.Contains(dead, e) })
	return n - len(f.entries), nil
}

func at(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

// flow is a UDP entry from a client to dst that from answers.
func flow(dst, from string) conntrack.Entry {
	client := at("192.0.2.7:40000")
	if at(dst).Addr().Is6() {
		client = at("[2001:db8::7]:40000")
	}
	return conntrack.Entry{Protocol: ir.UDP, Src: client, Dst: at(dst), ReplySrc: at(from), ReplyDst: client}
}

// The node has these addresses.
var nodeAddrs = []netip.Prefix{
	netip.MustParsePrefix("10.1.0.1/32"), netip.MustParsePrefix("10.9.0.1/32"), netip.MustParsePrefix("127.0.0.0/8"),
	netip.MustParsePrefix("fd00:1::1/128"), netip.MustParsePrefix("::1/128"),
}

// dns is a UDP service port with every kind of frontend.
func dns(serving ...string) *ir.ServicePort {
	s := &ir.ServicePort{
		PortName: ir.PortName{Namespace: "demo", Name: "dns", Port: "dns", Protocol: ir.UDP},
		Frontends: []ir.Frontend{
			{Kind: ir.ClusterIP, Addr: netip.MustParseAddr("10.96.0.10"), Port: 53},
			{Kind: ir.ExternalIP, Addr: netip.MustParseAddr("203.0.113.1"), Port: 53},
			{Kind: ir.LoadBalancer, Addr: netip.MustParseAddr("203.0.113.2"), Port: 53},
			{Kind: ir.NodePort, Port: 30053},
		},
	}
	for _, e := range serving {
		s.Serving = append(s.Serving, at(e))
	}
	return s
}

// program holds service ports; its node ports answer everywhere.
func program(services ...*ir.ServicePort) *ir.Program {
	return &ir.Program{
		Family:   ir.IPv4,
		Options:  ir.Options{LocalhostNodePorts: true, NodePorts: ir.NodePortAddresses{All: true}},
		Services: services,
	}
}

// of makes the list that a ruleset's Programs are; none for nil.
func of(ps ...*ir.Program) []*ir.Program {
	return slices.DeleteFunc(ps, func(p *ir.Program) bool { return p == nil })
}
