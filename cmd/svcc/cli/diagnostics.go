package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/fatih/color"
	"github.com/spf13/pflag"

	"svcc/compiler"
	"svcc/ir/diag"
)

// diagnosticFlags say how much is shown, and how.
type diagnosticFlags struct {
	quiet, verbose bool
	color          string
}

func (d *diagnosticFlags) register(f *pflag.FlagSet) {
	f.BoolVarP(&d.quiet, "quiet", "q", false, "show errors only")
	f.BoolVarP(&d.verbose, "verbose", "v", false, "show notes, and what each stage cost")
	d.color = "auto"
	f.Var((*when)(&d.color), "color", "auto, always, never")
}

// when is the value of --color.
type when string

func (w *when) String() string { return string(*w) }

// Set implements pflag.Value.
func (w *when) Set(s string) error {
	if s != "auto" && s != "always" && s != "never" {
		return errors.New("it is none of auto, always, never")
	}
	*w = when(s)
	return nil
}

// Type implements pflag.Value.
func (w *when) Type() string { return "when" }

// terminal says whether to colour and to show source lines.
func (d *diagnosticFlags) terminal(w io.Writer) bool {
	switch d.color {
	case "always":
		return true
	case "never":
		return false
	}
	if x, ok := w.(*watched); ok {
		w = x.Writer
	}
	f, ok := w.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" {
		return false
	}
	i, err := f.Stat()
	return err == nil && i.Mode()&os.ModeCharDevice != 0
}

// show writes the findings: one line each, related places and a hint below.
func (d *diagnosticFlags) show(w io.Writer, list diag.List) {
	terminal := d.terminal(w)
	least := diag.Warning
	if d.quiet {
		least = diag.Error
	}
	if d.verbose {
		least = diag.Note
	}
	hidden := 0
	for _, x := range list {
		if x.Severity < least {
			if x.Severity == diag.Note {
				hidden++
			}
			continue
		}
		showOne(w, x, terminal)
	}
	if hidden > 0 && !d.quiet {
		fmt.Fprintf(w, "svcc: %s (-v shows them)\n", diag.Count(hidden, "note"))
	}
}

func showOne(w io.Writer, x diag.Diagnostic, terminal bool) {
	line := x.String()
	if terminal {
		line = paint(x)
	}
	fmt.Fprintln(w, line)
	if terminal {
		excerpt(w, x.Pos)
	}
	for _, r := range x.Related {
		fmt.Fprintf(w, "    %s: %s\n", r.Pos, r.Message)
	}
	if x.Hint != "" {
		fmt.Fprintf(w, "    hint: %s\n", x.Hint)
	}
}

func paint(x diag.Diagnostic) string {
	c := map[diag.Severity]*color.Color{
		diag.Error:   color.New(color.FgRed, color.Bold),
		diag.Warning: color.New(color.FgYellow, color.Bold),
		diag.Note:    color.New(color.FgCyan),
	}[x.Severity]
	c.EnableColor()
	return fmt.Sprintf("%s: %s %s [%s]", x.Place(), c.Sprint(x.Severity.String()+":"), x.Text(), x.Code)
}

// excerpt shows the source line with a caret, if it can be read again.
func excerpt(w io.Writer, p diag.Pos) {
	f, err := os.Open(p.File)
	if err != nil || p.Line == 0 {
		return
	}
	defer f.Close()
	if i, err := f.Stat(); err != nil || !i.Mode().IsRegular() {
		return
	}
	s := bufio.NewScanner(f)
	for n := 1; s.Scan(); n++ {
		if n < p.Line {
			continue
		}
		text := strings.Map(printable, s.Text())
		fmt.Fprintf(w, "    %s\n", text)
		if p.Col > 0 && p.Col <= len(text)+1 {
			fmt.Fprintf(w, "    %s^\n", strings.Repeat(" ", p.Col-1))
		}
		return
	}
}

// printable keeps control characters of the input from the terminal.
func printable(r rune) rune {
	if r == '\t' || r < ' ' || r == 0x7f {
		return ' '
	}
	return r
}

// stages tells what each stage cost, with -v.
func (d *diagnosticFlags) stages(w io.Writer, r *compiler.Result) {
	if !d.verbose {
		return
	}
	for _, s := range r.Stages {
		fmt.Fprintf(w, "svcc: %-9s %8s wall %8s cpu\n", s.Name, s.Wall.Round(time.Millisecond/10), s.CPU.Round(time.Millisecond/10))
	}
}

// failure is the exit code for findings with an error among them.
func failure(list diag.List) int {
	for _, d := range list.Errors() {
		if s := d.Code.Stage(); s == diag.StageReading || s == diag.StageNode {
			return exitUsage
		}
	}
	return exitFindings
}

// closing is the last line of a command that compiles: what was compiled and what was
// not. -q leaves it out, as it does notes and warnings.
func (d *diagnosticFlags) closing(w io.Writer, r *compiler.Result, more string) {
	if !d.quiet {
		fmt.Fprintf(w, "svcc: %s%s\n", r.Summary, more)
	}
}

// tally counts findings: "2 errors, 1 warning".
func tally(list diag.List) string {
	n := map[diag.Severity]int{}
	for _, d := range list {
		n[d.Severity]++
	}
	var out []string
	for _, s := range []diag.Severity{diag.Error, diag.Warning} {
		if n[s] > 0 {
			out = append(out, diag.Count(n[s], s.String()))
		}
	}
	return strings.Join(out, ", ")
}
