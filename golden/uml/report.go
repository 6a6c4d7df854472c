package uml

import (
	"slices"
	"strings"
	"testing"
)

// outcome is a test that ran inside, and its subtests.
type outcome struct {
	name    string // below its parent
	verdict string // PASS, FAIL, SKIP, or "" if it did not end
	output  strings.Builder
	subs    []*outcome
}

// mark precedes what the testing package itself says, with -test.v=test2json.
const mark = '\x16'

// parsed is what a test binary wrote.
type parsed struct {
	root    outcome // its subs are the tests
	names   map[string]*outcome
	current *outcome // to which output belongs; the root for what is nobody's
	last    string   // the test that spoke last
}

// parse reads the output of a test binary.
func parse(output string) *parsed {
	p := &parsed{names: map[string]*outcome{}}
	p.current = &p.root
	for line := range strings.Lines(output) {
		before, after, ok := strings.Cut(line, string(mark))
		if before != "" {
			p.current.output.WriteString(before)
		}
		if ok && !p.event(after) {
			p.current.output.WriteString(after)
		}
	}
	return p
}

// event reads a line of the testing package's own, like "=== RUN   TestA/b"
// and "    --- PASS: TestA/b (0.00s)".
func (p *parsed) event(line string) bool {
	words := strings.Fields(line)
	if len(words) == 2 && words[1] == "NAME" { // no test's
		p.current = &p.root
		return true
	}
	if len(words) < 3 {
		return false
	}
	switch words[0] {
	case "===":
		p.current, p.last = p.test(words[2]), words[2]
	case "---":
		p.current = p.test(words[2])
		p.current.verdict = strings.TrimSuffix(words[1], ":")
	default:
		return false
	}
	return true
}

// test gives the test of a name, below the nearest test whose name it
// continues: a subtest's own name may have slashes.
func (p *parsed) test(name string) *outcome {
	if o := p.names[name]; o != nil {
		return o
	}
	parent, o := &p.root, &outcome{name: name}
	for i, c := range name {
		if above := p.names[name[:i]]; c == '/' && above != nil {
			parent, o.name = above, name[i+1:]
		}
	}
	parent.subs = append(parent.subs, o)
	p.names[name] = o
	return o
}

// failed says whether the test or one of its subtests did not pass.
func (o *outcome) failed() bool {
	return o.verdict == "FAIL" || o.verdict == "" || slices.ContainsFunc(o.subs, (*outcome).failed)
}

// report has a test end as its double inside did.
func (o *outcome) report(t *testing.T) {
	t.Helper()
	for _, sub := range o.subs {
		t.Run(sub.name, sub.report)
	}
	if s := strings.TrimRight(o.output.String(), "\n"); s != "" {
		t.Logf("inside:\n%s", s)
	}
	switch o.verdict {
	case "PASS":
	case "SKIP":
		t.SkipNow()
	case "FAIL":
		t.Fail()
	default:
		t.Error("it did not end")
	}
}

// lastWords are a few of the last lines that a test binary wrote, or a panic's
// first: goroutines follow it.
func lastWords(output string) string {
	at := strings.Index("\n"+output, "\npanic: ")
	if at < 0 {
		return tail(output, 40)
	}
	lines := strings.SplitN(output[at:], "\n", 41)
	return strings.Join(lines[:min(40, len(lines))], "\n")
}

// tail is the last lines of a text.
func tail(text string, lines int) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// quoted marks the lines of a text, so that nobody takes one for go test's own.
func quoted(text string) string { return "| " + strings.ReplaceAll(text, "\n", "\n| ") }
