package golden

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"svcc/cmd/svcc/cli"
	"svcc/compiler"
	"svcc/ir/eval"
)

var update = flag.Bool("update", false, "write the cases' diagnostics, ir and iptables sections anew")

// built is what a case compiles to, and where.
type built struct {
	*compiler.Result
	dir string
}

// eachFile runs f, in parallel, for each case.
func eachFile(t *testing.T, f func(t *testing.T, c *Case)) { eachOf(t, caseFiles(t), f) }

func caseFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("cases/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	return files
}

func eachOf(t *testing.T, files []string, f func(t *testing.T, c *Case)) {
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			c, err := ReadCase(file)
			if err != nil {
				t.Fatal(err)
			}
			f(t, c)
		})
	}
}

// eachCase runs f for each case and what it compiles to by its flags and what edit
// makes of them.
func eachCase(t *testing.T, edit func(*compiler.Options), f func(t *testing.T, c *Case, r built)) {
	eachFile(t, func(t *testing.T, c *Case) { f(t, c, compile(t, c, edit)) })
}

// compile builds a case. Errors in its manifests are the result's diagnostics.
func compile(t *testing.T, c *Case, edit func(*compiler.Options)) built {
	t.Helper()
	dir := t.TempDir()
	if err := c.Unpack(dir); err != nil {
		t.Fatal(err)
	}
	opts, err := cli.BuildOptions(append(slices.Clone(c.Flags), c.Inputs()...), dir)
	if err != nil {
		t.Fatalf("flags: %v", err)
	}
	edit(&opts)
	r, err := compiler.Compile(opts, nil)
	if err != nil {
		t.Fatalf("compile: %v", err)
	}
	return built{r, dir}
}

func likeKubeProxy(o *compiler.Options) { o.Level = 0 }

func TestGolden(t *testing.T) {
	eachCase(t, likeKubeProxy, func(t *testing.T, c *Case, r built) {
		if len(c.Traces) == 0 && len(r.Diagnostics) == 0 {
			t.Error("a case without trace lines must show a diagnostic")
		}
		views(t, c, view{secDiagnostics, diagnostics(r)}, view{secIR, irText(t, r)}, view{secIPTables, rulesText(r)})
		judgeAll(t, c, r)
	})
}

func judgeAll(t *testing.T, c *Case, r built) {
	for _, line := range c.Traces {
		if err := judge(line, r); err != nil {
			t.Error(err)
		}
	}
}

// view is a section that a build writes.
type view struct{ section, text string }

// views compares what a build writes, or with -update writes it. All but
// diagnostics are views of the cases that have the section.
func views(t *testing.T, c *Case, all ...view) {
	for _, v := range all {
		switch {
		case v.section != secDiagnostics && !c.Has(v.section):
		case *update:
			c.Set(v.section, v.text)
		default:
			if d := cmp.Diff(strings.Split(c.section(v.section), "\n"), strings.Split(v.text, "\n")); d != "" {
				t.Errorf("%s (-want +got; -update accepts it):\n%s", v.section, d)
			}
		}
	}
	if *update {
		if err := c.Write(); err != nil {
			t.Error(err)
		}
	}
}

func diagnostics(r built) string {
	var s strings.Builder
	for _, d := range r.Diagnostics {
		fmt.Fprintln(&s, d)
		for _, at := range d.Related {
			fmt.Fprintf(&s, "\t%s: %s\n", at.Pos, at.Message)
		}
		if d.Hint != "" {
			fmt.Fprintf(&s, "\thint: %s\n", d.Hint)
		}
	}
	return strings.ReplaceAll(s.String(), r.dir+"/", "")
}

func irText(t *testing.T, r built) string {
	var s bytes.Buffer
	for _, u := range r.Units {
		if err := errors.Join(u.Program.Print(&s, false), u.Graph.Print(&s)); err != nil {
			t.Error(err)
		}
	}
	return s.String()
}

func rulesText(r built) string {
	var s bytes.Buffer
	for _, u := range r.Units {
		for _, section := range u.Sections {
			if len(r.Units) > 1 {
				fmt.Fprintf(&s, "# %s\n", section.Family)
			}
			s.Write(section.Text)
		}
	}
	return s.String()
}

// judge has a trace line judged by all but the kernel. A line with affinity is
// judged for clients that are remembered, too.
func judge(t Trace, r built) error {
	i := slices.IndexFunc(r.Units, func(u compiler.Unit) bool { return u.Family == t.Family() })
	if i < 0 {
		return fmt.Errorf("line %d: %s\n  nothing was compiled for %s", t.Line, t.Text, t.Family())
	}
	u := r.Units[i]
	w := WorldOf(u.Program)
	packets, lines := t.Recall(w.Packet(t))
	packets, lines = append(packets, w.Packet(t)), append(lines, t)
	var errs []error
	for _, by := range []struct {
		name    string
		outcome func(eval.Packet, eval.Host) (eval.Outcome, error)
	}{
		{"Program", eval.NewProgram(u.Program).Outcome},
		{"Graph", eval.NewGraph(u.Graph).Outcome},
		{"the emitted text", u.Walker.Walk},
	} {
		for i, p := range packets {
			o, err := by.outcome(p, w.Host(t))
			if err == nil {
				err = lines[i].Judge(by.name, o)
			}
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// The harness fails on a wrong expectation: every line of every case, given
// the result of another, is refused by all three judges.
func TestWrongExpectationsFail(t *testing.T) {
	eachCase(t, likeKubeProxy, func(t *testing.T, c *Case, r built) {
		for _, line := range c.Traces {
			for _, wrong := range c.Traces {
				if line.Family() != wrong.Family() || sameResult(line, wrong) {
					continue
				}
				line.Want = wrong.Want
				if err := judge(line, r); err == nil || strings.Count(err.Error(), " says ") < 3 {
					t.Errorf("%s\n  with the result of %s: %v", line.Text, wrong.Text, err)
				}
				break
			}
		}
	})
}

// sameResult says whether lines want the same; "pass" names a line's own
// destination.
func sameResult(a, b Trace) bool { return slices.Equal(a.Want, b.Want) }
