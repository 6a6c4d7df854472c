package passes_test

import (
	"fmt"
	"testing"

	"svcc/ir"
)

func masq(unlessPod bool, next ir.Step) *ir.Masquerade {
	return &ir.Masquerade{UnlessPod: unlessPod, Next: next}
}

var shareOf = balance("a", "10.1.0.1:80 10.1.0.2:80")

const shareText = "#1 balance 1/2 10.1.0.1:80, 1/2 10.1.0.2:80"

// ClusterIPs that decide alike are decided together.
func TestGroup(t *testing.T) {
	for _, c := range []struct {
		unlessPod bool
		words     string
	}{{true, " unless from pod"}, {false, ""}} {
		g := after(t, "group",
			entry("a", "10.96.0.1:80", masq(c.unlessPod, shareOf)),
			entry("b", "10.96.3.7:80", masq(c.unlessPod, shareOf)))
		wantGraph(t, g, "lookup 10.96.0.1:80/tcp #1", "10.96.3.7:80/tcp #1", shareText,
			"masquerade to 10.96.0.0/22"+c.words+" but for ports 30000 to 32767")
	}
}

// Without a detector nobody asks, and nothing is grouped.
func TestGroupNothing(t *testing.T) {
	g := after(t, "group", entry("a", "10.96.0.1:80", shareOf), entry("b", "10.96.3.7:80", &ir.Refuse{Reason: ir.NoEndpoints}))
	if len(g.Masquerades) > 0 || len(after(t, "group").Masquerades) > 0 {
		t.Errorf("%v", g.Masquerades)
	}
}

// A port between the node ports keeps its own decision: a packet to it at a
// ClusterIP that is local may have been a node port's. The span follows node
// ports outside the usual one.
func TestGroupLeavesNodePorts(t *testing.T) {
	g := after(t, "group",
		entry("a", "10.96.0.1:80", masq(true, shareOf)),
		entry("a", "10.96.0.1:29999", masq(true, shareOf)),
		entry("a", "10.96.0.1:30000", masq(true, shareOf)),
		entry("a", "10.96.0.1:32767", masq(true, shareOf)),
		entry("a", "10.96.0.1:40000", masq(true, shareOf)),
		entry("a", "10.96.0.1:40001", masq(true, shareOf)),
		entry("b", "0.0.0.0:40000", masq(false, shareOf), ir.NodePort))
	wantGraph(t, g,
		"lookup 10.96.0.1:80/tcp #1", "10.96.0.1:29999/tcp #1",
		"10.96.0.1:30000/tcp unless from pod masquerade; #1",
		"10.96.0.1:32767/tcp unless from pod masquerade; #1",
		"10.96.0.1:40000/tcp unless from pod masquerade; #1",
		"10.96.0.1:40001/tcp #1",
		"node-port 40000/tcp masquerade, #1", shareText,
		"masquerade to 10.96.0.1/32 unless from pod but for ports 30000 to 40000")
}

// An address in the range that decides otherwise breaks it, be it an external
// one or a ClusterIP.
func TestGroupGoesRoundOthers(t *testing.T) {
	all := func(other *ir.Entry) *ir.Graph {
		return after(t, "group",
			entry("a", "10.96.0.0:80", masq(true, shareOf)), entry("a", "10.96.0.1:80", masq(true, shareOf)),
			entry("a", "10.96.0.2:80", masq(true, shareOf)), entry("a", "10.96.0.7:80", masq(true, shareOf)), other)
	}
	ways := func(own, other string) []string {
		return []string{"lookup 10.96.0.0:80/tcp #1", "10.96.0.1:80/tcp #1", "10.96.0.2:80/tcp " + own, "10.96.0.7:80/tcp #1", other, shareText}
	}
	const but = " unless from pod but for ports 30000 to 32767"
	for _, kind := range []ir.FrontendKind{ir.ClusterIP, ir.ExternalIP, ir.LoadBalancer} {
		wantGraph(t, all(entry("b", "10.96.0.2:81", shareOf, kind)), append(ways("unless from pod masquerade; #1", "10.96.0.2:81/tcp #1"),
			"masquerade to 10.96.0.0/31"+but, "masquerade to 10.96.0.7/32"+but)...)
	}
	// What decides no less, or delivers nothing, or has a port that is excepted,
	// does no harm.
	for way, other := range map[string]*ir.Entry{
		"10.96.0.2:81/tcp masquerade, #1":                                      entry("b", "10.96.0.2:81", masq(false, shareOf), ir.ExternalIP),
		"10.96.0.2:81/tcp reject (no endpoints)":                               entry("b", "10.96.0.2:81", &ir.Refuse{Reason: ir.NoEndpoints}, ir.ExternalIP),
		"10.96.0.2:30080/tcp #1":                                               entry("b", "10.96.0.2:30080", shareOf, ir.ExternalIP),
		"10.96.0.2:81/tcp from pod reject (no endpoints); else masquerade, #1": entry("b", "10.96.0.2:81", fromPod(&ir.Refuse{Reason: ir.NoEndpoints}, masq(false, shareOf)), ir.LoadBalancer),
	} {
		wantGraph(t, all(other), append(ways("#1", way), "masquerade to 10.96.0.0/29"+but)...)
	}
}

// A step with a label is an external way's, and no ClusterIP's to take.
func TestGroupLeavesLabels(t *testing.T) {
	m := masq(true, shareOf)
	m.Label.Part = ir.PartExternal
	if g := after(t, "group", entry("a", "10.96.0.1:80", m)); len(g.Masquerades) > 0 {
		t.Errorf("%v", g.Masquerades)
	}
}

// There are four ranges at most, the largest: each costs every connection.
func TestGroupBound(t *testing.T) {
	var all []*ir.Entry
	for i := range byte(6) {
		for j := range i + 1 {
			all = append(all, entry("a", "10.96.0.1:80", masq(false, shareOf)))
			all[len(all)-1].Addr = addr("10.96.0.0")
			b := all[len(all)-1].Addr.As4()
			b[2], b[3] = 2*i, j
			all[len(all)-1].Addr = ipv4(b)
		}
		all = append(all, entry("b", "10.96.0.1:80", shareOf, ir.ExternalIP))
		all[len(all)-1].Addr = ipv4([4]byte{10, 96, 2*i + 1, 0})
	}
	g := after(t, "group", all...)
	var got []string
	for _, m := range g.Masquerades {
		got = append(got, m.Prefix.String())
	}
	if want := "[10.96.10.0/29 10.96.8.0/29 10.96.6.0/30 10.96.4.0/30]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
}
