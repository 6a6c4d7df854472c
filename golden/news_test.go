package golden

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"svcc/golden/lab"
)

// judged are the lines of a case that one node judges, and what it was built of them.
type judged struct {
	built
	lines []Trace
}

// news are the forms of rules and packets that cases have shown so far. The kernel
// sees nothing else of a case: why an endpoint is one, the other tests know.
type news map[string]bool

// tell gives whether a case shows the kernel a form that no case before did.
func (n news) tell(groups []judged) (some bool) {
	for _, g := range groups {
		for _, form := range append(formsOfText(g.built), formsOfPackets(g.lines)...) {
			some = some || !n[form]
			n[form] = true
		}
	}
	return some
}

// cases gives the files of the cases that show something new, by the order of their
// names; all of them where that is asked for.
func (n news) cases(t *testing.T, groups func(c *Case) []judged) (files []string) {
	for _, file := range caseFiles(t) {
		c, err := ReadCase(file)
		if err != nil {
			t.Fatal(err)
		}
		if n.tell(groups(c)) || lab.All() {
			files = append(files, file)
		}
	}
	return files
}

// own matches what differs between two lines of one form: addresses, numbers, names
// of chains and comments.
var own = regexp.MustCompile(`(KUBE-(SVC|SVL|SEP|EXT|FW)|SVCC)-[A-Z0-9-]+|[0-9a-f]*[0-9:][0-9a-f.:/]*|"[^"]*"`)

func formsOfText(r built) (out []string) {
	for _, u := range r.Units {
		for _, s := range u.Sections {
			for line := range strings.Lines(string(s.Text)) {
				out = append(out, fmt.Sprint(s.Family, own.ReplaceAllString(line, "_")))
			}
		}
	}
	return out
}

func formsOfPackets(lines []Trace) (out []string) {
	for _, t := range lines {
		form := fmt.Sprint(t.Family(), t.From, t.Protocol, t.State, t.Mark, t.ForwardDrop, t.Via != "", len(t.Local) > 0, t.Dst.Addr().IsLoopback())
		for _, b := range t.Want {
			form += fmt.Sprint(b.Verdict, b.DNAT, b.Masquerade, b.Sticky > 0)
		}
		out = append(out, form)
	}
	return out
}

// A case that shows nothing of its own is passed by, one with a further form of rule or
// of packet is not.
func TestNews(t *testing.T) {
	c, err := ReadCase("cases/worked-example.txtar")
	if err != nil {
		t.Fatal(err)
	}
	r := compile(t, c, hooked(0))
	lines := forKernel(c.Traces)
	n := news{}
	if !n.tell([]judged{{r, lines[1:]}}) || n.tell([]judged{{r, lines[1:]}}) {
		t.Fatal("the first time is new, and the second is not")
	}
	other := slices.Clone(lines[1:])
	other[0].ForwardDrop = !other[0].ForwardDrop
	if !n.tell([]judged{{r, other}}) {
		t.Error("a packet under another policy is not new")
	}
	text := &r.Units[0].Sections[0].Text
	*text = append(*text, "-A KUBE-SERVICES -m u32 -j DROP\n"...)
	if !n.tell([]judged{{r, other}}) {
		t.Error("a rule with another match is not new")
	}
}
