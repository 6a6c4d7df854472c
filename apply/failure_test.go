package apply_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"svcc/apply"
	"svcc/apply/fake"
	"svcc/apply/iptables"
	"svcc/apply/state"
	"svcc/emit"
)

// start is a world in the old state or, for nil, with nothing of ours, and what
// its tables hold then and would hold in the new state.
func start(t *testing.T, old, fresh *emit.Ruleset) (w *world, states map[string]map[string]string, calls int) {
	t.Helper()
	states = map[string]map[string]string{}
	build := func() *world {
		w := newWorld(t)
		if old != nil {
			w.apply(old)
		}
		return w
	}
	w = build()
	states["old"] = w.tables()
	other := build()
	before := len(other.kernel.Calls())
	other.apply(fresh)
	states["new"] = other.tables()
	return w, states, len(other.kernel.Calls()) - before
}

// eachStart runs a test for each change from one state to another.
func eachStart(t *testing.T, f func(t *testing.T, old, fresh *emit.Ruleset)) {
	for name, c := range map[string][2]*emit.Ruleset{
		"first":  {nil, newState(t)},
		"change": {oldState(t), newState(t)},
		"remove": {oldState(t), nil},
	} {
		t.Run(name, func(t *testing.T) { f(t, c[0], c[1]) })
	}
}

// to runs Apply, or Remove for nil.
func to(ctx context.Context, e *apply.Engine, rs *emit.Ruleset) error {
	e.Options.AllowShrink = true
	var err error
	if rs == nil {
		_, err = e.Remove(ctx)
	} else {
		_, err = e.Apply(ctx, rs)
	}
	return err
}

// Whatever single call of a tool fails, in whatever way, the kernel ends in the
// old state with an error, or in the new one without; the record says which,
// nothing is left to mend, and the next run works.
func TestAnyCallFails(t *testing.T) {
	eachStart(t, func(t *testing.T, old, fresh *emit.Ruleset) {
		_, _, calls := start(t, old, fresh)
		if calls < 15 {
			t.Fatalf("%d calls only", calls)
		}
		for n := 1; n <= calls; n++ {
			for tables := -1; tables <= 1; tables++ {
				w, states, _ := start(t, old, fresh)
				w.kernel.Faults = map[int]fake.Fault{len(w.kernel.Calls()) + n: {Tables: tables}}
				err := to(background, w.engine(), fresh)
				w.afterFailure(fmt.Sprintf("call %d, %d tables", n, tables), states, err, fresh)
			}
		}
	})
}

// A run that is told to stop, during whatever call, ends as one that failed.
func TestStoppedAtAnyCall(t *testing.T) {
	eachStart(t, func(t *testing.T, old, fresh *emit.Ruleset) {
		_, _, calls := start(t, old, fresh)
		stopped := 0
		for n := 1; n <= calls; n++ {
			w, states, _ := start(t, old, fresh)
			ctx, cancel := context.WithCancel(background)
			w.kernel.Faults = map[int]fake.Fault{len(w.kernel.Calls()) + n: {Tables: -1, Before: cancel}}
			err := to(ctx, w.engine(), fresh)
			if err != nil {
				stopped++
			}
			w.afterFailure(fmt.Sprintf("stopped at call %d", n), states, err, fresh)
		}
		if stopped < calls-1 {
			t.Errorf("%d of %d calls went on", calls-stopped, calls)
		}
	})
}

func (w *world) afterFailure(name string, states map[string]map[string]string, err error, fresh *emit.Ruleset) {
	w.t.Helper()
	want := "old"
	if err == nil {
		want = "new"
	}
	if got := w.whole(states); got != want {
		w.t.Fatalf("%s: the kernel holds %q, want %q: %v", name, got, want, err)
	}
	if w.journal() != nil {
		w.t.Errorf("%s: a journal is left", name)
	}
	if s, statusErr := w.engine().Status(background); statusErr != nil || s.Condition != apply.AsRecorded {
		w.t.Errorf("%s: %v, %+v", name, statusErr, s)
	}
	w.kernel.Faults = nil
	if err := to(background, w.engine(), fresh); err != nil || w.whole(states) != "new" {
		w.t.Errorf("%s: the next run: %v, %q", name, err, w.whole(states))
	}
}

