package apply_test

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"svcc/apply"
	"svcc/apply/iptables"
	"svcc/golden/lab"
)

// crashes prepares a node for crashes on the way from the old state to the new.
func crashes(n *node) (states map[string]map[string]string, newFile string) {
	n.to(newState(n.t))
	states = map[string]map[string]string{"new": n.save()}
	n.to(oldState(n.t))
	states["old"] = n.save()
	return states, n.file("new.rules", newState(n.t))
}

// A run that is killed before, during or after any call of a tool leaves each
// table old or new, which status tells; what follows ends in one of both as a
// whole.
func TestKernelKilledAtAnyCall(t *testing.T) {
	eachFlavour(t, func(t *testing.T, n *node) {
		states, file := crashes(n)
		did := n.child(job{Ruleset: file}, nil)
		if len(did.calls) < 12 || n.is(states) != "new" {
			t.Fatalf("%d calls", len(did.calls))
		}
		halfMade := 0
		for i, k := range kills(did.calls) {
			n.to(oldState(t))
			name := fmt.Sprintf("killed %s call %d", k.When, k.Call)
			k.Ruleset = file
			if status := n.child(k, nil).status; status.Signal() != syscall.SIGKILL {
				t.Fatalf("%s: %v", name, status)
			}
			if n.checkKilled(name, states) {
				halfMade++
			}
			n.mend(name, []string{"refused", "new", "old"}[i%3], states)
		}
		if halfMade == 0 {
			t.Error("no crash left the tables in different states")
		}
	})
}

// kills are where to kill a run that makes these calls: before, during and after
// each that writes or reads back, and after each of those before them, by which
// nothing is written or journalled yet. Unless all are asked for, it is the last
// call of each kind, but every one that writes.
func kills(calls []call) (out []job) {
	first := slices.IndexFunc(calls, func(c call) bool { return c.writes })
	last := map[string]int{}
	for i, c := range calls {
		last[c.kind] = i
	}
	for i, c := range calls {
		if !lab.All() && !c.writes && last[c.kind] != i {
			continue
		}
		for _, when := range []string{"before", "during", "after"} {
			if i >= first || when == "after" {
				out = append(out, job{Call: i + 1, When: when})
			}
		}
	}
	return out
}

// A sample has each kind of call, and each way to be killed at one that writes.
func TestKillsAreOfEachKind(t *testing.T) {
	calls := []call{{kind: "version"}, {kind: "version"}, {kind: "test"}, {"write", true}, {"write", true}, {kind: "read"}, {kind: "read"}}
	for all, want := range map[string]string{
		"":  "after 2, after 3, before 4, during 4, after 4, before 5, during 5, after 5, before 7, during 7, after 7",
		"1": "after 1, after 2, after 3, before 4, during 4, after 4, before 5, during 5, after 5, before 6, during 6, after 6, before 7, during 7, after 7",
	} {
		t.Setenv("SVCC_ALL", all)
		var got []string
		for _, k := range kills(calls) {
			got = append(got, fmt.Sprintf("%s %d", k.When, k.Call))
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("SVCC_ALL=%s: %s, want %s", all, strings.Join(got, ", "), want)
		}
	}
}

// checkKilled holds status to what is there.
func (n *node) checkKilled(name string, states map[string]map[string]string) (halfMade bool) {
	n.t.Helper()
	// The tool dies with the process, but may take a moment to be gone, and
	// then, just forked, hold its lock. In the kernel it cannot be interrupted
	// while it waits for others who write.
	const patience = 10 * time.Minute // else it hangs
	for deadline := time.Now().Add(patience); n.engine().State.Busy() && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	j, err := n.engine().State.Journal()
	if err != nil {
		n.t.Fatalf("%s: %v", name, err)
	}
	if j != nil {
		if err := n.engine().State.AwaitChild(background, j, patience); err != nil {
			n.t.Fatalf("%s: %v", name, err)
		}
	}
	s, err := n.engine().Status(background)
	if err != nil {
		n.t.Fatalf("%s: %v", name, err)
	}
	got := n.is(states)
	want := map[string]apply.Condition{"old": apply.Old, "new": apply.New, "": apply.HalfMade}[got]
	if j == nil {
		want = apply.AsRecorded
	}
	if s.Condition != want {
		n.t.Errorf("%s: status says %q, want %q", name, s.Condition, want)
	}
	return got == ""
}

// mend lets a run follow: one that gets no further than its input, or one to
// either state.
func (n *node) mend(name, next string, states map[string]map[string]string) {
	n.t.Helper()
	want := next
	switch next {
	case "old":
		n.to(oldState(n.t))
	case "new":
		n.to(newState(n.t))
	default:
		if err := n.engine().Recover(background); err != nil {
			n.t.Fatalf("%s: %v", name, err)
		}
	}
	got := n.is(states)
	if next == "refused" && got != "" {
		want = got
	}
	if got != want {
		n.t.Errorf("%s, then %s: the kernel holds %q", name, next, got)
	}
	if s, err := n.engine().Status(background); err != nil || s.Condition != apply.AsRecorded {
		n.t.Errorf("%s, then %s: %v, %q", name, next, err, s.Condition)
	}
}

