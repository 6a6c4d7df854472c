package golden

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"svcc/emit"
	"svcc/golden/lab"
	"svcc/golden/uml"
	"svcc/ir"
	"svcc/ir/eval"
)

func TestMain(m *testing.M) { uml.Main(m) }

// The kernel tests of IPVS mode have trace lines judged by real packets, in User Mode
// Linux, after every section has been loaded by the tool that it names: those of each
// case that shows the kernel something new, to which levels share most.
func TestKernelVirtualO0(t *testing.T) { virtualInKernel(t, 0) }
func TestKernelVirtualO1(t *testing.T) { virtualInKernel(t, 1) }

// judgedHere names the files of the cases to be judged inside.
const judgedHere = "SVCC_JUDGED"

func virtualInKernel(t *testing.T, level int) {
	t.Parallel()
	var chosen []uml.Option
	if !uml.Inside() {
		chosen = []uml.Option{uml.Env(judgedHere, strings.Join(virtualNews(t, level), " "))}
	}
	uml.Test(t, func(t *testing.T) {
		eachOf(t, strings.Fields(os.Getenv(judgedHere)), func(t *testing.T, c *Case) {
			for _, g := range virtualGroups(t, c, level) {
				l := lab.New(t, labConfig(g.built, g.lines))
				if err := judgeVirtual(l, g.built, g.lines); err != nil {
					t.Error(err)
				}
			}
		})
	}, chosen...)
}

// virtualNews gives the files of the cases to be judged at a level.
func virtualNews(t *testing.T, level int) (files []string) {
	n := news{}
	for below := range level + 1 {
		files = n.cases(t, func(c *Case) []judged { return virtualGroups(t, c, below) })
	}
	return files
}

// virtualGroups builds a case in IPVS mode for each node that judges some of its lines.
func virtualGroups(t *testing.T, c *Case, level int) (out []judged) {
	if c.Refused != "" {
		return nil
	}
	for _, lines := range byNode(slices.DeleteFunc(forKernel(c.virtual(level)), byFlags)) {
		out = append(out, judged{compileVirtual(t, c, lines, level), lines})
	}
	return out
}

// byFlags says that whether a virtual server sends on the packets of a line depends
// on their flags, which is IPVS's affair.
func byFlags(t Trace) bool {
	return t.State == eval.Invalid && (t.From == Node || t.Want[0].Verdict == eval.Accept)
}

// judgeVirtual loads a case and has its lines judged.
func judgeVirtual(l *lab.Lab, r built, lines []Trace) error {
	if err := loadVirtual(l, r); err != nil {
		return err
	}
	var errs []error
	for _, drop := range []bool{false, true} {
		some := slices.DeleteFunc(slices.Clone(lines), func(t Trace) bool { return t.ForwardDrop != drop })
		if drop && len(some) > 0 {
			errs = append(errs, l.ForwardPolicy(lab.Legacy, ir.IPv4, "DROP"), l.ForwardPolicy(lab.Legacy, ir.IPv6, "DROP"))
		}
		errs = append(errs, probe(l, r, some))
	}
	return errors.Join(errs...)
}

// loadVirtual loads each file, in the order of files, by the command that its head
// tells a reader to use.
func loadVirtual(l *lab.Lab, r built) error {
	err := l.Do(func() error { return os.WriteFile("/proc/sys/net/ipv4/vs/conntrack", []byte("1"), 0) })
	if err != nil {
		return err
	}
	var sections []emit.Section
	for _, u := range r.Units {
		sections = append(sections, u.Sections...)
	}
	for _, s := range emit.Files(sections) {
		if s.Tool == emit.ToolTables {
			err = l.LoadIPTables(lab.Legacy, s.Family, string(s.Text))
		} else {
			err = l.Run(string(s.Text), strings.Fields(s.Command())...)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.FileName(), err)
		}
	}
	return nil
}
