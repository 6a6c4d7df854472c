package uml

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"svcc/golden/lab"
)

// settings are what options set.
type settings struct {
	silence time.Duration
	memory  int // MiB
	env     []string
}

// An Option changes how a kernel is run.
type Option func(*settings)

// Silence is for how long the tests inside may say nothing, 10 minutes if left out:
// not even that one of them begins or ends.
func Silence(d time.Duration) Option { return func(s *settings) { s.silence = d } }

// Env gives the tests inside an environment variable.
func Env(name, value string) Option {
	return func(s *settings) { s.env = append(s.env, name+"="+value) }
}

// Memory is the kernel's memory in MiB, 2048 if left out. What is not used
// costs nothing.
func Memory(mib int) Option { return func(s *settings) { s.memory = mib } }

// Test runs the body of a test inside: a kernel is booted in which the calling
// test is run again, and its subtests are reported as the test's own. Only a
// test of the top level may call it, and nothing else but this call may be in
// it. It needs what Need says.
func Test(t *testing.T, body func(t *testing.T), opts ...Option) {
	t.Helper()
	if Inside() {
		body(t)
		return
	}
	pattern := "^" + regexp.QuoteMeta(t.Name()) + "$" + below(runFlag())
	p := start(t, pattern, opts)
	if o := p.names[t.Name()]; o != nil {
		o.report(t)
	}
}

// Run runs the package's tests that match a pattern (of -run) inside one
// kernel, and reports each as a subtest.
func Run(t *testing.T, pattern string, opts ...Option) {
	t.Helper()
	for _, o := range start(t, pattern, opts).root.subs {
		t.Run(o.name, o.report)
	}
}

// start runs the tests of a pattern, and fails the test if the kernel did not
// tell of all of them.
func start(t *testing.T, pattern string, opts []Option) *parsed {
	t.Helper()
	Need(t)
	s := settings{silence: 10 * time.Minute, memory: 2048}
	for _, o := range opts {
		o(&s)
	}
	limit := time.Duration(0) // none
	if at, ok := t.Deadline(); ok {
		if limit = time.Until(at) - slack; limit <= 0 {
			t.Fatal("go test's -timeout leaves no time for a kernel")
		}
	}
	e, err := boot(testArgs(t, pattern, limit), s)
	if err != nil {
		t.Fatal(err)
	}
	p := parse(e.output)
	if wrong := wrong(e, p); wrong != "" {
		t.Error(wrong)
	}
	t.Logf("a kernel for %.1f s", e.took)
	return p
}

// testArgs is the command to run inside; 0 is no limit.
func testArgs(t *testing.T, pattern string, limit time.Duration) []string {
	t.Helper()
	return []string{self(t), "-test.run=" + pattern, "-test.v=test2json", "-test.count=1",
		"-test.timeout=" + limit.String(), fmt.Sprintf("-test.short=%v", testing.Short())}
}

// self is the path of the test binary.
func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// wrong says what is wrong with a run as a whole, if anything is: results of
// tests are told apart from it.
func wrong(e ended, p *parsed) string {
	var why string
	switch {
	case e.lost != "":
		why = e.lost
	case e.Trouble != "":
		why = e.Trouble
	case len(p.root.subs) == 0:
		why = "no test ran"
	case e.Exit != 0 && !p.explains():
		why = fmt.Sprintf("exit code %d", e.Exit)
	default:
		return ""
	}
	if p.last != "" {
		why += "\nthe last test heard of: " + p.last
	}
	return fmt.Sprintf("%s\nthe last output:\n%s\nthe console's last lines:\n%s", why, quoted(lastWords(e.output)), quoted(tail(e.console, 20)))
}

// explains says whether a test's failure is the reason for an exit code.
func (p *parsed) explains() bool {
	for _, o := range p.names {
		if o.verdict == "FAIL" {
			return true
		}
	}
	return false
}

func runFlag() string {
	if f := flag.Lookup("test.run"); f != nil {
		return f.Value.String()
	}
	return ""
}

// below is the part of a -run pattern that chooses subtests, with its slash.
// Of a pattern with alternatives it is empty: more runs then than is reported.
func below(pattern string) string {
	if strings.Contains(pattern, "|") {
		return ""
	}
	if i := strings.IndexByte(pattern, '/'); i >= 0 {
		return pattern[i:]
	}
	return ""
}

// Need skips a test if there is no User Mode Linux on the machine, and fails
// it where CI is set.
func Need(t testing.TB) {
	t.Helper()
	var err error
	if found, _ := filepath.Glob(moduleDir + "/*/kernel/net/netfilter/ipvs/ip_vs.ko"); len(found) == 0 {
		err = errors.New("no modules in " + moduleDir + ": they are in the Debian package user-mode-linux")
	}
	lab.Need(t, lab.Tools(kernel, "modprobe", "iptables-legacy"), err)
}
