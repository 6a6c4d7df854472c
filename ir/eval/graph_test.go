package eval_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"svcc/compiler/lower"
	"svcc/ir"
	"svcc/ir/eval"
	"svcc/ir/irtest"
)

// A Graph means what the Program means that it was lowered from.
func TestGraphMeansTheProgram(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := irtest.Programs().Draw(t, "program")
		g := lower.Lower(p)
		if err := g.Check(); err != nil {
			t.Fatal(err)
		}
		spec, graph := eval.NewProgram(p), eval.NewGraph(g)
		for probe := range eval.Probes(p) {
			want, err := spec.Outcome(probe.Packet, probe.Host)
			if err != nil {
				t.Fatal(err)
			}
			got, err := graph.Outcome(probe.Packet, probe.Host)
			if err != nil {
				t.Fatal(err)
			}
			if !got.Equal(want) {
				t.Fatalf("%s\nprogram: %s\ngraph:   %s", probe, want, got)
			}
		}
	})
}

// Shares of every outcome add up to 1.
func TestSharesAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := irtest.Programs().Draw(t, "program")
		spec := eval.NewProgram(p)
		for probe := range eval.Probes(p) {
			o, err := spec.Outcome(probe.Packet, probe.Host)
			if err != nil {
				t.Fatal(err)
			}
			var sum eval.Share
			for _, b := range o {
				if sum, err = sum.Add(b.Share); err != nil {
					t.Fatal(err)
				}
			}
			if sum != eval.Whole {
				t.Fatalf("%s: shares add up to %s", probe, sum)
			}
		}
	})
}

// A step that the evaluator does not know is an error, not an outcome.
func TestUnknownStep(t *testing.T) {
	g := lower.Lower(irtest.Shop())
	g.Entries[0].Next = nil
	e := eval.NewGraph(g)
	for probe := range eval.Probes(irtest.Shop()) {
		if probe.Packet.Dst.String() != "10.96.0.20:443" || probe.Packet.Protocol != ir.TCP || probe.Packet.State != eval.New {
			continue
		}
		if _, err := e.Outcome(probe.Packet, probe.Host); err == nil || !strings.Contains(err.Error(), "no meaning") {
			t.Errorf("%s: error %v", probe, err)
		}
		return
	}
	t.Error("no probe of the entry")
}

// The probes of one Program are the same each time, stop when asked to, and
// aim at every frontend from a pod, the node and outside.
func TestProbes(t *testing.T) {
	p := irtest.Shop()
	c := eval.NewClients(p)
	met := map[string]bool{}
	var all []eval.Probe
	for probe := range eval.Probes(p) {
		all = append(all, probe)
		from := ""
		switch probe.Packet.Src.Addr() {
		case c.Pod:
			from = "pod"
		case c.Node:
			from = "node"
		case c.Outside:
			from = "outside"
		}
		if probe.Packet.State == eval.New && probe.Packet.Protocol == ir.TCP {
			met[from+" "+probe.Packet.Dst.String()] = true
		}
	}
	for _, dst := range []string{"10.96.0.20:443", "203.0.113.20:443", "192.0.2.10:30443", "127.0.0.1:30443", "192.0.2.10:31555"} {
		for _, from := range []string{"pod", "node", "outside"} {
			if !met[from+" "+dst] {
				t.Errorf("nothing from %s to %s", from, dst)
			}
		}
	}
	i := 0
	for probe := range eval.Probes(p) {
		if probe.String() != all[i].String() {
			t.Fatalf("probe %d: %s, before it was %s", i, probe, all[i])
		}
		i++
	}
	for n := 1; n < len(all); n += 7 {
		seen := 0
		for range eval.Probes(p) {
			if seen++; seen == n {
				break
			}
		}
	}
}

// Clients are no frontend, no endpoint and not each other.
func TestClients(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := irtest.Programs().Draw(t, "program")
		c := eval.NewClients(p)
		used := map[string]bool{}
		for _, s := range p.Services {
			for _, f := range s.Frontends {
				used[f.Addr.String()] = true
			}
			for _, e := range s.Reachable() {
				used[e.Addr.String()] = true
			}
		}
		for name, a := range map[string]string{"pod": c.Pod.String(), "outside": c.Outside.String(), "nowhere": c.Nowhere.String()} {
			if used[a] || a == c.Node.String() {
				t.Errorf("%s %s is somebody else's address", name, a)
			}
		}
		if c.Pod == c.Outside || c.Pod == c.Nowhere || c.Outside == c.Nowhere || !c.Host.Local(c.Node) {
			t.Errorf("clients %+v", c)
		}
		if pods := p.Options.Pods; pods.Kind != ir.DetectNone && (!pods.Match(c.Pod, c.PodIn) || pods.Match(c.Outside, c.OutsideIn) || pods.Match(c.Node, "")) {
			t.Errorf("pods are not told from others: %+v", c)
		}
	})
}
