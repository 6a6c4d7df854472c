package iptables

import (
	"net/netip"
	"testing"

	"svcc/ir"
)

// A name that breaks out is refused by the backend as a whole.
func TestEmitRefusesNames(t *testing.T) {
	for _, name := range []string{"we\"b", "we\nb", "we b\\", "wéb"} {
		a := netip.MustParseAddr("10.96.0.1")
		n := ir.PortName{Namespace: "demo", Name: name, Protocol: ir.TCP}
		g := &ir.Graph{Family: ir.IPv4, Options: ir.Options{MasqueradeMark: 1}, Entries: []*ir.Entry{
			{Frontend: ir.Frontend{Kind: ir.ClusterIP, Addr: a, Port: 80}, Service: n, Next: &ir.Refuse{Reason: ir.NoEndpoints}},
		}}
		if s, err := (Backend{}).Emit(g, emitLevel0); err == nil || s != nil {
			t.Errorf("%q: %v", name, s)
		}
	}
}
