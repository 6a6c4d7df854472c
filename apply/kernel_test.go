package apply_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"svcc/apply"
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
		_, calls, _ := n.child(job{Ruleset: file}, nil)
		if calls < 12 || n.is(states) != "new" {
			t.Fatalf("%d calls", calls)
		}
		halfMade := 0
		for call := 1; call <= calls; call++ {
			for _, when := range []string{"before", "during", "after"} {
				if call < calls/2 && when != "after" {
					continue // nothing is written or journalled yet
				}
				n.to(oldState(t))
				name := fmt.Sprintf("killed %s call %d", when, call)
				if status, _, _ := n.child(job{Ruleset: file, Call: call, When: when}, nil); status.Signal() != syscall.SIGKILL {
					t.Fatalf("%s: %v", name, status)
				}
				if n.checkKilled(name, states) {
					halfMade++
				}
				n.mend(name, []string{"refused", "new", "old"}[call%3], states)
			}
		}
		if halfMade == 0 {
			t.Error("no crash left the tables in different states")
		}
	})
}

// checkKilled holds status to what is there.
func (n *node) checkKilled(name string, states map[string]map[string]string) (halfMade bool) {
	n.t.Helper()
	// The tool dies with the process, but may take a moment to be gone, and
	// then, just forked, hold its lock. In the kernel it cannot be interrupted
	// while it waits for others who write.
	const patience = time.Minute
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

// moments is how often a run is interrupted at random while it writes.
const moments = 50

// The same at random moments from the first write on, and with a signal that
// svcc can answer: then it has put back what it wrote, or is done.
func TestKernelKilledAtRandom(t *testing.T) {
	eachFlavour(t, func(t *testing.T, n *node) {
		states, file := crashes(n)
		random := rand.New(rand.NewPCG(1, 2))
		phase := n.writePhase(file)
		for i := range moments {
			n.to(oldState(t))
			after := time.Duration(random.Int64N(int64(phase)))
			name := fmt.Sprintf("killed %s after it began to write", after)
			status, _, _ := n.child(job{Ruleset: file}, signalIn(after, syscall.SIGKILL))
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
		random := rand.New(rand.NewPCG(3, 4))
		phase := n.writePhase(file)
		ends := map[string]int{}
		for range 20 {
			n.to(oldState(t))
			after := time.Duration(random.Int64N(int64(phase)))
			status, _, _ := n.child(job{Ruleset: file}, signalIn(after, syscall.SIGTERM))
			got := n.is(states)
			want := map[int]string{0: "new", 3: "old"}[status.ExitStatus()]
			if got == "" || got != want {
				t.Errorf("told to stop after %s: %q with %v", after, got, status)
			}
			if j, err := n.engine().State.Journal(); j != nil || err != nil {
				t.Errorf("told to stop after %s: a journal is left: %v", after, err)
			}
			ends[got]++
		}
		if ends["old"] == 0 {
			t.Errorf("%v", ends)
		}
	})
}

// writePhase is how long a run takes from the first write to its end.
func (n *node) writePhase(file string) time.Duration {
	n.to(oldState(n.t))
	_, _, phase := n.child(job{Ruleset: file}, nil)
	return phase
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
		_, calls, _ := n.child(job{Ruleset: file}, nil)
		found := false
		for call := calls; call > 0 && !found; call-- {
			n.to(oldState(t))
			n.child(job{Ruleset: file, Call: call, When: "after"}, nil)
			found = n.is(states) == ""
		}
		if !found {
			t.Fatal("no crash left the tables in different states")
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
	mustFail(t, to(background, n.engine(), newState(t)), apply.ErrLocked)
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
	before := handles()
	monitor := exec.Command("nft", "monitor")
	events := &strings.Builder{}
	monitor.Stdout = events
	if err := monitor.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond)
	n.to(oldState(t))
	marker := "add table ip end_of_test"
	if out, err := exec.Command("nft", marker).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	time.Sleep(200 * time.Millisecond)
	_ = monitor.Process.Kill()
	_ = monitor.Wait()
	if !strings.Contains(events.String(), "end_of_test") {
		t.Fatalf("the watcher saw nothing at all: %q", events)
	}
	if got := strings.Count(events.String(), "# new generation"); got != 1 || strings.Contains(events.String(), "KUBE") {
		t.Errorf("the watcher saw %q", events)
	}
	if exec.Command("nft", "delete table ip end_of_test").Run() != nil || handles() != before {
		t.Error("rules were written anew")
	}
}

// Two processes at once: one waits, both end well.
func TestKernelTwoAtOnce(t *testing.T) {
	eachFlavour(t, func(t *testing.T, n *node) {
		states, file := crashes(n)
		n.child(job{Ruleset: file}, func(*os.Process) {
			if err := to(background, n.engine(func(e *apply.Engine) { e.Options.LockTimeout = 0 }), oldState(t)); err == nil || !strings.Contains(err.Error(), "another run") {
				t.Errorf("while another is under way: %v", err)
			}
		})
		if n.is(states) != "new" {
			t.Errorf("%q, want new", n.is(states))
		}
	})
}
