package ipvs

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"svcc/apply"
	spec "svcc/emit/ipvs"
	"svcc/ir"
)

// Whatever differs is seen.
func TestEqual(t *testing.T) {
	fresh := func() (*node, apply.Observed) {
		n := newNode()
		bring(t, target(n), oldWorld().ruleset())
		o, _ := plans(t, target(n), nil)
		return n, o
	}
	k := spec.Key{Protocol: ir.TCP, Address: netip.MustParseAddrPort("10.96.0.1:80")}
	_, reference := fresh()
	for name, change := range map[string]func(*node){
		"entry":       func(n *node) { n.sets["KUBE-CLUSTER-IP"].entries["10.9.9.9,tcp:9"] = true },
		"set":         func(n *node) { delete(n.sets, "KUBE-6-LOOP-BACK") },
		"temporary":   func(n *node) { n.sets["SVCC-CLUSTER-IP"] = n.sets["KUBE-CLUSTER-IP"] },
		"address":     func(n *node) { delete(n.addresses, netip.MustParseAddr("10.96.0.1")) },
		"server":      func(n *node) { delete(n.servers, k) },
		"scheduler":   func(n *node) { n.servers[k].Scheduler = "sh" },
		"weight":      func(n *node) { n.servers[k].Destinations[0].Weight = 0 },
		"destination": func(n *node) { n.servers[k].Destinations = n.servers[k].Destinations[1:] },
		"timeouts":    func(n *node) { n.timeouts.UDP = 7 },
		"glue": func(n *node) {
			n.tables.Run(context.Background(), apply.Input{Tool: "iptables-restore", Args: []string{"--noflush"}, //nolint:errcheck // seen below
				Stdin: []byte("*nat\n:KUBE-SERVICES - [0:0]\nCOMMIT\n")})
		},
	} {
		n, o := fresh()
		if !o.Equal(reference) {
			t.Fatal("the same is not equal")
		}
		change(n)
		o, _ = plans(t, target(n), nil)
		if o.Equal(reference) || reference.Equal(o) {
			t.Errorf("%s: another one is equal", name)
		}
	}
	n, _ := fresh()
	n.servers[k].Destinations[0].Connections = 5
	n.servers[k].Destinations = append(n.servers[k].Destinations, Destination{Address: netip.MustParseAddrPort("10.0.0.77:80")})
	if o, _ := plans(t, target(n), nil); !o.Equal(reference) || !reference.Equal(o) {
		t.Error("connections, or a destination that drains, make a difference")
	}
}

func TestLoadRefuses(t *testing.T) {
	tg := target(newNode())
	bring(t, tg, oldWorld().ruleset())
	o, _ := plans(t, tg, nil)
	text := string(o.Marshal())
	for _, c := range [][2]string{
		{`"Name":"KUBE-CLUSTER-IP"`, `"Name":"ADMINS-SET-FOO"`}, {"10.96.0.1:80", "192.0.2.200:80"}, {"observed v1", "observed v9"}, {"}", ""},
	} {
		if _, err := tg.Load([]byte(strings.Replace(text, c[0], c[1], 1))); err == nil || !strings.Contains(text, c[0]) {
			t.Errorf("with %q for %q it was taken", c[1], c[0])
		}
	}
}

// What iptables mode observed is put back, and the rest is left alone.
func TestLoadOfIPTablesMode(t *testing.T) {
	n := newNode()
	tg := target(n)
	bring(t, tg, iptablesRuleset())
	glue, err := tg.Glue.Observe(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	old, err := tg.Load(glue.Marshal())
	if err != nil {
		t.Fatal(err)
	}
	now, _ := plans(t, tg, nil)
	if !now.Equal(old) {
		t.Error("it is not equal to what is there")
	}
	if _, p := plans(t, tg, nil); tg.Glue.Commit(context.Background(), p.glue) != nil {
		t.Fatal("cannot take the rules away")
	}
	if now, _ = plans(t, tg, nil); now.Equal(old) {
		t.Error("without the rules it is equal still")
	}
	if err := tg.Restore(context.Background(), old); err != nil {
		t.Fatal(err)
	}
	if now, _ = plans(t, tg, nil); !now.Equal(old) {
		t.Error("restored, it is not equal")
	}
}

// What is live is what was applied, and what others have.
func TestLive(t *testing.T) {
	n := newNode()
	strangers(n)
	w := oldWorld()
	w.change(func(v *spec.Server) { v.Timeout, v.Flags, v.Scheduler = 10800, []string{"mh-port"}, "mh" })
	bring(t, target(n), w.ruleset())
	for i, f := range ir.Families {
		sections, err := target(n).Live(context.Background(), f)
		if err != nil {
			t.Fatal(err)
		}
		got, err := spec.ReadState(f, sections)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(got.Glue), "-A KUBE-POSTROUTING -j MASQUERADE") {
			t.Errorf("%s: glue is\n%s", f, got.Glue)
		}
		got.Servers = slices.DeleteFunc(got.Servers, func(v *spec.Server) bool {
			return i == 0 && strings.HasPrefix(v.Destinations[0].Address.String(), "10.9.9.9")
		})
		for j, tool := range []string{spec.ToolSets, spec.ToolGlue, spec.ToolAddresses, spec.ToolServers} {
			if tool == spec.ToolGlue {
				continue
			}
			if diff := cmp.Diff(sortedLines(w.states[i].Sections()[j].Text), sortedLines(got.Sections()[j].Text)); diff != "" {
				t.Errorf("%s %s (-want +got):\n%s", f, tool, diff)
			}
		}
	}
}

func sortedLines(text []byte) []string { return slices.Sorted(strings.Lines(string(text))) }