// moments are at random within the phase in which a run writes; few of many, unless
// all are asked for.
func (n *node) moments(file string, seed uint64, few, many int) (out []time.Duration) {
	n.to(oldState(n.t))
	phase := n.child(job{Ruleset: file}, nil).writing
	if lab.All() {
		few = many
	}
	random := rand.New(rand.NewPCG(seed, seed+1))
	for range few {
		out = append(out, time.Duration(random.Int64N(int64(phase))))
	}
	return out
}

// The same at random moments from the first write on, and with a signal that
// svcc can answer: then it has put back what it wrote, or is done.
func TestKernelKilledAtRandom(t *testing.T) {
	eachFlavour(t, func(t *testing.T, n *node) {
		states, file := crashes(n)
		for i, after := range n.moments(file, 1, 6, 50) {
			n.to(oldState(t))
			name := fmt.Sprintf("killed %s after it began to write", after)
			status := n.child(job{Ruleset: file}, signalIn(after, syscall.SIGKILL)).status
			if status.Exited() && status.ExitStatus() != 0 {
				t.Fatalf("%s: %v", name, status)
			}
			n.checkKilled(name, states)
			n.mend(name, []string{"refused", "new", "old"}[i%3], states)
		}
	})
}

func TestKernelToldToStop(t *testing.T) {
	eachFlavour(t, func(t *testing.T, n *node) {
		states, file := crashes(n)
		told := func(name string, j job, meanwhile func(*os.Process)) (end string) {
			n.to(oldState(t))
			j.Ruleset = file
			status := n.child(j, meanwhile).status
			end = n.is(states)
			want := map[int]string{0: "new", 3: "old"}[status.ExitStatus()]
			if end == "" || end != want {
				t.Errorf("told to stop %s: %q with %v", name, end, status)
			}
			if j, err := n.engine().State.Journal(); j != nil || err != nil {
				t.Errorf("told to stop %s: a journal is left: %v", name, err)
			}
			return end
		}
		calls := n.child(job{Ruleset: file}, nil).calls
		first := slices.IndexFunc(calls, func(c call) bool { return c.writes }) + 1
		if end := told("in the first write", job{Call: first, When: "during", Stop: true}, nil); end != "old" {
			t.Errorf("told to stop in the first of two writes, it ended in %q", end)
		}
		for _, after := range n.moments(file, 3, 4, 20) {
			told(fmt.Sprintf("after %s", after), job{}, signalIn(after, syscall.SIGTERM))
		}
	})
}

func signalIn(d time.Duration, s os.Signal) func(*os.Process) {
	return func(p *os.Process) {
		time.Sleep(d)
		_ = p.Signal(s)
	}
}

// On a node with nothing but a loopback device that is down, and after a remove
// the tables are what they were.
func TestKernelApplyAndRemove(t *testing.T) {
	eachFlavour(t, func(t *testing.T, n *node) {
		clean := n.save()
		n.to(oldState(t))
		old := n.save()
		if s, err := n.engine().Status(background); err != nil || s.Condition != apply.AsRecorded {
			t.Errorf("%v, %+v", err, s)
		}
		n.to(newState(t))
		if _, err := n.engine().Rollback(background); err != nil {
			t.Fatal(err)
		}
		if n.is(map[string]map[string]string{"old": old}) != "old" {
			t.Error("rolled back to something else")
		}
		n.to(nil)
		n.is(map[string]map[string]string{"clean": clean})
	})
}

// Remove is complete from a half-made state too.
func TestKernelRemoveHalfMade(t *testing.T) {
	eachFlavour(t, func(t *testing.T, n *node) {
		clean := n.save()
		states, file := crashes(n)
		calls := n.child(job{Ruleset: file}, nil).calls
		first := slices.IndexFunc(calls, func(c call) bool { return c.writes }) + 1
		n.to(oldState(t))
		n.child(job{Ruleset: file, Call: first, When: "after"}, nil)
		if got := n.is(states); got != "" {
			t.Fatalf("a crash after the first of two writes left the tables %s", got)
		}
		n.to(nil)
		n.is(map[string]map[string]string{"clean": clean})
	})
}