// broken fails every write from some call on.
func broken(w *world, from int) {
	w.kernel.Faults = map[int]fake.Fault{}
	for n := from; n < from+100; n++ {
		w.kernel.Faults[len(w.kernel.Calls())+n] = fake.Fault{}
	}
}

// Where the old state cannot be put back, svcc says so and the next run can.
func TestPutBackFails(t *testing.T) {
	_, _, calls := start(t, oldState(t), newState(t))
	halfMade := 0
	for n := 1; n <= calls; n++ {
		w, states, _ := start(t, oldState(t), newState(t))
		broken(w, n)
		err := to(background, w.engine(), newState(t))
		if err == nil {
			t.Fatalf("from call %d on: no error", n)
		}
		w.kernel.Faults = nil
		s, statusErr := w.engine().Status(background)
		if statusErr != nil {
			t.Fatal(statusErr)
		}
		if w.whole(states) == "" {
			halfMade++
			mustFail(t, err, apply.ErrHalfMade)
			if s.Condition != apply.HalfMade {
				t.Errorf("from call %d on: %+v", n, s)
			}
		}
		if err := w.engine().Recover(background); err != nil {
			t.Errorf("from call %d on: %v", n, err)
		}
		if w.whole(states) == "" || w.journal() != nil {
			t.Errorf("from call %d on: not mended", n)
		}
	}
	if halfMade == 0 {
		t.Error("no failure left the tables in different states")
	}
}

// crash is a process that ends, as seen by its tools.
type crash struct{}

// crashing ends the process before or after a call of a tool.
type crashing struct {
	apply.Runner
	left  int // calls until then
	after bool
}

func (c *crashing) Run(ctx context.Context, in apply.Input) ([]byte, error) {
	c.left--
	if c.left == 0 && !c.after {
		panic(crash{})
	}
	out, err := c.Runner.Run(ctx, in)
	if c.left == 0 {
		panic(crash{})
	}
	return out, err
}

// crashed runs to the end of the process.
func (w *world) crashed(n int, after bool, fresh *emit.Ruleset, with ...func(*apply.Engine)) {
	w.t.Helper()
	defer func() {
		if p := recover(); p != (crash{}) {
			w.t.Fatalf("no crash at call %d: %v", n, p)
		}
	}()
	e := w.engine(with...)
	e.Target = &iptables.Target{Runner: &crashing{Runner: w.kernel, left: n, after: after}}
	err := to(background, e, fresh)
	w.t.Fatalf("no crash at call %d: %v", n, err)
}

// However a run is interrupted: each table is old or new; status says if they
// are not of one state; a run that gets no further mends it to one of them; and
// applying either gives just that.
func TestCrashAtAnyCall(t *testing.T) {
	eachStart(t, func(t *testing.T, old, fresh *emit.Ruleset) {
		_, _, calls := start(t, old, fresh)
		halfMade := 0
		for n := 1; n <= calls; n++ {
			for _, after := range []bool{false, true} {
				for _, next := range []string{"refused", "old", "new", "crash"} {
					w, states, _ := start(t, old, fresh)
					w.crashed(n, after, fresh)
					name := fmt.Sprintf("crash at call %d, after %v, then %s", n, after, next)
					if w.checkCrashed(name, states) {
						halfMade++
					}
					w.goOn(name, next, states, old, fresh)
				}
			}
		}
		if halfMade == 0 {
			t.Error("no crash left the tables in different states")
		}
	})
}

// checkCrashed holds status to what is there.
func (w *world) checkCrashed(name string, states map[string]map[string]string) (halfMade bool) {
	w.t.Helper()
	s, err := w.engine().Status(background)
	if err != nil {
		w.t.Fatalf("%s: %v", name, err)
	}
	got := w.whole(states)
	want := map[string]apply.Condition{"old": apply.Old, "new": apply.New, "": apply.HalfMade}[got]
	if w.journal() == nil {
		want = apply.AsRecorded
	}
	if s.Condition != want {
		w.t.Errorf("%s: status says %q, want %q", name, s.Condition, want)
	}
	w.checkTold(name, want)
	return got == ""
}

