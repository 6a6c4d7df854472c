package diff

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"svcc/ir/diag"
)

// Marker is the first line of the Markdown form: by it a pull request's comment
// can be found again and replaced.
const Marker = "<!-- svcc diff -->"

// A comment may have 65536 characters; what would not fit is left out, and said.
const (
	maxMarkdown = 60000
	maxTable    = 20000
)

// Markdown writes the report as a comment for a pull request: a table of what
// changes and why, and below it, to be unfolded, flows and rules.
func (r *Report) Markdown(w io.Writer) error {
	m := markdown{}
	m.add(Marker + "\n### svcc diff: " + r.Summary() + "\n")
	if lines := append(r.notCompared(), r.SideLines()...); len(lines) > 0 {
		m.add("\n" + escaped(lines))
	}
	if len(r.Changes) > 0 {
		m.table(r.Changes)
	}
	for i := range r.Changes {
		m.flows(&r.Changes[i])
	}
	if slices.ContainsFunc(r.Rules, func(c Chain) bool { return len(c.Diff) > 0 }) {
		m.rules(r.Rules)
	}
	if m.left > 0 {
		fmt.Fprintf(&m, "\n%s left out: the text or JSON form has everything.\n", diag.Count(m.left, "part"))
	}
	_, err := io.WriteString(w, m.String())
	return err
}

// markdown is a text that may not grow too long.
type markdown struct {
	strings.Builder
	left int // parts that did not fit
}

// add writes a part if it fits.
func (m *markdown) add(part string) {
	if m.Len()+len(part) > maxMarkdown {
		m.left++
		return
	}
	m.WriteString(part)
}

func (m *markdown) table(list []Change) {
	m.add("\n| | service | change | why |\n|---|---|---|---|\n")
	for i := range list {
		c := &list[i]
		name := c.Service
		if name == "" {
			name = "the node"
		}
		var why []string
		for _, x := range c.Reasons {
			why = append(why, escape(x.String()))
		}
		row := fmt.Sprintf("| %s | %s | %s | %s |\n", c.Family, escape(name), c.Kind, some(why, 3))
		if m.Len()+len(row) > maxTable {
			m.left += len(list) - i
			return
		}
		m.add(row)
	}
}

// flows is one service port's table of flows.
func (m *markdown) flows(c *Change) {
	if len(c.Flows) == 0 {
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n<details><summary>%s: %s</summary>\n\n| from | to | before | after |\n|---|---|---|---|\n", escape(c.title()), diag.Count(len(c.Flows), "flow"))
	for _, f := range c.Flows[:min(len(c.Flows), manyLines)] {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", escape(some(f.From, 4)), escape(f.To), escape(f.Before.Text), escape(f.After.Text))
	}
	if n := len(c.Flows) - manyLines; n > 0 {
		fmt.Fprintf(&b, "| and %d more | | | |\n", n)
	}
	b.WriteString("\n</details>\n")
	m.add(b.String())
}

// rules are the diffs of chains in one fence, as many as fit.
func (m *markdown) rules(list []Chain) {
	const head, foot = "\n<details><summary>Rules of %s</summary>\n\n%sdiff\n", "%s\n\n</details>\n"
	fence := fenceFor(list)
	room := maxMarkdown - m.Len() - len(head) - 2*len(fence) - len(foot) - 200
	var b strings.Builder
	for i, c := range list {
		part := joined(c.Diff)
		if b.Len()+len(part) > room {
			m.left += len(list) - i
			break
		}
		b.WriteString(part)
	}
	if b.Len() > 0 {
		m.add(fmt.Sprintf(head, diag.Count(len(list), "chain"), fence) + b.String() + fmt.Sprintf(foot, fence))
	}
}

func joined(lines []string) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(clean(l) + "\n")
	}
	return b.String()
}

// fenceFor is longer than any run of backquotes in the lines, so that none of
// them ends it.
func fenceFor(list []Chain) string {
	longest := 2
	for _, c := range list {
		for _, l := range c.Diff {
			run := 0
			for _, r := range l {
				if run++; r != '`' {
					run = 0
				}
				longest = max(longest, run)
			}
		}
	}
	return strings.Repeat("`", longest+1)
}

// escape makes text mean itself in a cell of a table.
func escape(s string) string {
	s = strings.ReplaceAll(clean(s), " -> ", " → ")
	var b strings.Builder
	for _, r := range s {
		if strings.ContainsRune("\\`*_{}[]<>|#@!~&$", r) {
			fmt.Fprintf(&b, "&#%d;", r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}
