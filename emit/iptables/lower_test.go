package iptables

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	steps "svcc/compiler/lower"
	"svcc/emit"
	"svcc/ir"
	"svcc/ir/irtest"
)

var emitLevel0 = emit.Options{Level: 0}

// text emits a Program at level 0.
func emitted(t *testing.T, p *ir.Program, hooks bool) string {
	t.Helper()
	s, err := Backend{}.Emit(steps.Lower(p), emit.Options{Hooks: hooks})
	if err != nil || len(s) != 1 || s[0].Tool != "iptables-restore" || s[0].Family != p.Family {
		t.Fatalf("%v, %+v", err, s)
	}
	return string(s[0].Text)
}

// What stands in every file, whatever the services.
func TestFixedRules(t *testing.T) {
	const head = `*filter
:KUBE-SERVICES - [0:0]
:KUBE-EXTERNAL-SERVICES - [0:0]
:KUBE-FORWARD - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-PROXY-FIREWALL - [0:0]
`
	const localnet = `:KUBE-FIREWALL - [0:0]
-A KUBE-FIREWALL -m comment --comment "block incoming localnet connections" -d 127.0.0.0/8 ! -s 127.0.0.0/8 -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP
`
	const invalid = "-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP\n"
	const rest = `-A KUBE-FORWARD -m comment --comment "kubernetes forwarding rules" -m mark --mark 0x00004000/0x00004000 -j ACCEPT
-A KUBE-FORWARD -m comment --comment "kubernetes forwarding conntrack rule" -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
COMMIT
*nat
:KUBE-SERVICES - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-POSTROUTING - [0:0]
:KUBE-MARK-MASQ - [0:0]
-A KUBE-POSTROUTING -m mark ! --mark 0x00004000/0x00004000 -j RETURN
-A KUBE-POSTROUTING -j MARK --xor-mark 0x00004000
-A KUBE-POSTROUTING -m comment --comment "kubernetes service traffic requiring SNAT" -j MASQUERADE --random-fully
-A KUBE-MARK-MASQ -j MARK --or-mark 0x00004000
`
	const last = `-A KUBE-SERVICES -m comment --comment "kubernetes service nodeports; NOTE: this must be the last rule in this chain" `
	for _, c := range []struct {
		name   string
		family ir.Family
		change func(o *ir.Options)
		want   string
	}{
		{"IPv4", ir.IPv4, func(*ir.Options) {}, head + localnet + invalid + rest + last + "-m addrtype --dst-type LOCAL -j KUBE-NODEPORTS\nCOMMIT\n"},
		{"liberal tracking", ir.IPv4, func(o *ir.Options) { o.DropInvalid = false }, head + localnet + rest + last + "-m addrtype --dst-type LOCAL -j KUBE-NODEPORTS\nCOMMIT\n"},
		{"no localhost node ports", ir.IPv4, func(o *ir.Options) { o.LocalhostNodePorts = false },
			head + invalid + rest + last + "-m addrtype --dst-type LOCAL ! -d 127.0.0.0/8 -j KUBE-NODEPORTS\nCOMMIT\n"},
		{"IPv6", ir.IPv6, func(o *ir.Options) { o.LocalhostNodePorts = false },
			head + invalid + rest + last + "-m addrtype --dst-type LOCAL ! -d ::1/128 -j KUBE-NODEPORTS\nCOMMIT\n"},
		{"addresses", ir.IPv4, func(o *ir.Options) {
			o.NodePorts = ir.NodePortAddresses{Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("192.0.2.10")}}
		}, head + localnet + invalid + rest + last + "-d 127.0.0.1 -j KUBE-NODEPORTS\n" + last + "-d 192.0.2.10 -j KUBE-NODEPORTS\nCOMMIT\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := irtest.Shop()
			p.Family, p.Services = c.family, nil
			c.change(&p.Options)
			if d := cmp.Diff(c.want, emitted(t, p, false)); d != "" {
				t.Errorf("want -, got +\n%s", d)
			}
		})
	}
}

