package golden

import (
	"errors"
	"fmt"
	"hash/crc32"
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

// The kernel tests of IPVS mode have each trace line judged by real packets, in
// User Mode Linux, after every section has been loaded by the tool that it names.
// Each case is judged at one of the two levels, or at both if all is asked for.
func TestKernelVirtualO0(t *testing.T) { virtualInKernel(t, 0) }
func TestKernelVirtualO1(t *testing.T) { virtualInKernel(t, 1) }

func virtualInKernel(t *testing.T, level int) {
	t.Parallel()
	uml.Test(t, func(t *testing.T) {
		eachVirtual(t, func(t *testing.T, c *Case) {
			if !lab.All() && levelOf(c) != level {
				return
			}
			for _, lines := range byNode(slices.DeleteFunc(forKernel(c.virtual(level)), byFlags)) {
				r := compileVirtual(t, c, lines, level)
				l := lab.New(t, labConfig(r, lines))
				if err := judgeVirtual(l, r, lines); err != nil {
					t.Error(err)
				}
			}
		})
	})
}

// levelOf is the level at which a case is judged where one is enough.
func levelOf(c *Case) int {
	if len(c.Gap) > 0 {
		return 0 // what it shows is of -O0
	}
	return int(crc32.ChecksumIEEE([]byte(c.File)) % 2)
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
