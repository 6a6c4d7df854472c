package apply_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"svcc/apply"
	"svcc/apply/iptables"
	"svcc/apply/state"
	"svcc/apply/sums"
	"svcc/emit"
	"svcc/golden/lab"
	"svcc/ir"
)

// node is a network namespace with the real tools of one flavour. It belongs to
// the goroutine that made it, whose thread ends with it.
type node struct {
	t       testing.TB
	flavour string
	dir     string
	path    string // of the state directory
}

func newNode(t testing.TB, flavour string) *node {
	t.Helper()
	needKernel(t)
	dir := quickDir(t)
	t.Setenv("XTABLES_LOCKFILE", filepath.Join(dir, "xtables.lock"))
	runtime.LockOSThread() // never unlocked: the thread must not be used again
	if err := unix.Unshare(unix.CLONE_NEWNET | unix.CLONE_NEWNS); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	n := &node{t: t, flavour: flavour, dir: dir, path: filepath.Join(dir, "state")}
	for _, f := range ir.Families {
		n.tool(f, "restore", foreign)
	}
	return n
}

// eachFlavour runs a kernel test with both.
func eachFlavour(t *testing.T, f func(t *testing.T, n *node)) {
	for _, flavour := range []string{"nft", "legacy"} {
		t.Run(flavour, func(t *testing.T) { f(t, newNode(t, flavour)) })
	}
}

// needKernel skips a test that cannot have a namespace, except where it must.
func needKernel(t testing.TB) {
	t.Helper()
	lab.Need(t, lab.Root(), lab.Tools("iptables-legacy-restore"))
}

func (n *node) tool(f ir.Family, verb, stdin string, args ...string) string {
	n.t.Helper()
	cmd := exec.Command(iptables.Flavour(n.flavour)(f, verb), args...)
	cmd.Stdin = strings.NewReader(stdin)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		n.t.Fatalf("%s: %v: %s", cmd, err, stderr.String())
	}
	return string(out)
}

// save gives each table as it is, chains sorted, without counters and comments.
func (n *node) save() map[string]string {
	n.t.Helper()
	out := map[string]string{}
	for _, f := range ir.Families {
		for _, table := range []string{"filter", "nat"} {
			var lines []string
			for line := range strings.Lines(counters.ReplaceAllString(n.tool(f, "save", "", "-t", table), "")) {
				if line[0] != '#' {
					lines = append(lines, line)
				}
			}
			slices.SortStableFunc(lines, func(a, b string) int { return strings.Compare(chainOf(a), chainOf(b)) })
			out[f.String()+" "+table] = strings.Join(lines, "")
		}
	}
	return out
}

// chainOf sorts declarations before rules, and rules by chain, in their order.
func chainOf(line string) string {
	if rest, ok := strings.CutPrefix(line, "-A "); ok {
		name, _, _ := strings.Cut(rest, " ")
		return "A" + name
	}
	return " " + line
}

func (n *node) engine(with ...func(*apply.Engine)) *apply.Engine {
	e := nodeEngine(n.path, n.flavour, apply.Exec{})
	for _, f := range with {
		f(e)
	}
	return e
}

func nodeEngine(path, flavour string, r apply.Runner) *apply.Engine {
	return &apply.Engine{
		Target:  &iptables.Target{Runner: r, Command: iptables.Flavour(flavour), LockTimeout: 10 * time.Minute, Kernel: sums.Kernel{}},
		State:   state.At(path),
		Log:     slog.New(slog.DiscardHandler),
		Options: apply.Options{Mode: "iptables", Who: "tester", LockTimeout: 10 * time.Minute, AllowShrink: true},
	}
}

// to must work.
func (n *node) to(rs *emit.Ruleset) {
	n.t.Helper()
	if err := to(context.Background(), n.engine(), rs); err != nil {
		n.t.Fatal(err)
	}
}

// is says which of two states the tables hold as a whole; "" if neither. Then
// each table must be of one of them.
func (n *node) is(states map[string]map[string]string) string {
	n.t.Helper()
	now := n.save()
	found := ""
	for table, text := range now {
		of := ""
		for name, s := range states {
			if s[table] == text {
				of = name
			}
		}
		switch {
		case of == "":
			n.t.Errorf("%s is of no state:\n%s", table, text)
			found = "neither"
		case found == "":
			found = of
		case found != of:
			found = "both"
		}
	}
	if found == "both" || found == "neither" {
		return ""
	}
	return found
}

// job is what a child process is to do.
type job struct {
	State, Flavour, Ruleset string // Ruleset is a file; "" to remove
	Call                    int    // kill itself at this call of a tool; 0 for never
	When                    string // before, during, after
	Stop                    bool   // tell itself to stop there, rather than kill
	Hold                    bool   // wait at the first write until standard input ends
}

