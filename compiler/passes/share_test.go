package passes_test

import (
	"testing"

	"svcc/ir"
)

// Equal ways become one, which keeps the first one's label, and so do ways that
// are equal but for ways within them.
func TestShare(t *testing.T) {
	a, b := balance("a", "10.1.0.1:80 10.1.0.2:80"), balance("b", "10.1.0.1:80 10.1.0.2:80")
	g := after(t, "share",
		entry("a", "10.96.0.1:80", a),
		entry("b", "10.96.0.2:80", b),
		entry("b", "10.96.0.2:81", sources(fromPod(b, &ir.Masquerade{Next: b}), "192.0.2.0/24")),
		entry("c", "10.96.0.3:80", sources(fromPod(a, &ir.Masquerade{Next: a}), "192.0.2.0/24")))
	if g.Entries[1].Next != ir.Step(a) || g.Entries[2].Next != g.Entries[3].Next {
		t.Error("equal steps stay two")
	}
	wantGraph(t, g,
		"lookup 10.96.0.1:80/tcp #1",
		"10.96.0.2:80/tcp #1",
		"10.96.0.2:81/tcp #2",
		"10.96.0.3:80/tcp #2",
		"#1 balance 1/2 10.1.0.1:80, 1/2 10.1.0.2:80",
		"#2 from 192.0.2.0/24 from pod #1; else masquerade, #1; else drop (source not allowed)")
}

// Whatever treats one packet otherwise stays apart.
func TestShareKeepsApart(t *testing.T) {
	const eps = "10.1.0.1:80 10.1.0.2:80"
	sticky := func(name string, part ir.Part) *ir.Balance {
		b := balance(name, eps)
		b.Label.Part, b.AffinitySeconds = part, 60
		return b
	}
	udp := entry("b", "10.96.0.1:80", balance("b", eps))
	udp.Service.Protocol = ir.UDP
	one := ir.Endpoint{Addr: addr("10.1.0.1"), Port: 80}
	udpOne := entry("b", "10.96.0.1:81", &ir.Deliver{Endpoint: one})
	udpOne.Service.Protocol = ir.UDP
	x := balance("x", eps)
	for name, pair := range map[string][2]*ir.Entry{
		"memories of two service ports":  {entry("a", "10.96.0.1:80", sticky("a", ir.PartClusterShare)), entry("b", "10.96.0.2:80", sticky("b", ir.PartClusterShare))},
		"memories of two policies":       {entry("a", "10.96.0.1:80", sticky("a", ir.PartClusterShare)), entry("a", "10.96.0.1:81", sticky("a", ir.PartLocalShare))},
		"with memory and without":        {entry("a", "10.96.0.1:80", sticky("a", ir.PartClusterShare)), entry("b", "10.96.0.2:80", balance("b", eps))},
		"shares of two protocols":        {entry("a", "10.96.0.1:80", balance("a", eps)), udp},
		"deliveries of two protocols":    {entry("a", "10.96.0.1:81", &ir.Deliver{Endpoint: one}), udpOne},
		"other ports":                    {entry("a", "10.96.0.1:80", balance("a", eps)), entry("a", "10.96.0.1:81", balance("a", "10.1.0.1:80 10.1.0.2:81"))},
		"one endpoint more":              {entry("a", "10.96.0.1:80", balance("a", eps)), entry("a", "10.96.0.1:81", balance("a", eps+" 10.1.0.3:80"))},
		"a share of one and a delivery":  {entry("a", "10.96.0.1:80", balance("a", "10.1.0.1:80")), entry("a", "10.96.0.1:81", &ir.Deliver{Endpoint: one})},
		"reasons":                        {entry("a", "10.96.0.1:80", &ir.Refuse{Reason: ir.NoEndpoints}), entry("a", "10.96.0.1:81", &ir.Refuse{Reason: ir.NoLocalEndpoints})},
		"source ranges":                  {entry("a", "10.96.0.1:80", sources(x, "192.0.2.0/24")), entry("a", "10.96.0.1:81", sources(x, "192.0.2.0/25"))},
		"questions":                      {entry("a", "10.96.0.1:80", fromPod(x, &ir.Masquerade{Next: x})), entry("a", "10.96.0.1:81", &ir.Guard{If: ir.Condition{FromNode: true}, Then: x, Else: &ir.Masquerade{Next: x}})},
		"answers":                        {entry("a", "10.96.0.1:80", fromPod(x, &ir.Masquerade{Next: x})), entry("a", "10.96.0.1:81", fromPod(&ir.Masquerade{Next: x}, x))},
		"masquerading all, and not pods": {entry("a", "10.96.0.1:80", &ir.Masquerade{Next: x}), entry("a", "10.96.0.1:81", &ir.Masquerade{UnlessPod: true, Next: x})},
	} {
		if g := after(t, "share", pair[0], pair[1]); g.Entries[0].Next == g.Entries[1].Next {
			t.Errorf("%s became one", name)
		}
	}
}
