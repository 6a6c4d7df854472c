package uml

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"svcc/ir"
)

func TestMain(m *testing.M) { Main(m) }

// inside boots a kernel in which the calling test is run again, and gives what
// came of it without reporting it.
func inside(t *testing.T, limit time.Duration) (ended, *parsed) {
	t.Helper()
	Need(t)
	e, err := boot(testArgs(t, "^"+t.Name()+"$", limit), settings{silence: 10 * time.Minute, memory: 512})
	if err != nil {
		t.Fatal(err)
	}
	return e, parse(e.output)
}

// Each test inside has its own result and output on the machine.
func TestResults(t *testing.T) {
	if Inside() {
		t.Run("passes", func(t *testing.T) { t.Log("a log") })
		t.Run("fails", func(t *testing.T) { t.Run("below/it", func(t *testing.T) { t.Error("an error") }) })
		t.Run("skips", func(t *testing.T) { t.Skip("a reason") })
		t.Run("prints", func(t *testing.T) { fmt.Print("no newline") })
		return
	}
	e, p := inside(t, time.Hour)
	if e.lost != "" || e.Trouble != "" || e.Exit != 1 || wrong(e, p) != "" {
		t.Fatalf("%+v\n%s", e, wrong(e, p))
	}
	if len(p.root.subs) != 1 || !p.root.subs[0].failed() {
		t.Fatalf("%d tests", len(p.root.subs))
	}
	for _, want := range []struct{ name, verdict, output string }{
		{"TestResults", "FAIL", ""},
		{"TestResults/passes", "PASS", "a log"},
		{"TestResults/fails", "FAIL", ""},
		{"TestResults/fails/below/it", "FAIL", "an error"},
		{"TestResults/skips", "SKIP", "a reason"},
		{"TestResults/prints", "PASS", "no newline"},
	} {
		o := p.names[want.name]
		if o == nil || o.verdict != want.verdict || !strings.Contains(o.output.String(), want.output) {
			t.Errorf("%s: %+v\n%s", want.name, o, e.output)
		}
	}
}

// A test that takes too long is named, and is no success.
func TestHangs(t *testing.T) {
	if Inside() {
		t.Run("never", func(*testing.T) { time.Sleep(time.Hour) })
		return
	}
	e, p := inside(t, 5*time.Second)
	said := wrong(e, p)
	if e.Exit != 2 || !strings.Contains(said, "test timed out after 5s") || !strings.Contains(said, "heard of: TestHangs/never") {
		t.Errorf("%+v\n%s", e, said)
	}
	if o := p.names["TestHangs/never"]; o == nil || o.verdict != "" || !p.root.subs[0].failed() {
		t.Errorf("%+v", o)
	}
}

// A kernel that crashes is a failure that shows the console, and what the
// tests wrote until a second before is not lost.
func TestKernelCrashes(t *testing.T) {
	if Inside() {
		t.Log("the last words")
		time.Sleep(2 * time.Second)
		if err := os.WriteFile("/proc/sysrq-trigger", []byte("c"), 0); err != nil {
			t.Fatal(err)
		}
		select {}
	}
	e, p := inside(t, time.Hour)
	said := wrong(e, p)
	for _, want := range []string{"the kernel ended", "heard of: TestKernelCrashes", "the last words", "sysrq"} {
		if !strings.Contains(strings.ToLower(said), strings.ToLower(want)) {
			t.Errorf("no %q in: %s", want, said)
		}
	}
	if len(p.root.subs) != 1 || !p.root.subs[0].failed() {
		t.Errorf("%+v", p.root.subs)
	}
}

// A result counts however the kernel halts after it; without one, why there is none.
func TestHaltsBadly(t *testing.T) {
	const badly, killed = "the kernel ended by exit status 1", "the kernel was killed"
	for _, c := range []struct {
		e    ended
		told bool
		want string
	}{
		{ended{}, true, ""},
		{ended{}, false, "the kernel ended early"},
		{ended{lost: badly, badly: true}, true, ""},
		{ended{lost: badly, badly: true}, false, badly},
		{ended{lost: killed}, true, killed},
	} {
		if c.e.judge(c.told); c.e.lost != c.want {
			t.Errorf("told %v: %q, want %q", c.told, c.e.lost, c.want)
		}
	}
}

