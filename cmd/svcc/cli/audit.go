package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"svcc/compiler/proof"
	"svcc/emit"
	"svcc/ir"
	"svcc/ir/diag"
	"svcc/ir/eval"
)

// audit is what verify has to say of a node's rules beside the services that
// differ: what is no difference, what an old kube-proxy does, and who is before it.
type audit struct {
	program   *ir.Program
	rules     emit.Auditor // nil if the rules are no node's
	age       emit.Age
	explainer *proof.Explainer
	shown     map[string]bool // services of which a difference was shown
	// packets that differ and are no difference
	markLeft, undelivered int

	reasons map[string]*reason
}

// reason is an explanation and what it explains.
type reason struct {
	packets  int
	services map[string]bool
}

func newAudit(p *ir.Program, walker emit.Walker, r *rules) *audit {
	a := &audit{program: p, shown: map[string]bool{}, reasons: map[string]*reason{}}
	if rules, ok := walker.(emit.Auditor); ok {
		a.rules, a.age = rules, rules.Age()
		a.explainer = proof.NewExplainer(p, a.age)
	}
	return a
}

// passes says that a difference is none of any service.
func (a *audit) passes(d *proof.Difference) bool {
	switch {
	case a.rules == nil:
		return false
	case d.MarkLeft(a.program.Options.MasqueradeMark):
		a.markLeft++
	case a.explainer.Undelivered(d):
		a.undelivered++
	default:
		return false
	}
	return true
}

// worthShowing says that a difference is a service's first, or the first of those
// that one sentence explains.
func (a *audit) worthShowing(d *proof.Difference) bool {
	if why := a.explain(d); why != nil {
		return why.packets == 1
	}
	first := !a.shown[d.Probe.Name()]
	a.shown[d.Probe.Name()] = true
	return first
}

// explain counts a difference that an old kube-proxy explains; nil for any other.
func (a *audit) explain(d *proof.Difference) *reason {
	if a.rules == nil {
		return nil
	}
	why := a.explainer.Explain(d)
	if why == "" {
		return nil
	}
	r := a.reasons[why]
	if r == nil {
		r = &reason{services: map[string]bool{}}
		a.reasons[why] = r
	}
	r.packets++
	if name := d.Probe.Name(); name != "" {
		r.services[name] = true
	}
	return r
}

// print tells it all, most of it as notes.
func (a *audit) print(w io.Writer) {
	if a.rules == nil {
		return
	}
	note := func(format string, args ...any) {
		fmt.Fprintf(w, "%s: note: %s\n", a.program.Family, diag.PlainLine(fmt.Sprintf(format, args...)))
	}
	if a.age.Before != 0 {
		note("the rules are of a kube-proxy %s (%s)", between(a.age), a.age.Signs)
	}
	for _, s := range a.rules.Remarks() {
		note("%s", s)
	}
	if a.markLeft > 0 {
		note("masqueraded packets keep mark %#x (%d of the packets tried), as under kube-proxy up to 1.18: where they are sent on in a tunnel, the tunnel's packets may be masqueraded too",
			a.program.Options.MasqueradeMark, a.markLeft)
	}
	if a.undelivered > 0 {
		note("node ports are answered at ::1 too, as under kube-proxy before 1.26: the kernel lets none of that leave the node")
	}
	for _, c := range a.captures() {
		note("another program's rule %s packets for %s before kube-proxy's rules see them: %s", c.verb(), c.services(), c.Rule)
	}
	for _, why := range slices.Sorted(maps.Keys(a.reasons)) {
		r := a.reasons[why]
		fmt.Fprintf(w, "%s: %s (%s%s)\n", a.program.Family, why, packets(r.packets), of(r.services))
	}
}

func packets(n int) string {
	if n == 1 {
		return "1 packet"
	}
	return fmt.Sprintf("%d packets", n)
}

func between(age emit.Age) string {
	if age.From == 0 {
		return fmt.Sprintf("before 1.%d", age.Before)
	}
	if age.Before == age.From+1 {
		return fmt.Sprintf("1.%d", age.From)
	}
	return fmt.Sprintf("from 1.%d to 1.%d", age.From, age.Before-1)
}

// of names a few services.
func of(services map[string]bool) string {
	if len(services) == 0 {
		return ""
	}
	const few = 5
	names := slices.Sorted(maps.Keys(services))
	if n := len(names); n > few {
		names = append(names[:few:few], fmt.Sprintf("and %d more", n-few))
	}
	return " of " + strings.Join(names, ", ")
}

// captured is another program's rule and what it takes away.
type captured struct {
	emit.Capture
	first string // where to, of the first
	ports map[string]bool
}

func (c *captured) verb() string {
	if c.Sure {
		return "takes"
	}
	return "may take"
}

func (c *captured) services() string {
	return strings.TrimPrefix(of(c.ports), " of ") + " (" + c.first + ")"
}

// captures are the rules that packets for frontends meet before ours, from a pod,
// the node and outside.
func (a *audit) captures() (out []*captured) {
	byRule := map[string]*captured{}
	clients := eval.NewClients(a.program)
	for _, s := range a.program.Services {
		for _, f := range s.Frontends {
			p := clients.To(f, s.Protocol)
			for _, from := range sendersTo(a.program, clients) {
				p.Src, p.In = from.src, from.in
				c, ok := a.rules.Captured(p, clients.Host)
				if !ok {
					continue
				}
				known := byRule[c.Rule]
				if known == nil {
					known = &captured{Capture: c, first: fmt.Sprintf("%s/%s", p.Dst, p.Protocol), ports: map[string]bool{}}
					byRule[c.Rule] = known
					out = append(out, known)
				}
				known.ports[s.PortName.String()] = true
			}
		}
	}
	return out
}