// While another holds the lock of iptables-legacy, a run waits, gives up with
// ErrLocked, and has changed nothing.
func TestKernelHeldLock(t *testing.T) {
	n := newNode(t, "legacy")
	states, _ := crashes(n)
	f, err := os.OpenFile(os.Getenv("XTABLES_LOCKFILE"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	short := func(e *apply.Engine) { e.Target.(*iptables.Target).LockTimeout = time.Second }
	mustFail(t, to(background, n.engine(short), newState(t)), apply.ErrLocked)
	if waited := time.Since(begun); waited < 900*time.Millisecond {
		t.Errorf("waited only %s", waited)
	}
	if n.is(states) != "old" {
		t.Errorf("%q, want old", n.is(states))
	}
	f.Close()
	n.to(newState(t))
	if n.is(states) != "new" {
		t.Errorf("%q, want new", n.is(states))
	}
}

// However little room the state directory has, a run is done, or refused before
// it writes.
func TestKernelFullDisk(t *testing.T) {
	n := newNode(t, "nft")
	if err := os.MkdirAll(n.path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", n.path, "tmpfs", 0, "size=256k,nr_inodes=64,mode=0700"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(n.path, unix.MNT_DETACH) })
	states, _ := crashes(n)
	page := os.Getpagesize()
	refused := 0
	for left := 0; ; left++ {
		n.to(oldState(t))
		fill(t, filepath.Join(n.path, "notes"), left*page)
		err := to(background, n.engine(), newState(t))
		want := "new"
		if err != nil {
			refused++
			want = "old"
			if !strings.Contains(err.Error(), "nothing was written") {
				t.Errorf("with %d pages left: %v", left, err)
			}
		}
		if got := n.is(states); got != want {
			t.Errorf("with %d pages left: %q, want %q: %v", left, got, want, err)
		}
		if err := os.Remove(filepath.Join(n.path, "notes")); err != nil {
			t.Fatal(err)
		}
		if j, _ := n.engine().State.Journal(); j != nil {
			t.Errorf("with %d pages left: a journal is left", left)
		}
		if want == "new" {
			break
		}
	}
	if refused < 3 {
		t.Errorf("refused %d times only", refused)
	}
}

// fill writes a file that leaves so many bytes on the disk.
func fill(t *testing.T, path string, left int) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size := int64(0)
	for block := make([]byte, os.Getpagesize()); ; size += int64(len(block)) {
		if _, err := f.Write(block); err != nil {
			break
		}
	}
	if err := f.Truncate(max(0, size-int64(left))); err != nil {
		t.Fatal(err)
	}
}

// The second run of the same writes nothing: no rule gets a new handle, and the
// kernel counts no generation of rules.
func TestKernelSecondRunWritesNothing(t *testing.T) {
	n := newNode(t, "nft")
	n.to(oldState(t))
	handles := func() string {
		out, err := exec.Command("nft", "-a", "list", "ruleset").Output()
		lab.Need(t, err)
		return string(out)
	}
	events := monitor(t)
	before := handles()
	n.to(oldState(t))
	mark(t, "end_of_test")
	got := events("end_of_test")
	if strings.Count(got, "# new generation") != 1 || strings.Contains(got, "KUBE") {
		t.Errorf("the watcher saw %q", got)
	}
	if exec.Command("nft", "delete table ip end_of_test").Run() != nil || handles() != before {
		t.Error("rules were written anew")
	}
}

// mark adds a table, for a watcher to see.
func mark(t *testing.T, name string) {
	t.Helper()
	if out, err := exec.Command("nft", "add table ip "+name).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// monitor has the kernel's changes of rules watched from now on. It gives what is
// told of them up to a mark and its generation.
func monitor(t *testing.T) (until func(name string) string) {
	t.Helper()
	cmd := exec.Command("nft", "monitor")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	lines := make(chan string, 10_000)
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			lines <- s.Text() + "\n"
		}
		close(lines)
	}()
	begun := false
	for !begun { // it says nothing when it has begun to watch
		mark(t, "begin_of_test")
		select {
		case <-lines:
			begun = true
		case <-time.After(100 * time.Millisecond):
		}
		if out, err := exec.Command("nft", "delete table ip begin_of_test").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	mark(t, "all_before")
	t.Cleanup(func() { _ = exec.Command("nft", "delete table ip all_before").Run() })
	until = func(name string) (said string) {
		for !strings.Contains(said, name) || !strings.Contains(said[strings.LastIndex(said, name):], "# new generation") {
			line, ok := <-lines
			if !ok {
				t.Fatalf("the watcher ended after %q", said)
			}
			said += line
		}
		return said
	}
	until("all_before")
	return until
}

// Two processes at once: one waits, both end well.
func TestKernelTwoAtOnce(t *testing.T) {
	eachFlavour(t, func(t *testing.T, n *node) {
		states, file := crashes(n)
		n.child(job{Ruleset: file, Hold: true}, func(*os.Process) {
			if err := to(background, n.engine(func(e *apply.Engine) { e.Options.LockTimeout = 0 }), oldState(t)); err == nil || !strings.Contains(err.Error(), "another run") {
				t.Errorf("while another is under way: %v", err)
			}
		})
		if n.is(states) != "new" {
			t.Errorf("%q, want new", n.is(states))
		}
	})
}