// With hooks there are jumps from the built-in chains, top to bottom as
// kube-proxy's insertions leave them; without, no rule stands in one.
func TestBuiltInChains(t *testing.T) {
	want := []string{
		"INPUT KUBE-FIREWALL", "INPUT KUBE-PROXY-FIREWALL", "INPUT KUBE-NODEPORTS", "INPUT KUBE-EXTERNAL-SERVICES",
		"FORWARD KUBE-PROXY-FIREWALL", "FORWARD KUBE-FORWARD", "FORWARD KUBE-SERVICES", "FORWARD KUBE-EXTERNAL-SERVICES",
		"OUTPUT KUBE-FIREWALL", "OUTPUT KUBE-PROXY-FIREWALL", "OUTPUT KUBE-SERVICES",
		"PREROUTING KUBE-SERVICES", "OUTPUT KUBE-SERVICES", "POSTROUTING KUBE-POSTROUTING",
	}
	for _, family := range ir.Families {
		p := irtest.Shop()
		p.Family, p.Services, p.Options.LocalhostNodePorts = family, nil, false
		bare := emitted(t, p, false)
		if got := builtIn(bare); len(got) > 0 {
			t.Errorf("without hooks: %v", got)
		}
		if d := cmp.Diff(want, builtIn(emitted(t, p, true))); d != "" {
			t.Errorf("%s: want -, got +\n%s", family, d)
		}
		added := hooked(bare)
		if d := cmp.Diff(want, builtIn(added)); d != "" {
			t.Errorf("%s, added: want -, got +\n%s", family, d)
		}
		if n := strings.Count(added, ":KUBE-FIREWALL "); n != 1 {
			t.Errorf("%s: KUBE-FIREWALL is declared %d times", family, n)
		}
	}
}

// builtIn lists the rules of built-in chains: chain and target.
func builtIn(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if f[0] == "-A" && !strings.HasPrefix(f[1], "KUBE-") {
			out = append(out, f[1]+" "+f[len(f)-1])
		}
	}
	return out
}

// many is a Program with one service port of so many endpoints.
func many(n int) *ir.Program {
	p := irtest.Shop()
	s := p.Services[0]
	s.Cluster, s.Local = nil, nil
	for i := range n {
		s.Cluster = append(s.Cluster, ir.Endpoint{Addr: irtest.Addr(ir.IPv4, 200, i+1), Port: 80})
	}
	p.Known = n
	return p
}

// Above 1000 known endpoints, and not at 1000, the rules of endpoints have no
// comments; all others keep theirs.
func TestManyEndpoints(t *testing.T) {
	for n, want := range map[int]bool{1000: true, 1001: false} {
		text := emitted(t, many(n), false)
		for line := range strings.Lines(text) {
			chain := strings.Fields(line)[0]
			if chain == "-A" {
				chain = strings.Fields(line)[1]
			}
			share := strings.Contains(line, "-j KUBE-SEP-")
			if (strings.HasPrefix(chain, "KUBE-SEP-") || share) && strings.Contains(line, "--comment") != want {
				t.Fatalf("%d endpoints: %s", n, line)
			}
		}
		for _, c := range []string{`"demo/shop:https cluster IP"`, `"demo/shop:https loadbalancer IP"`, `"masquerade LOCAL traffic for demo/shop:https external destinations"`} {
			if !strings.Contains(text, c) {
				t.Errorf("%d endpoints: no comment %s", n, c)
			}
		}
	}
	// What counts is the number known, not the number that serves.
	p := many(1)
	p.Known = 1001
	if strings.Contains(emitted(t, p, false), " -> ") {
		t.Error("1001 known, one serves: an endpoint's comment")
	}
}

// Rule i of n takes 1/(n-i) of what comes to it, in ten digits; the last takes
// all.
func TestProbabilities(t *testing.T) {
	text := emitted(t, many(400), false)
	i := 0
	for line := range strings.Lines(text) {
		if !strings.Contains(line, "-j KUBE-SEP-") {
			continue
		}
		want := fmt.Sprintf(" --probability %0.10f ", 1/float64(400-i))
		if i == 399 {
			if strings.Contains(line, "--probability") {
				t.Error(line)
			}
		} else if !strings.Contains(line, want) {
			t.Errorf("rule %d without %q: %s", i, want, line)
		}
		i++
	}
	if i != 400 {
		t.Errorf("%d rules", i)
	}
}

// A step without a layout is an error that names the service.
func TestUnknownStep(t *testing.T) {
	for _, damage := range []func(g *ir.Graph){
		func(g *ir.Graph) { g.Entries[0].Next = nil },
		func(g *ir.Graph) { g.Entries[0].Next.(*ir.Guard).Then = nil },
		func(g *ir.Graph) { g.Entries[0].Next.(*ir.Guard).Else = &ir.Masquerade{} },
	} {
		g := steps.Lower(irtest.Shop())
		damage(g)
		if _, err := (Backend{}).Emit(g, emitLevel0); err == nil || !strings.Contains(err.Error(), "demo/shop:https/tcp: a step of type <nil>") {
			t.Errorf("error %v", err)
		}
	}
}

// hooked puts the jumps from built-in chains at the end of each table.
func hooked(text string) string {
	var out strings.Builder
	var table string
	var chains []string
	for line := range strings.Lines(text) {
		switch {
		case line[0] == '*':
			table, chains = strings.TrimSpace(line[1:]), nil
		case line[0] == ':':
			chains = append(chains, strings.Fields(line[1:])[0])
		case line == "COMMIT\n":
			for _, jump := range Jumps(table, chains) {
				out.WriteString(jump + "\n")
			}
		}
		out.WriteString(line)
	}
	return out.String()
}
