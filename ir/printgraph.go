package ir

import (
	"bufio"
	"fmt"
	"io"
	"net/netip"
	"strings"
)

// Print writes the Graph as stable text: the look-up table, then each shared
// step under a number, in the order in which they are first met.
func (g *Graph) Print(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "graph %s\n", head(g.Family, g.Node))
	p := numbering{ids: map[Step]int{}, uses: map[Step]int{}}
	for _, e := range g.Entries {
		p.count(e.Next)
	}
	for i, e := range g.Entries {
		lead := "lookup"
		if i > 0 {
			lead = ""
		}
		dest := e.Destination() + "/" + e.Service.Protocol.String()
		if e.Kind == NodePort {
			dest = "node-port " + dest
		}
		if e.Scheduler != "" {
			dest += " by " + e.Scheduler
		}
		fmt.Fprintf(b, "  %-7s%-40s %s\n", lead, dest, p.ref(e.Next))
	}
	for i := 0; i < len(p.order); i++ { // ref adds to order as it meets steps
		fmt.Fprintf(b, "  #%-6d%s\n", i+1, p.text(p.order[i]))
	}
	for _, m := range g.Masquerades {
		fmt.Fprintf(b, "  masquerade to %s%s\n", m.Prefix, m.conditions())
	}
	for _, o := range g.OpenPorts {
		fmt.Fprintf(b, "  open   %d/tcp for %s\n", o.Port, o.Service)
	}
	return b.Flush()
}

func (m MasqueradeTo) conditions() string {
	s := ""
	if m.UnlessPod {
		s += " unless from pod"
	}
	if m.ExceptLow != 0 {
		s += fmt.Sprintf(" but for ports %d to %d", m.ExceptLow, m.ExceptHigh)
	}
	return s
}

// Holds says whether a delivered connection to dst is masqueraded by m.
func (m MasqueradeTo) Holds(dst netip.AddrPort, fromPod bool) bool {
	except := m.ExceptLow <= dst.Port() && dst.Port() <= m.ExceptHigh
	return m.Prefix.Contains(dst.Addr()) && !except && !(m.UnlessPod && fromPod)
}

// numbering gives numbers to the steps that stand on a line of their own:
// balances, and whatever more than one way leads to.
type numbering struct {
	ids   map[Step]int
	uses  map[Step]int
	order []Step
}

func (p *numbering) count(s Step) {
	p.uses[s]++
	if p.uses[s] > 1 {
		return
	}
	switch s := s.(type) {
	case *Guard:
		p.count(s.Then)
		p.count(s.Else)
	case *Masquerade:
		p.count(s.Next)
	}
}

// ref is how a step is written where a way leads to it.
func (p *numbering) ref(s Step) string {
	_, balance := s.(*Balance)
	_, refuse := s.(*Refuse)
	_, deliver := s.(*Deliver)
	if refuse || deliver || !balance && p.uses[s] < 2 {
		return p.text(s)
	}
	if p.ids[s] == 0 {
		p.order = append(p.order, s)
		p.ids[s] = len(p.order)
	}
	return fmt.Sprintf("#%d", p.ids[s])
}

func (p *numbering) text(s Step) string {
	switch s := s.(type) {
	case *Guard:
		return p.guard(s)
	case *Masquerade:
		if s.UnlessPod {
			return "unless from pod masquerade; " + p.ref(s.Next)
		}
		return "masquerade, " + p.ref(s.Next)
	case *Deliver:
		return "to " + s.Endpoint.String()
	case *Balance:
		return balanceText(s)
	case *Refuse:
		if s.Reason == NoEndpoints {
			return "reject (" + s.Reason.String() + ")"
		}
		return "drop (" + s.Reason.String() + ")"
	}
	return "?"
}

func (p *numbering) guard(s *Guard) string {
	then, rest := p.ref(s.Then), p.ref(s.Else)
	switch {
	case s.If.FromPod:
		return fmt.Sprintf("from pod %s; else %s", then, rest)
	case s.If.FromNode:
		return fmt.Sprintf("from node %s; else %s", then, rest)
	}
	return fmt.Sprintf("from %s %s; else %s", join(s.If.Sources), then, rest)
}

func balanceText(s *Balance) string {
	n := len(s.Endpoints)
	parts := make([]string, n)
	for i, e := range s.Endpoints {
		parts[i] = fmt.Sprintf("1/%d %s", n, e)
	}
	t := "balance " + strings.Join(parts, ", ")
	if s.AffinitySeconds > 0 {
		t += fmt.Sprintf(" sticky %d s", s.AffinitySeconds)
	}
	return t
}
