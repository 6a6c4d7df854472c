package golden

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"svcc/compiler"
	"svcc/compiler/passes"
	"svcc/emit"
	"svcc/emit/ipvs"
	"svcc/golden/lab"
	"svcc/golden/uml"
	"svcc/ir"
	"svcc/ir/eval"
	"svcc/ir/irtest"
)

// TestKernelRandomVirtual has clusters that nobody thought of loaded by the tools,
// and packets of their proof judged by the kernel.
func TestKernelRandomVirtual(t *testing.T) {
	seeds := uint64(6) // each level in each family
	if lab.All() {
		seeds = 40
	}
	uml.Test(t, func(t *testing.T) {
		for seed := range seeds {
			t.Run(fmt.Sprint(seed), func(t *testing.T) { randomVirtual(t, seed) })
		}
	})
}

func randomVirtual(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 0))
	family := ir.Families[seed%2]
	p := irtest.Virtual(r, irtest.Cluster(r, family, 12))
	p.Options.Virtual.Scheduler, p.Options.Virtual.HairpinLocal = "rr", seed%3 == 0
	for _, s := range p.Services {
		s.Scheduler = ""
	}
	g, err := passes.Graph(p, int(seed%3))
	if err != nil {
		t.Fatal(err)
	}
	sections, err := ipvs.Backend{}.Emit(g, emit.Options{Level: int(seed % 3), Hooks: true})
	if err != nil {
		t.Fatal(err)
	}
	clients := eval.NewClients(p)
	l := lab.New(t, randomLab(p, clients))
	unit := compiler.Unit{Family: family, Program: p, Graph: g, Sections: sections}
	if err := loadVirtual(l, built{&compiler.Result{Units: []compiler.Unit{unit}}, ""}); err != nil {
		t.Fatal(err)
	}
	judgeRandom(t, l, p, clients)
}

// randomLab is the node of a Program.
func randomLab(p *ir.Program, c eval.Clients) lab.Config {
	config := lab.Config{Addrs: slices.Clone(c.Host.Addrs)}
	slices.SortFunc(config.Addrs, netip.Addr.Compare)
	config.Addrs = slices.Compact(config.Addrs)
	if p.Options.Pods.Kind == ir.DetectCIDR {
		config.Pods = []netip.Prefix{p.Options.Pods.Prefix}
	}
	config.Interfaces = []string{c.PodIn, c.OutsideIn}
	return config
}

// anycast says that an address is the routers' of a network (RFC 4291, 2.6.1), to
// which no refusal is told.
func anycast(p *ir.Program, a netip.Addr) bool {
	return p.Family == ir.IPv6 && p.Options.Pods.Kind == ir.DetectCIDR && a == p.Options.Pods.Prefix.Addr()
}

// sendable says that a laboratory can send a packet: a new one, of nobody who is
// remembered, by an interface that is there and not from the node's own addresses.
func sendable(x eval.Packet, c eval.Clients) bool {
	odd := x.Src.Addr().IsLoopback() || x.Src.Addr().IsMulticast() || x.Dst.Addr().IsLoopback()
	if x.State != eval.New || x.Remembered.IsValid() || odd {
		return false
	}
	return x.In == "" || (x.In == c.PodIn || x.In == c.OutsideIn) && !c.Host.Local(x.Src.Addr())
}

// judgeRandom sends the proof's packets that a laboratory can send. Affinity is
// not judged: IPVS forgets nobody.
func judgeRandom(t *testing.T, l *lab.Lab, p *ir.Program, c eval.Clients) {
	spec := eval.NewProgram(p)
	var lines []Trace
	var flows []lab.Flow
	for probe := range eval.Sample(p) {
		x := probe.Packet
		if len(flows) > 2500 || len(probe.Host.Addrs) != len(c.Host.Addrs) || anycast(p, x.Src.Addr()) || !sendable(x, c) {
			continue
		}
		out, err := spec.Outcome(x, probe.Host)
		if err != nil {
			t.Fatal(err)
		}
		line := Trace{Line: len(lines) + 1, Text: probe.String()}
		for _, b := range out {
			b.Sticky = 0
			line.Want = append(line.Want, line.branch(b))
		}
		lines = append(lines, line)
		x.Src = netip.AddrPortFrom(x.Src.Addr(), uint16(1024+len(flows)))
		flows = append(flows, lab.Flow{Src: x.Src, Dst: x.Dst, Protocol: x.Protocol, In: x.In, Mark: x.Mark})
	}
	if len(flows) < 50 {
		t.Fatalf("only %d packets", len(flows))
	}
	seen, err := l.Probe(flows)
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range lines {
		if err := line.judgeSome(flows[i:i+1], seen[i:i+1]); err != nil {
			t.Errorf("%v\nwanted: %s", err, list(line.Want))
		}
	}
}