const jobVariable = "SVCC_TEST_JOB"

func TestMain(m *testing.M) {
	if text := os.Getenv(jobVariable); text != "" {
		var j job
		if err := json.Unmarshal([]byte(text), &j); err != nil {
			panic(err)
		}
		os.Exit(j.run())
	}
	os.Exit(m.Run())
}

// run is the child process. It writes a line to standard output for each call of
// a tool, and one when the first begins to write to the kernel.
func (j job) run() int {
	// As in the command, the signal is caught to the process's end.
	ctx, _ := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	k := &killing{job: j, stopped: ctx.Done()}
	e := nodeEngine(j.State, j.Flavour, k)
	k.Exec.Started = func(pid int, in apply.Input) {
		e.State.Child(pid)
		k.started(in)
	}
	var rs *emit.Ruleset
	if j.Ruleset != "" {
		text, err := os.ReadFile(j.Ruleset)
		if err == nil {
			rs, err = emit.Unmarshal(text)
		}
		if err != nil {
			panic(err)
		}
	}
	err := to(ctx, e, rs)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, apply.ErrHalfMade):
		return 4
	}
	fmt.Fprintln(os.Stderr, err)
	return 3
}

// killing runs real tools and ends its own process at one of them.
type killing struct {
	apply.Exec
	job     job
	stopped <-chan struct{}
	calls   int
	wrote   bool
}

// call is a tool's, as a child tells of it.
type call struct {
	kind   string // alike for both families and all chains
	writes bool   // to the node's kernel
}

func callOf(in apply.Input) call {
	kind := strings.TrimPrefix(in.Tool, "ip6")
	if in.Tool != kind {
		kind = "ip" + kind
	}
	for _, a := range in.Args {
		if strings.HasPrefix(a, "-") {
			kind += " " + a
		}
	}
	if in.Isolated {
		kind += ", isolated"
	}
	return call{kind, strings.HasSuffix(in.Tool, "restore") && !in.Isolated && !slices.Contains(in.Args, "--test")}
}

func (k *killing) Run(ctx context.Context, in apply.Input) ([]byte, error) {
	k.calls++
	c := callOf(in)
	fmt.Printf("call %v %s\n", c.writes, c.kind)
	k.kill("before")
	out, err := k.Exec.Run(ctx, in)
	k.kill("after")
	return out, err
}

func (k *killing) kill(when string) {
	switch {
	case k.calls != k.job.Call || k.job.When != when:
	case k.job.Stop:
		_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
		<-k.stopped
	default:
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}

func (k *killing) started(in apply.Input) {
	if !k.wrote && callOf(in).writes {
		k.wrote = true
		fmt.Println("writing")
		if k.job.Hold {
			_, _ = io.Copy(io.Discard, os.Stdin)
		}
	}
	k.kill("during")
}

// childRun is what became of a child.
type childRun struct {
	status  syscall.WaitStatus
	calls   []call
	writing time.Duration // how long it lived after it began to write
}

// child runs a job. meanwhile, if not nil, is called when the job begins to
// write.
func (n *node) child(j job, meanwhile func(*os.Process)) (r childRun) {
	n.t.Helper()
	cmd, in, out := n.start(j)
	defer in.Close()
	var begun time.Time
	for s := bufio.NewScanner(out); s.Scan(); {
		if s.Text() == "writing" {
			begun = time.Now()
			if meanwhile != nil {
				meanwhile(cmd.Process)
			}
			in.Close() // for one that holds
			continue
		}
		if text, ok := strings.CutPrefix(s.Text(), "call "); ok {
			writes, kind, _ := strings.Cut(text, " ")
			r.calls = append(r.calls, call{kind, writes == "true"})
		}
	}
	_ = cmd.Wait()
	r.status, r.writing = cmd.ProcessState.Sys().(syscall.WaitStatus), time.Since(begun)
	return r
}

// start starts a job, with pipes to and from it.
func (n *node) start(j job) (cmd *exec.Cmd, in io.WriteCloser, out io.ReadCloser) {
	n.t.Helper()
	j.State, j.Flavour = n.path, n.flavour
	text, err := json.Marshal(j)
	if err != nil {
		n.t.Fatal(err)
	}
	cmd = exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), jobVariable+"="+string(text))
	cmd.Stderr = os.Stderr
	if testing.Verbose() {
		cmd.Stderr = nil
	}
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		n.t.Fatal(err)
	}
	return cmd, in, out
}

// file writes a ruleset for a job; "" for nil.
func (n *node) file(name string, rs *emit.Ruleset) string {
	n.t.Helper()
	if rs == nil {
		return ""
	}
	path := filepath.Join(n.dir, name)
	if err := os.WriteFile(path, rs.Marshal(), 0o600); err != nil {
		n.t.Fatal(err)
	}
	return path
}