// checkTold holds what a run that changes nothing says of the run before.
func (w *world) checkTold(name string, c apply.Condition) {
	w.t.Helper()
	w.log.Reset()
	if err := w.engine(dryRun).Recover(background); err != nil {
		w.t.Fatalf("%s: %v", name, err)
	}
	if w.journal() == nil {
		return
	}
	_, _ = w.engine(dryRun, takeOver, allowShrink).Apply(background, newState(w.t))
	words := map[apply.Condition]string{
		apply.Old: "before it changed a rule", apply.New: "with its rules in force", apply.HalfMade: "left the node half made",
	}[c]
	if !strings.Contains(w.log.String(), words) {
		w.t.Errorf("%s: %s is told as %s", name, c, w.log.String())
	}
}

func (w *world) goOn(name, next string, states map[string]map[string]string, old, fresh *emit.Ruleset) {
	w.t.Helper()
	want := next
	switch next {
	case "refused":
		for _, f := range []func() error{
			func() error { return w.engine().Recover(background) },
			func() error { return w.engine().Recover(background) },
		} {
			if err := f(); err != nil {
				w.t.Fatalf("%s: %v", name, err)
			}
		}
		want = w.whole(states)
	case "crash":
		// The run that mends is interrupted as well, in its own first write.
		w.crashMending()
		if err := w.engine().Recover(background); err != nil {
			w.t.Fatalf("%s: %v", name, err)
		}
		want = w.whole(states)
	default:
		rs := map[string]*emit.Ruleset{"old": old, "new": fresh}[next]
		if err := to(background, w.engine(), rs); err != nil {
			w.t.Fatalf("%s: %v", name, err)
		}
	}
	if got := w.whole(states); got == "" || got != want {
		w.t.Errorf("%s: the kernel holds %q, want %q", name, got, want)
	}
	if s, err := w.engine().Status(background); err != nil || s.Condition != apply.AsRecorded {
		w.t.Errorf("%s: %v, %+v", name, err, s)
	}
}

// crashMending recovers, up to the first write.
func (w *world) crashMending() {
	defer func() { _ = recover() }()
	e := w.engine()
	e.Target = &iptables.Target{Runner: firstWrite{w.kernel}}
	_ = e.Recover(background)
}

// firstWrite ends the process after the first restore.
type firstWrite struct{ apply.Runner }

func (f firstWrite) Run(ctx context.Context, in apply.Input) ([]byte, error) {
	out, err := f.Runner.Run(ctx, in)
	if strings.HasSuffix(in.Tool, "-restore") {
		panic(crash{})
	}
	return out, err
}

// A refused input leaves old or new, too: what refuses comes after mending.
func TestRefusedAfterCrash(t *testing.T) {
	_, _, calls := start(t, oldState(t), newState(t))
	for n := 1; n <= calls; n++ {
		w, states, _ := start(t, oldState(t), newState(t))
		w.crashed(n, true, newState(t))
		foreign := newState(t)
		foreign.Head.Node = "node-b"
		e := w.engine(func(e *apply.Engine) { e.Options.Node = "node-a" })
		_, err := e.Apply(background, foreign)
		mustFail(t, err, apply.ErrNode)
		if w.whole(states) == "" || w.journal() != nil {
			t.Errorf("crash at call %d: not mended", n)
		}
	}
}

// halfMade is a world whose tables are of two states.
func halfMade(t *testing.T) *world {
	t.Helper()
	_, _, calls := start(t, oldState(t), newState(t))
	for n := calls; n > 0; n-- {
		w, states, _ := start(t, oldState(t), newState(t))
		w.crashed(n, true, newState(t))
		if w.whole(states) == "" {
			return w
		}
	}
	t.Fatal("no crash leaves the tables of two states")
	return nil
}

