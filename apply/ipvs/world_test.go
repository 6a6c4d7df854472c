package ipvs

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"svcc/apply"
	"svcc/apply/iptables"
	"svcc/emit"
	rules "svcc/emit/iptables"
	spec "svcc/emit/ipvs"
	"svcc/ir"
)

// world builds what a ruleset of IPVS mode has, by hand.
type world struct{ states [2]*spec.State }

// glueText masquerades what was marked, and what talks to itself.
const glueText = `*nat
:KUBE-MARK-MASQ - [0:0]
:KUBE-POSTROUTING - [0:0]
:KUBE-SERVICES - [0:0]
-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000
-A KUBE-POSTROUTING -m set --match-set LOOPBACK dst,dst,src -j MASQUERADE
-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN
-A KUBE-POSTROUTING -j MARK --set-xmark 0x4000/0x0
-A KUBE-POSTROUTING -j MASQUERADE --random-fully
-A KUBE-SERVICES -m set --match-set CLUSTER src,dst -j KUBE-MARK-MASQ
COMMIT
`

var setTypes = [][2]string{
	{"KUBE-LOOP-BACK", "hash:ip,port,ip"}, {"KUBE-CLUSTER-IP", "hash:ip,port"}, {"KUBE-EXTERNAL-IP", "hash:ip,port"},
	{"KUBE-NODE-PORT-TCP", "bitmap:port"}, {"KUBE-NODE-PORT-UDP", "bitmap:port"}, {"KUBE-IPVS-IPS", "hash:ip"},
}

func newWorld() *world {
	w := &world{}
	for i, f := range ir.Families {
		s := &spec.State{Family: f}
		for _, t := range setTypes {
			set := &spec.Set{Name: spec.SetName(f, t[0]), Type: t[1]}
			if t[1] != "bitmap:port" {
				set.HashSize, set.MaxElem = 1024, 65536
			}
			s.Sets = append(s.Sets, set)
		}
		s.Glue = []byte(strings.NewReplacer(
			"LOOPBACK", spec.SetName(f, "KUBE-LOOP-BACK"), "CLUSTER", spec.SetName(f, "KUBE-CLUSTER-IP")).Replace(glueText))
		w.states[i] = s
	}
	return w
}

func (w *world) add(f int, set, entry string) {
	sets := w.states[f].Sets
	s := sets[slices.IndexFunc(sets, func(s *spec.Set) bool { return s.Name == spec.SetName(ir.Families[f], set) })]
	if !slices.Contains(s.Entries, entry) {
		s.Entries = append(s.Entries, entry)
	}
}

// server adds a virtual server: "tcp 10.96.0.1:80 rr", destinations.
func (w *world) server(text string, destinations ...string) (int, *spec.Server) {
	words := strings.Fields(text)
	protocol, err := ir.ParseProtocol(words[0])
	if err != nil {
		panic(err)
	}
	v := &spec.Server{Key: spec.Key{Protocol: protocol, Address: netip.MustParseAddrPort(words[1])}, Scheduler: words[2]}
	f := 0
	if v.Address.Addr().Is6() {
		f = 1
	}
	for _, d := range destinations {
		a := netip.MustParseAddrPort(d)
		v.Destinations = append(v.Destinations, spec.Destination{Address: a, Weight: 1})
		e := spec.Key{Protocol: protocol, Address: a}.Entry()
		w.add(f, "KUBE-LOOP-BACK", e+","+a.Addr().String())
	}
	w.states[f].Servers = append(w.states[f].Servers, v)
	return f, v
}

// cluster is a service with a cluster address.
func (w *world) cluster(text string, destinations ...string) *world {
	f, v := w.server(text, destinations...)
	a := v.Address.Addr()
	if !slices.Contains(w.states[f].Addresses, a) {
		w.states[f].Addresses = append(w.states[f].Addresses, a)
	}
	w.add(f, "KUBE-CLUSTER-IP", v.Key.Entry())
	w.add(f, "KUBE-IPVS-IPS", a.String())
	return w
}

// external is one at an address that another interface bears.
func (w *world) external(text string, destinations ...string) *world {
	f, v := w.server(text, destinations...)
	w.add(f, "KUBE-EXTERNAL-IP", v.Key.Entry())
	return w
}

// nodePort is one at an address of the node.
func (w *world) nodePort(text string, destinations ...string) *world {
	f, v := w.server(text, destinations...)
	_, port, _ := strings.Cut(v.Key.PortEntry(), ":")
	w.add(f, map[ir.Protocol]string{ir.TCP: "KUBE-NODE-PORT-TCP", ir.UDP: "KUBE-NODE-PORT-UDP"}[v.Protocol], port)
	return w
}

// change changes the last virtual server of IPv4.
func (w *world) change(f func(v *spec.Server)) *world {
	s := w.states[0].Servers
	f(s[len(s)-1])
	return w
}

func (w *world) ruleset() *emit.Ruleset {
	rs := &emit.Ruleset{Head: emit.Head{Mode: "ipvs", Families: ir.Families}}
	for _, s := range w.states {
		for _, set := range s.Sets {
			slices.Sort(set.Entries)
		}
		rs.Sections = append(rs.Sections, s.Sections()...)
	}
	return rs
}