// A kernel whose tests are silent is killed, and nothing of it is left.
func TestKernelIsKilled(t *testing.T) {
	if Inside() {
		select {} // more than a second until the test's own limit ends it
	}
	Need(t)
	dir, err := os.MkdirTemp("", "uml")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	args := testArgs(t, "^"+t.Name()+"$", time.Hour)
	if err := writeJob(dir, args, nil); err != nil {
		t.Fatal(err)
	}
	var e ended
	err = run(&e, kernelArgs(args[0], dir, settings{memory: 512}), dir, 5*time.Second)
	if err != nil || e.lost != "the kernel was killed: nothing was heard of its tests for 5s" {
		t.Errorf("%q, %v", e.lost, err)
	}
	if left := processes(dir); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// A kernel does not outlive its test, however that ends.
func TestKernelEndsWithTests(t *testing.T) {
	Need(t)
	dir := t.TempDir()
	cmd := exec.Command(self(t), "-test.run=^TestKernelCrashes$")
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a kernel runs", func() bool { return len(processes(dir)) > 3 })
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait() // it was killed
	eventually(t, "nothing is left", func() bool { return len(processes(dir)) == 0 })
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Minute); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// processes are the command lines that name a folder.
func processes(dir string) (found []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		if text, _ := os.ReadFile(f); strings.Contains(string(text), dir) {
			found = append(found, string(text))
		}
	}
	return found
}

// A file that grows now and then is not silent, however long it takes.
func TestSilence(t *testing.T) {
	file := filepath.Join(t.TempDir(), "output")
	silent := make(chan struct{})
	go awaitSilence(t.Context(), file, 3*time.Second, func() { close(silent) })
	for i := range 4 {
		if err := os.WriteFile(file, make([]byte, i+1), 0o600); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
	}
	select {
	case <-silent:
		if i, err := os.Stat(file); err != nil || i.Size() < 4 {
			t.Error("it was called silent before the last was written")
		}
	default:
	}
	<-silent
}

// The system inside has what tests need.
func TestSystem(t *testing.T) {
	Test(t, func(t *testing.T) {
		t.Run("schedulers", schedulers)
		t.Run("dummy", dummy)
		t.Run("tools", tools)
		t.Run("files", files)
		t.Run("copies", copies)
	}, Memory(512))
}

// copies has programs copy more than they have in memory yet: the registers by which
// they do are kept through each page fault, or what comes out is not what went in.
func copies(t *testing.T) {
	var text strings.Builder
	for i := range 10000 {
		fmt.Fprintf(&text, "%08d %s\n", i, strings.Repeat("x", i%97))
	}
	for _, program := range [][]string{{"sort"}, {"sh", "-c", `x=$(cat); printf '%s\n' "$x"`}, {"sed", "-n", "H;${x;s/^.//;p}"}} {
		if output(t, text.String(), program...) != text.String() {
			t.Errorf("%q changed what it copied", program)
		}
	}
}

// schedulers loads a virtual server with each scheduler.
func schedulers(t *testing.T) {
	var commands strings.Builder
	for i, name := range ir.Schedulers {
		fmt.Fprintf(&commands, "-A -t 10.96.0.1:%d -s %s\n-A -t [fd00::1]:%d -s %s\n", i+1, name, i+1, name)
	}
	output(t, commands.String(), "ipvsadm", "-R")
	shown := output(t, "", "ipvsadm", "-Sn")
	for line := range strings.Lines(commands.String()) {
		if !strings.Contains(shown, line) {
			t.Errorf("no %s in:\n%s", line, shown)
		}
	}
}

func dummy(t *testing.T) {
	link := &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Name: "kube-ipvs0"}}
	if err := netlink.LinkAdd(link); err != nil {
		t.Fatal(err)
	}
	addr, _ := netlink.ParseAddr("10.96.0.1/32")
	if err := netlink.AddrReplace(link, addr); err != nil {
		t.Error(err)
	}
}

// tools have their plain names, and work.
func tools(t *testing.T) {
	for _, family := range []string{"iptables", "ip6tables"} {
		if version := output(t, "", family, "--version"); !strings.Contains(version, "legacy") {
			t.Errorf("%s is %s", family, version)
		}
		output(t, "*filter\n-A INPUT -m ipvs --ipvs -j ACCEPT\nCOMMIT\n", family+"-restore")
		if saved := output(t, "", family+"-save"); !strings.Contains(saved, "-A INPUT -m ipvs --ipvs -j ACCEPT") {
			t.Error(saved)
		}
	}
}

// files are written to memory, and the machine's are as they are outside.
func files(t *testing.T) {
	var at unix.Statfs_t
	if err := unix.Statfs(t.TempDir(), &at); err != nil || at.Type != unix.TMPFS_MAGIC {
		t.Errorf("%v, type %#x", err, at.Type)
	}
	if _, err := os.Stat("uml_test.go"); err != nil {
		t.Error(err)
	}
	if err := exec.Command("test", "-c", "/dev/net/tun").Run(); err != nil {
		t.Error(err)
	}
}

func output(t *testing.T, stdin string, argv ...string) string {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin = strings.NewReader(stdin)
	said, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v\n%s", argv, err, said)
	}
	return string(said)
}