// A tool of the interrupted run that lives on is waited for before anything is
// mended.
func TestToolLivesOn(t *testing.T) {
	w := halfMade(t)
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	start := strings.Fields(string(stat))[21]
	if err := os.WriteFile(filepath.Join(w.path, "child"), fmt.Appendf(nil, "%d %s\n", cmd.Process.Pid, start), 0o600); err != nil {
		t.Fatal(err)
	}
	before := w.tables()
	mustFail(t, w.engine().Recover(background), state.ErrChild)
	if w.whole(map[string]map[string]string{"before": before}) != "before" {
		t.Error("mended although a tool of the interrupted run could still write")
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if err := w.engine().Recover(background); err != nil || w.journal() != nil {
		t.Errorf("after it ended: %v", err)
	}
}

// Remove works although the journal is damaged.
func TestRemoveDespiteTheJournal(t *testing.T) {
	w := halfMade(t)
	undo, err := filepath.Glob(filepath.Join(w.path, "*.undo"))
	if err != nil || len(undo) != 1 {
		t.Fatal(undo, err)
	}
	if err := os.WriteFile(undo[0], []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	mustFail(t, w.engine().Recover(background), apply.ErrHalfMade)
	if _, err := w.engine().Apply(background, newState(t)); true {
		mustFail(t, err, apply.ErrHalfMade)
	}
	w.apply(nil)
	for table, text := range w.tables() {
		if strings.Contains(strings.ReplaceAll(text, "KUBE-FIREWALL", ""), "KUBE") {
			t.Errorf("%s:\n%s", table, text)
		}
	}
	if w.journal() != nil {
		t.Error("a journal is left")
	}
}

// Foreign rules keep their counters through a change, a failure and a remove.
func TestForeignCounters(t *testing.T) {
	w := newWorld(t)
	w.apply(oldState(t))
	n := len(w.kernel.Calls())
	w.kernel.Faults = map[int]fake.Fault{n + 14: {Tables: 1}}
	_ = to(background, w.engine(), newState(t))
	w.kernel.Faults = nil
	w.apply(newState(t))
	w.apply(nil)
	if save := w.kernel.SaveAll(); strings.Count(save, ":INPUT DROP [3:180]") != 2 {
		t.Errorf("%s", save)
	}
}

// Two runs at once: one waits, and both are done in turn.
func TestTwoAtOnce(t *testing.T) {
	w := newWorld(t)
	reached, goOn := make(chan struct{}), make(chan struct{})
	w.kernel.Faults = map[int]fake.Fault{len(w.kernel.Calls()) + 8: {Tables: -1, Before: func() { close(reached); <-goOn }}}
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { first <- to(background, w.engine(), oldState(t)) }()
	<-reached
	short := w.engine(func(e *apply.Engine) { e.Options.LockTimeout = 30 * time.Millisecond })
	if err := to(background, short, newState(t)); err == nil || !strings.Contains(err.Error(), "another run of svcc") {
		t.Errorf("one that does not wait: %v", err)
	}
	if s, err := w.engine().Status(background); err != nil || s.Condition != apply.UnderWay {
		t.Errorf("%v, %+v", err, s)
	}
	go func() {
		second <- to(background, w.engine(func(e *apply.Engine) { e.Options.LockTimeout = time.Hour }), newState(t))
	}()
	close(goOn)
	if err := <-first; err != nil {
		t.Error(err)
	}
	if err := <-second; err != nil {
		t.Error(err)
	}
	_, states, _ := start(t, oldState(t), newState(t))
	if got := w.whole(states); got != "new" {
		t.Errorf("%q, want new", got)
	}
}

// A directory that cannot be written to stops a run before the kernel is.
func TestStateCannotBeKept(t *testing.T) {
	w, states, _ := start(t, oldState(t), newState(t))
	// A folder is in the journal's way.
	if err := os.Mkdir(filepath.Join(w.path, "child"), 0o700); err != nil {
		t.Fatal(err)
	}
	writes := w.kernel.Writes()
	err := to(background, w.engine(), newState(t))
	if err == nil || !strings.Contains(err.Error(), "nothing was written") {
		t.Errorf("%v", err)
	}
	if w.kernel.Writes() != writes || w.whole(states) != "old" || w.journal() != nil {
		t.Error("the kernel was written to, or a journal is left")
	}
}

func confirmIn(d time.Duration) func(*apply.Engine) {
	return func(e *apply.Engine) { e.Options.ConfirmTimeout = d }
}

func TestNobodyConfirms(t *testing.T) {
	w, states, _ := start(t, oldState(t), newState(t))
	rec := w.record()
	err := to(background, w.engine(confirmIn(80*time.Millisecond)), newState(t))
	mustFail(t, err, apply.ErrUnconfirmed)
	if w.whole(states) != "old" || w.record().ID != rec.ID || w.journal() != nil {
		t.Errorf("%q, %+v", w.whole(states), w.record())
	}
	mustFail(t, apply.Confirm(background, w.engine().State), apply.ErrNoneWaits)
}

func TestConfirmed(t *testing.T) {
	w, states, _ := start(t, oldState(t), newState(t))
	done := make(chan error, 1)
	go func() { done <- to(background, w.engine(confirmIn(time.Hour)), newState(t)) }()
	waits := func() bool {
		s, err := w.engine().Status(background)
		return err == nil && s.Condition == apply.UnderWay && s.Waits
	}
	for deadline := time.Now().Add(10 * time.Minute); !waits() && time.Now().Before(deadline); {
		time.Sleep(5 * time.Millisecond)
	}
	if err := apply.Confirm(background, w.engine().State); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if w.whole(states) != "new" || w.journal() != nil {
		t.Errorf("%q", w.whole(states))
	}
	mustFail(t, apply.Confirm(background, w.engine().State), apply.ErrNoneWaits)
}

func TestStoppedWhileWaiting(t *testing.T) {
	w, states, _ := start(t, oldState(t), newState(t))
	synctest.Test(t, func(t *testing.T) { // its clock goes on only while the run waits
		ctx, cancel := context.WithTimeout(background, time.Minute)
		defer cancel()
		err := to(ctx, w.engine(confirmIn(time.Hour)), newState(t))
		mustFail(t, err, context.DeadlineExceeded)
	})
	if w.whole(states) != "old" || w.journal() != nil {
		t.Errorf("%q", w.whole(states))
	}
}

// A run that ended while it waited is undone by the next, unless it was
// confirmed before.
func TestCrashWhileWaiting(t *testing.T) {
	for _, confirmed := range []bool{false, true} {
		w, states, calls := start(t, oldState(t), newState(t))
		w.crashed(calls, true, newState(t), confirmIn(time.Hour))
		if w.whole(states) != "new" {
			t.Fatal("the crash came too early for this test")
		}
		mustFail(t, apply.Confirm(background, w.engine().State), apply.ErrNoneWaits)
		want := "old"
		if confirmed {
			want = "new"
			if err := w.engine().State.Confirm(w.journal().ID); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.engine().Recover(background); err != nil {
			t.Error(err)
		}
		if got := w.whole(states); got != want || w.journal() != nil {
			t.Errorf("confirmed %v: %q", confirmed, got)
		}
	}
}

// A change of sysctls is undone with the rest.
func TestSysctlsAreUndone(t *testing.T) {
	with := build(t, nodePort(service("web", 1, 5), 30080))
	_, _, calls := start(t, nil, with)
	for n := 1; n <= calls; n++ {
		w, states, _ := start(t, nil, with)
		w.crashed(n, true, with)
		if err := w.engine().Recover(background); err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"old": "0", "new": "1"}[w.whole(states)]
		if w.sysctl() != want {
			t.Errorf("crash at call %d: %s with the state %s", n, w.sysctl(), w.whole(states))
		}
		w, states, _ = start(t, nil, with)
		w.kernel.Faults = map[int]fake.Fault{len(w.kernel.Calls()) + n: {}}
		_ = to(background, w.engine(), with)
		if w.sysctl() != map[string]string{"old": "0", "new": "1"}[w.whole(states)] {
			t.Errorf("failure of call %d: %s with the state %s", n, w.sysctl(), w.whole(states))
		}
	}
}

// lying says that a call went well and does nothing, once, for one tool.
type lying struct {
	apply.Runner
	tool string
}

func (l *lying) Run(ctx context.Context, in apply.Input) ([]byte, error) {
	if in.Tool == l.tool && !in.Isolated && !slices.Contains(in.Args, "--test") {
		l.tool = ""
		return nil, nil
	}
	return l.Runner.Run(ctx, in)
}

// What is not there after it was written is a failure, whatever the tools say.
func TestReadBack(t *testing.T) {
	for _, tool := range []string{"iptables-restore", "ip6tables-restore"} {
		w, states, _ := start(t, oldState(t), newState(t))
		e := w.engine()
		e.Target = &iptables.Target{Runner: &lying{w.kernel, tool}}
		err := to(background, e, newState(t))
		if err == nil || !strings.Contains(err.Error(), "the kernel does not hold what was written") {
			t.Errorf("%s: %v", tool, err)
		}
		w.afterFailure(tool+" lies", states, err, newState(t))
	}
}
