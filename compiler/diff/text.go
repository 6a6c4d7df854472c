package diff

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"svcc/ir/diag"

	"github.com/fatih/color"
)

// manyLines is how many reasons, or flows, a text has of one service port.
const manyLines = 12

// Text writes the report for people, with colours if asked.
func (r *Report) Text(w io.Writer, colour bool) error {
	b := bufio.NewWriter(w)
	p := painter{colour}
	for i := range r.Changes {
		p.change(b, &r.Changes[i])
	}
	for _, c := range r.Rules {
		if len(c.Diff) == 0 {
			k := chainKey{c.Family, c.Table, c.Chain}
			fmt.Fprintf(b, "%s %s\n", clean(k.path()), p.kind(c.Kind, string(c.Kind)))
			continue
		}
		fmt.Fprintln(b)
		for _, line := range c.Diff {
			fmt.Fprintln(b, p.diffLine(clean(line)))
		}
	}
	for _, line := range r.notCompared() {
		fmt.Fprintln(b, clean(line))
	}
	fmt.Fprintln(b, r.Summary())
	return b.Flush()
}

// Summary is one line: how many service ports change, and how, and how many Services
// could not be compared.
func (r *Report) Summary() string {
	n := map[Kind]int{}
	node := ""
	for _, c := range r.Changes {
		if c.Service == "" {
			node = ", and what holds for the whole node"
			continue
		}
		n[c.Kind]++
	}
	switch total := n[Added] + n[Removed] + n[Changed]; {
	case r.Nothing():
		return "nothing could be compared" + r.remark()
	case len(r.Changes) == 0 && len(r.Rules) > 0:
		return fmt.Sprintf("the rules of %s differ, their meaning does not", diag.Count(len(r.Rules), "chain")) + r.remark()
	case len(r.Changes) == 0 && r.uncompared() > 0:
		return "no difference in what could be compared" + r.remark()
	case len(r.Changes) == 0:
		return "nothing differs"
	default:
		return fmt.Sprintf("%s: %d added, %d removed, %d changed%s", diag.Count(total, "service port"), n[Added], n[Removed], n[Changed], node) + r.remark()
	}
}

// title names what changes: "ipv4 demo/web:http/tcp".
func (c *Change) title() string {
	if c.Service == "" {
		return c.Family + " the node"
	}
	return c.Family + " " + c.Service
}

// String tells a reason in a few words.
func (r Reason) String() string {
	s := r.What
	if r.Subject != "" {
		s += " " + r.Subject
	}
	state := r.Before + r.After // of what is added or removed, one is empty
	switch {
	case r.Kind == Changed && r.Before == "" && r.After == "":
		return s + " changed"
	case r.Kind == Changed:
		return fmt.Sprintf("%s: %s -> %s", s, r.Before, r.After)
	case state == "" || state == present:
		return fmt.Sprintf("%s %s", s, r.Kind)
	}
	return fmt.Sprintf("%s %s (%s)", s, r.Kind, state)
}

// clean keeps control characters of an input from the output.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r >= 0x2028 && r <= 0x202e {
			return ' '
		}
		return r
	}, s)
}

// painter colours or leaves alone.
type painter struct{ on bool }

func (p painter) paint(s string, as ...color.Attribute) string {
	if !p.on {
		return s
	}
	c := color.New(as...)
	c.EnableColor()
	return c.Sprint(s)
}

func (p painter) kind(k Kind, s string) string {
	switch k {
	case Added:
		return p.paint(s, color.FgGreen)
	case Removed:
		return p.paint(s, color.FgRed)
	}
	return p.paint(s, color.FgYellow)
}

func (p painter) diffLine(s string) string {
	switch {
	case strings.HasPrefix(s, "---"), strings.HasPrefix(s, "+++"):
		return p.paint(s, color.Bold)
	case strings.HasPrefix(s, "@@"):
		return p.paint(s, color.FgCyan)
	case strings.HasPrefix(s, "-"):
		return p.paint(s, color.FgRed)
	case strings.HasPrefix(s, "+"):
		return p.paint(s, color.FgGreen)
	}
	return s
}

func (p painter) change(w io.Writer, c *Change) {
	fmt.Fprintf(w, "%s %s\n", p.paint(clean(c.title()), color.Bold), p.kind(c.Kind, string(c.Kind)))
	for _, x := range c.Reasons[:min(len(c.Reasons), manyLines)] {
		fmt.Fprintf(w, "  %s\n", p.kind(x.Kind, clean(x.String())))
	}
	more(w, len(c.Reasons), "reason")
	for _, f := range c.Flows[:min(len(c.Flows), manyLines)] {
		fmt.Fprintf(w, "  %s -> %s\n", clean(some(f.From, 4)), clean(f.To))
		fmt.Fprintf(w, "    before  %s\n    after   %s\n", p.kind(Removed, clean(f.Before.Text)), p.kind(Added, clean(f.After.Text)))
	}
	more(w, len(c.Flows), "flow")
}

func more(w io.Writer, n int, what string) {
	if n > manyLines {
		fmt.Fprintf(w, "  and %s\n", diag.Count(n-manyLines, "more "+what))
	}
}

// Document is the report for programs, as encoding/json prints it.
func (r *Report) Document() any {
	return struct {
		Same bool `json:"same"`
		*Report
	}{r.Same() && r.uncompared() == 0, r}
}
