package state

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"svcc/apply/sysctl"
)

func names(t *testing.T, d *Dir) []string {
	t.Helper()
	entries, err := os.ReadDir(d.path)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func locked(t *testing.T) *Dir {
	t.Helper()
	d := At(filepath.Join(t.TempDir(), "a", "state"))
	unlock, err := d.Lock(context.Background(), 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(unlock)
	return d
}

func begin(t *testing.T, d *Dir, id, ruleset, undo string) Record {
	t.Helper()
	r := Record{ID: id, Who: "me", Previous: "p", Made: []string{"x"}}
	if err := d.Begin(r, []byte(ruleset), []byte(undo), []sysctl.Saved{{Name: "net/ipv4/vs/conntrack", Value: "0"}}, true); err != nil {
		t.Fatal(err)
	}
	r.Current = Sum([]byte(ruleset))
	return r
}

func TestNothingIsThereAtFirst(t *testing.T) {
	d := At(filepath.Join(t.TempDir(), "state"))
	r, err := d.Record()
	if err != nil || r.ID != "" {
		t.Errorf("%+v, %v", r, err)
	}
	j, err := d.Journal()
	if err != nil || j != nil || d.Busy() || d.Confirmed("") {
		t.Errorf("%+v, %v", j, err)
	}
	if _, err := os.Stat(d.path); err == nil {
		t.Error("looking made the directory")
	}
}

// A run is in the journal from Begin on, and in the record from Finish on.
func TestFinish(t *testing.T) {
	d := locked(t)
	want := begin(t, d, "1", "rules", "before")
	j, err := d.Journal()
	if err != nil || j == nil || j.ID != "1" || j.Current != want.Current || !j.Confirm || j.Sysctled[0].Name != "net/ipv4/vs/conntrack" {
		t.Fatalf("%+v, %v", j, err)
	}
	if undo, err := d.Undo(j); err != nil || string(undo) != "before" {
		t.Errorf("undo %q, %v", undo, err)
	}
	if r, _ := d.Record(); r.ID != "" {
		t.Errorf("recorded before the end: %+v", r)
	}
	if err := d.Finish(); err != nil {
		t.Fatal(err)
	}
	r, err := d.Record()
	if err != nil || r.ID != "1" || r.Current != want.Current || r.Who != "me" || !slices.Equal(r.Made, want.Made) {
		t.Errorf("%+v, %v", r, err)
	}
	if text, err := d.Ruleset(r.Current); err != nil || string(text) != "rules" {
		t.Errorf("ruleset %q, %v", text, err)
	}
	if got := names(t, d); !slices.Equal(got, []string{r.Current + ".rules", "lock", "record.json"}) {
		t.Errorf("left: %v", got)
	}
}

func TestDrop(t *testing.T) {
	d := locked(t)
	if err := d.Save(Record{ID: "0"}, []byte("first")); err != nil {
		t.Fatal(err)
	}
	before := names(t, d)
	begin(t, d, "1", "rules", "before")
	if err := d.Drop(); err != nil {
		t.Fatal(err)
	}
	if j, err := d.Journal(); j != nil || err != nil {
		t.Errorf("%+v, %v", j, err)
	}
	if r, _ := d.Record(); r.ID != "0" || r.Current != Sum([]byte("first")) {
		t.Errorf("%+v", r)
	}
	if got := names(t, d); !slices.Equal(got, before) {
		t.Errorf("left: %v, want %v", got, before)
	}
	if err := d.Drop(); err != nil {
		t.Errorf("a second time: %v", err)
	}
}

// Current and previous are kept, older ones and what a crash left are not, and
// what is not svcc's is left alone.
func TestSweep(t *testing.T) {
	d := locked(t)
	for _, name := range []string{".record.json12345", ".journal.json9", strings.Repeat("a", 64) + ".undo", "notes.txt", ".hidden"} {
		if err := os.WriteFile(d.file(name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var r Record
	for _, text := range []string{"one", "two", "three"} {
		r = Record{ID: text, Previous: r.Current}
		if err := d.Save(r, []byte(text)); err != nil {
			t.Fatal(err)
		}
		r, _ = d.Record()
	}
	want := []string{Sum([]byte("two")) + ".rules", Sum([]byte("three")) + ".rules", "lock", "record.json", "notes.txt", ".hidden"}
	slices.Sort(want)
	if got := names(t, d); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// Files that were changed behind svcc's back are found.
func TestDamage(t *testing.T) {
	d := locked(t)
	begin(t, d, "1", "rules", "before")
	j, _ := d.Journal()
	for _, name := range []string{j.Current + ".rules", j.Undo + ".undo"} {
		if err := os.WriteFile(d.file(name), []byte("changed"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.Ruleset(j.Current); err == nil {
		t.Error("a changed ruleset is read")
	}
	if _, err := d.Undo(j); err == nil {
		t.Error("a changed undo is read")
	}
	if err := os.Remove(d.file(j.Current + ".rules")); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Ruleset(j.Current); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "svcc remove") {
		t.Errorf("a ruleset that is gone: %v, which says not what to do", err)
	}
	if err := os.WriteFile(d.file(journalFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if j, err := d.Journal(); err == nil || j != nil {
		t.Errorf("half a journal is read: %+v", j)
	}
}

// A Begin that fails leaves no journal of its own, and the one that is there.
func TestBeginFails(t *testing.T) {
	d := locked(t)
	begin(t, d, "1", "rules", "before")
	if err := os.Mkdir(d.file(Sum([]byte("undo2"))+".undo"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := d.Begin(Record{ID: "2"}, []byte("other"), []byte("undo2"), nil, false); err == nil {
		t.Fatal("no error")
	}
	j, err := d.Journal()
	if err != nil || j == nil || j.ID != "1" {
		t.Fatalf("%+v, %v", j, err)
	}
	if _, err := d.Undo(j); err != nil {
		t.Error(err)
	}
}

func TestLock(t *testing.T) {
	d := locked(t)
	if !d.Busy() {
		t.Error("locked, and not busy")
	}
	ctx := context.Background()
	begun := time.Now()
	if _, err := At(d.path).Lock(ctx, 60*time.Millisecond); !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), "process ") {
		t.Errorf("%v", err)
	}
	if waited := time.Since(begun); waited < 60*time.Millisecond {
		t.Errorf("waited %s only", waited)
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := At(d.path).Lock(cancelled, time.Minute); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// One that waits gets the lock when the other is done.
func TestLockIsWaitedFor(t *testing.T) {
	path := t.TempDir()
	unlock, err := At(path).Lock(context.Background(), 0)
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan error, 1)
	go func() {
		unlock, err := At(path).Lock(context.Background(), time.Minute)
		if err == nil {
			unlock()
		}
		got <- err
	}()
	select {
	case err := <-got:
		t.Fatalf("two have the lock: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	unlock()
	if err := <-got; err != nil {
		t.Fatal(err)
	}
	if At(path).Busy() {
		t.Error("busy after all are done")
	}
}

func TestConfirmed(t *testing.T) {
	d := locked(t)
	begin(t, d, "1", "rules", "before")
	if d.Confirmed("1") {
		t.Error("confirmed by nobody")
	}
	if err := d.Confirm("1"); err != nil {
		t.Fatal(err)
	}
	if !d.Confirmed("1") || d.Confirmed("2") {
		t.Error("the confirmation is not of run 1")
	}
	if err := d.Drop(); err != nil || d.Confirmed("1") {
		t.Errorf("a confirmation outlives its run: %v", err)
	}
}

// A tool that lives on is waited for; a dead one, another process by its number,
// and one from before the machine started are not.
func TestAwaitChild(t *testing.T) {
	d := locked(t)
	begin(t, d, "1", "rules", "before")
	j, _ := d.Journal()
	ctx := context.Background()
	if err := d.AwaitChild(ctx, j, 0); err != nil {
		t.Errorf("no child: %v", err)
	}
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	d.Child(cmd.Process.Pid)
	if err := At(d.path).AwaitChild(ctx, j, 50*time.Millisecond); !errors.Is(err, ErrChild) {
		t.Errorf("a living child: %v", err)
	}
	before := *j
	before.Boot = "another"
	if err := d.AwaitChild(ctx, &before, 0); err != nil {
		t.Errorf("a child from before the machine started: %v", err)
	}
	done := make(chan error, 1)
	go func() { done <- d.AwaitChild(ctx, j, time.Minute) }()
	// It stays as a zombie until it is waited for, which is as good as gone.
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("a child that ended: %v", err)
	}
	_ = cmd.Wait()
	if err := os.WriteFile(d.file(childFile), []byte("1 not-its-start\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.AwaitChild(ctx, j, 0); err != nil {
		t.Errorf("another process by the child's number: %v", err)
	}
	d.Child(cmd.Process.Pid)
	if err := d.AwaitChild(ctx, j, 0); err != nil {
		t.Errorf("a child that had ended before it was noted: %v", err)
	}
}
