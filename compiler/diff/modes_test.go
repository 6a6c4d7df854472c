package diff

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"svcc/ir"
)

// virtually puts a Program on a node with virtual servers.
func virtually(p *ir.Program) *ir.Program {
	own := []netip.Addr{p.Node.IP}
	p.Options.Virtual = &ir.Virtual{Scheduler: "rr", Own: own}
	p.Options.NodePorts = ir.NodePortAddresses{Addrs: own}
	p.Options.LocalhostNodePorts = false
	return p
}

// What differs of the choices for virtual servers is told, once, and of the one
// that packets can tell, what becomes of them.
func TestVirtualReasons(t *testing.T) {
	for _, c := range []struct {
		change  func(v *ir.Virtual, s *ir.ServicePort)
		want    string
		packets bool // whether any fares differently
	}{
		{func(v *ir.Virtual, _ *ir.ServicePort) { v.Scheduler = "lc" }, "scheduler: rr -> lc", false},
		{func(_ *ir.Virtual, s *ir.ServicePort) { s.Scheduler = "sh" }, "scheduler: the node's -> sh", false},
		{func(v *ir.Virtual, _ *ir.ServicePort) { v.StrictARP = true }, "strict ARP: no -> yes", false},
		{func(v *ir.Virtual, _ *ir.ServicePort) { v.UDPTimeout = 30 }, "UDP timeout: none -> 30 s", false},
		{func(v *ir.Virtual, _ *ir.ServicePort) {
			v.Exclude = []netip.Prefix{netip.MustParsePrefix("10.9.0.0/16")}
		},
			"virtual servers left alone: none -> 10.9.0.0/16", false},
		{func(v *ir.Virtual, _ *ir.ServicePort) { v.HairpinLocal = true }, "remote endpoints as their own clients: yes -> no", true},
		{func(v *ir.Virtual, s *ir.ServicePort) {
			v.Own = append(v.Own, s.Frontends[0].Addr)
			slices.SortFunc(v.Own, netip.Addr.Compare)
		},
			"own addresses: 192.0.2.10 -> 10.96.0.20 192.0.2.10", false},
	} {
		a, b := shop()
		virtually(a)
		virtually(b)
		c.change(b.Options.Virtual, b.Services[0])
		r := compare(t, a, b)
		var got []string
		packets := 0
		for _, x := range r.Changes {
			got = append(got, texts(x.Reasons)...)
			packets += x.Packets
		}
		if len(got) == 0 || got[0] != c.want {
			t.Errorf("reasons %q, want %q", got, c.want)
		}
		if c.packets && packets == 0 {
			t.Errorf("%s: no packet fares differently", c.want)
		}
	}
}

// From one mode to the other, the mode is told, and of packets only what becomes
// of new ones: each meets other hooks.
func TestModes(t *testing.T) {
	a, b := shop()
	virtually(b)
	for _, r := range []*Report{compare(t, a, b), compare(t, b, a)} {
		var text strings.Builder
		if err := r.Text(&text, false); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(text.String(), "mode: ") {
			t.Errorf("the mode is not told:\n%s", text.String())
		}
		for _, word := range []string{"=policy", "=drop", "=reject", "established", "invalid", "marked"} {
			if strings.Contains(text.String(), word) {
				t.Errorf("%q in\n%s", word, text.String())
			}
		}
	}
	flows := ""
	for _, c := range compare(t, a, b).Changes {
		for _, f := range c.Flows {
			flows += strings.Join(f.From, ", ") + " -> " + f.To + ": " + f.Before.Text + " => " + f.After.Text + "\n"
		}
	}
	// A node port answers at 127.0.0.1 no more; a service address refuses what it
	// has no port for, since the node bears it.
	for _, want := range []string{
		"outside -> node-port 127.0.0.1:30443/tcp: 10.244.1.6:8443 => no service's\n",
		"outside -> 10.96.0.20:442/tcp: no service's => reject\n",
	} {
		if !strings.Contains(flows, want) {
			t.Errorf("%q is not in\n%s", want, flows)
		}
	}
	if strings.Contains(flows, "cluster-ip 10.96.0.20:443/tcp") {
		t.Errorf("the cluster IP means the same in both modes:\n%s", flows)
	}
}
