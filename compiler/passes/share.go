package passes

import (
	"fmt"
	"strings"

	"svcc/ir"
)

// share makes equal steps one: service ports, frontends and policies that lead
// to the same endpoints then lead to the same step, which keeps the label of
// the first. Steps with affinity stay apart, each port has a memory of its own;
// so do steps of different protocols.
func share(g *ir.Graph) {
	known := map[string]ir.Step{}
	ids := map[ir.Step]int{}
	for _, e := range g.Entries {
		e.Next = (&sharing{known: known, ids: ids, proto: e.Service.Protocol}).visit(e.Next)
	}
}

type sharing struct {
	known map[string]ir.Step
	ids   map[ir.Step]int // of the steps in known
	proto ir.Protocol
}

func (s *sharing) visit(step ir.Step) ir.Step {
	if s.ids[step] != 0 {
		return step
	}
	switch x := step.(type) {
	case *ir.Guard:
		x.Then, x.Else = s.visit(x.Then), s.visit(x.Else)
	case *ir.Masquerade:
		x.Next = s.visit(x.Next)
	}
	k := s.key(step)
	if first, ok := s.known[k]; ok {
		return first
	}
	s.known[k] = step
	s.ids[step] = len(s.known)
	return step
}

// key is equal for steps that treat every packet alike.
func (s *sharing) key(step ir.Step) string {
	switch x := step.(type) {
	case *ir.Guard:
		// Backends ask the questions of a part in a chain of its own.
		return fmt.Sprintf("guard %v %v %d %d", x.Label.Part == ir.PartNone, x.If, s.ids[x.Then], s.ids[x.Else])
	case *ir.Masquerade:
		return fmt.Sprintf("masquerade %v %d", x.UnlessPod, s.ids[x.Next])
	case *ir.Deliver:
		return fmt.Sprintf("deliver %s %s", s.proto, x.Endpoint)
	case *ir.Balance:
		if x.AffinitySeconds > 0 {
			return fmt.Sprintf("balance %v", x.Label)
		}
		return balanceKey(s.proto, x.Endpoints)
	case *ir.Refuse:
		return fmt.Sprintf("refuse %d", x.Reason)
	}
	panic(fmt.Sprintf("share: a step of type %T", step))
}

func balanceKey(p ir.Protocol, list []ir.Endpoint) string {
	var b strings.Builder
	b.WriteString("balance ")
	b.WriteString(p.String())
	for _, e := range list {
		b.WriteByte(' ')
		b.WriteString(e.String())
	}
	return b.String()
}
