package diff

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"svcc/ir"
	"svcc/ir/eval"
	"svcc/ir/irtest"
)

// neighbours draws two Programs, most of them of one family, some with the same
// node, some with most service ports in common.
func neighbours(t *rapid.T) (a, b *ir.Program) {
	a, b = irtest.Programs().Draw(t, "old"), irtest.Programs().Draw(t, "new")
	if a.Family != b.Family {
		return a, b
	}
	if rapid.Bool().Draw(t, "same node") {
		b.Node, b.Options = a.Node, a.Options
	}
	for _, s := range a.Services {
		if rapid.IntRange(0, 3).Draw(t, "take over") > 0 {
			adopt(b, s)
		}
	}
	return a, b
}

// adopt puts a service port into a Program in place of its namesake, unless it
// has a destination that another one has.
func adopt(p *ir.Program, s *ir.ServicePort) {
	taken := map[string]bool{}
	key := func(f ir.Frontend, proto ir.Protocol) string { return fmt.Sprint(f.Addr, f.Port, proto) }
	rest := slices.DeleteFunc(slices.Clone(p.Services), func(x *ir.ServicePort) bool { return x.PortName == s.PortName })
	for _, x := range rest {
		for _, f := range x.Frontends {
			taken[key(f, x.Protocol)] = true
		}
		taken[key(ir.Frontend{Kind: ir.NodePort, Port: x.HealthCheckNodePort}, ir.TCP)] = true
	}
	for _, f := range s.Frontends {
		if taken[key(f, s.Protocol)] {
			return
		}
	}
	if hc := (ir.Frontend{Kind: ir.NodePort, Port: s.HealthCheckNodePort}); hc.Port != 0 && taken[key(hc, ir.TCP)] {
		return
	}
	moved := *s
	moved.Origin.Line += 100 // where it is written is no difference
	p.Services = append(rest, &moved)
	slices.SortFunc(p.Services, func(x, y *ir.ServicePort) int { return x.Compare(y.PortName) })
}

func compare(t interface{ Fatal(...any) }, a, b *ir.Program) *Report {
	r, err := Compare([]*ir.Program{a}, []*ir.Program{b})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestSameIsEmpty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := irtest.Programs().Draw(t, "program")
		b := *a
		b.Services = slices.Clone(a.Services)
		b.Known++ // decides about comments only
		for i := range b.Services {
			c := *b.Services[i]
			c.Origin = ir.Origin{File: "elsewhere.yaml", Line: i}
			b.Services[i] = &c
		}
		if r := compare(t, a, &b); !r.Same() {
			t.Fatalf("%+v", r.Changes)
		}
	})
}

// mirror is a report with the sides exchanged.
func mirror(r *Report) []Change {
	kinds := map[Kind]Kind{Added: Removed, Removed: Added, Changed: Changed}
	out := slices.Clone(r.Changes)
	for i := range out {
		c := &out[i]
		c.Kind = kinds[c.Kind]
		c.Reasons = slices.Clone(c.Reasons)
		for j, x := range c.Reasons {
			x.Kind, x.Before, x.After = kinds[x.Kind], x.After, x.Before
			c.Reasons[j] = x
			if x.What == "port name" { // and so has the change itself
				c.Service = x.After + c.Service[strings.LastIndex(c.Service, "/"):]
			}
		}
		c.Flows = slices.Clone(c.Flows)
		for j := range c.Flows {
			c.Flows[j].Before, c.Flows[j].After = c.Flows[j].After, c.Flows[j].Before
		}
	}
	return inOrder(out)
}

func inOrder(list []Change) []Change {
	slices.SortFunc(list, func(a, b Change) int {
		return cmp.Or(cmp.Compare(a.Family, b.Family), cmp.Compare(a.Service, b.Service))
	})
	return list
}

func TestReverseIsMirrorImage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := neighbours(t)
		if d := gocmp.Diff(mirror(compare(t, a, b)), inOrder(compare(t, b, a).Changes)); d != "" {
			t.Fatal(d)
		}
	})
}

// Whatever packet fares differently, some change says so: that of its service
// port, or one that has a flow or a frontend at its port.
func TestEveryOutcomeIsReported(t *testing.T) {
	packets := 0
	rapid.Check(t, func(t *rapid.T) {
		a, b := neighbours(t)
		if a.Family != b.Family {
			return
		}
		r := compare(t, a, b)
		before, after := eval.NewProgram(a), eval.NewProgram(b)
		for _, p := range []*ir.Program{a, b} {
			for probe := range eval.Probes(p) {
				x, err1 := before.Outcome(probe.Packet, probe.Host)
				y, err2 := after.Outcome(probe.Packet, probe.Host)
				if err1 != nil || err2 != nil {
					t.Fatal(err1, err2)
				}
				if x.Equal(y) {
					continue
				}
				packets++
				if !slices.ContainsFunc(r.Changes, func(c Change) bool { return reports(c, probe) }) {
					t.Fatalf("%s: %s but %s is nobody's", probe, x, y)
				}
			}
		}
	})
	if packets < 1000 {
		t.Errorf("only %d packets differed", packets)
	}
}

func reports(c Change, probe eval.Probe) bool {
	if c.Packets == 0 || len(c.Flows) == 0 {
		return false
	}
	if c.Service == probe.Service {
		return true
	}
	end := fmt.Sprintf(":%d/%s", probe.Packet.Dst.Port(), probe.Packet.Protocol)
	return slices.ContainsFunc(c.Flows, func(f Flow) bool { return strings.HasSuffix(f.To, end) })
}

// A difference in what is promised is reported even if no packet shows it, and
// what differs in no way is not.
func TestStructureIsReported(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := neighbours(t)
		if a.Family != b.Family || !sameOptions(&a.Options, &b.Options) {
			return
		}
		r := compare(t, a, b)
		for _, p := range match(a.Services, b.Services) {
			differs := p.old == nil || p.new == nil || !equal(p.old, p.new)
			i := slices.IndexFunc(r.Changes, func(c Change) bool { return c.Service == p.some().PortName.String() })
			if i >= 0 && !differs && r.Changes[i].Reasons[0].What == "neighbour" && r.Changes[i].Packets > 0 {
				continue
			}
			if differs != (i >= 0) {
				t.Fatalf("%s: differs %v, reported %v", p.some().PortName, differs, i >= 0)
			}
			if i >= 0 && len(r.Changes[i].Reasons) == 0 {
				t.Fatalf("%s: no reason", p.some().PortName)
			}
		}
	})
}