// iptablesRuleset is one of iptables mode.
func iptablesRuleset() *emit.Ruleset {
	rs := &emit.Ruleset{Head: emit.Head{Mode: "iptables", Families: ir.Families}}
	text := strings.Replace(glueText, "-A KUBE-POSTROUTING -m set --match-set LOOPBACK dst,dst,src -j MASQUERADE\n", "", 1)
	for i, dnat := range []string{"-d 10.96.0.1/32 -p tcp -m tcp --dport 80 -j DNAT --to-destination 10.0.0.1:8080",
		"-d fd00::1/128 -p tcp -m tcp --dport 80 -j DNAT --to-destination [fd01::1]:8080"} {
		text := strings.Replace(text, "-m set --match-set CLUSTER src,dst -j KUBE-MARK-MASQ", dnat, 1)
		rs.Sections = append(rs.Sections, emit.Section{Tool: rules.Tool, Family: ir.Families[i], Text: []byte(text)})
	}
	return rs
}

// Two worlds, a change of every kind between them.
func oldWorld() *world {
	return newWorld().
		cluster("tcp 10.96.0.1:80 rr", "10.0.0.1:8080", "10.0.0.2:8080").
		cluster("udp 10.96.0.2:53 rr", "10.0.0.3:53", "10.0.0.4:53").
		cluster("tcp 10.96.0.3:443 wrr", "10.0.0.5:443").
		external("tcp 192.0.2.9:8443 rr", "10.0.0.5:443").
		nodePort("tcp 192.0.2.1:30080 rr", "10.0.0.1:8080").
		cluster("tcp [fd00::1]:80 rr", "[fd01::1]:8080")
}

func newerWorld() *world {
	return newWorld().
		cluster("tcp 10.96.0.1:80 wlc", "10.0.0.2:8080", "10.0.0.9:8080").
		cluster("udp 10.96.0.2:53 rr", "10.0.0.4:53").
		cluster("sctp 10.96.0.4:99 mh", "10.0.0.6:99").
		external("tcp 192.0.2.9:9443 rr", "10.0.0.5:443").
		nodePort("tcp 192.0.2.1:30081 rr", "10.0.0.1:8080").
		cluster("tcp [fd00::1]:80 rr", "[fd01::1]:8080", "[fd01::2]:8080").
		cluster("tcp [fd00::2]:80 rr")
}

// manyWorld has 20 services from a number on, and sets of a size.
func manyWorld(from, size int) *world {
	w := newWorld()
	for i := from; i < from+20; i++ {
		w.cluster(fmt.Sprintf("tcp 10.96.0.%d:80 rr", i), fmt.Sprintf("10.0.0.%d:80", i))
	}
	for _, s := range w.states {
		for _, set := range s.Sets {
			if set.MaxElem > 0 {
				set.MaxElem = size
			}
		}
	}
	return w
}

// target is a Target for a node.
func target(n *node) *Target {
	return &Target{Glue: &iptables.Target{Runner: n}, Runner: n, Kernel: n}
}

// strangers puts things of other programs onto a node: a set, virtual servers
// at other addresses and ports, and rules.
func strangers(n *node) {
	n.sets["cali40all"] = &nodeSet{kind: "hash:net", head: "hash:net family inet hashsize 1024 maxelem 65536 comment",
		entries: map[string]bool{`10.0.0.0/8 comment "add KUBE-CLUSTER-IP 1"`: true}, maxElem: 9}
	for _, a := range []string{"192.0.2.1:443", "198.51.100.7:80"} {
		k := spec.Key{Protocol: ir.TCP, Address: netip.MustParseAddrPort(a)}
		n.servers[k] = &Server{Key: k, Scheduler: "rr", Netmask: netmask(k), Destinations: []Destination{
			{Address: netip.MustParseAddrPort("10.9.9.9:80"), Weight: 0, Method: 3},
		}}
	}
}

func plans(t *testing.T, tg *Target, rs *emit.Ruleset) (apply.Observed, *plan) {
	t.Helper()
	o, err := tg.Observe(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	p, err := tg.Plan(rs, o)
	if err != nil {
		t.Fatal(err)
	}
	return o, p.(*plan)
}

// bring applies a ruleset, and asserts that nothing is left to do.
func bring(t *testing.T, tg *Target, rs *emit.Ruleset) *plan {
	t.Helper()
	_, p := plans(t, tg, rs)
	if _, err := tg.Check(context.Background(), p); err != nil {
		t.Fatal(err)
	}
	if err := tg.Commit(context.Background(), p); err != nil {
		t.Fatal(err)
	}
	_, rest := plans(t, tg, rs)
	if !rest.Empty() {
		t.Fatalf("left to do: %v", rest.Rules())
	}
	if _, err := tg.Tidy(context.Background(), rest); err != nil {
		t.Fatal(err)
	}
	return p
}

// programText is a Program that promises services and has options of its mode.
func programText(t *testing.T, v *ir.Virtual, services ...*ir.ServicePort) string {
	t.Helper()
	var b strings.Builder
	p := &ir.Program{Family: ir.IPv4, Options: ir.Options{MasqueradeMark: 1 << 14, Virtual: v}, Services: services}
	if err := p.Print(&b, false); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
