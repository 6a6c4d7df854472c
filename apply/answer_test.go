package apply_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"svcc/apply"
	"svcc/apply/fake"
)

// wrongAnswers are what a tool may print with exit code 0 instead of the truth.
var wrongAnswers = map[string]func([]byte) []byte{
	"empty":          func([]byte) []byte { return nil },
	"half":           func(b []byte) []byte { return b[:len(b)/2] },
	"without COMMIT": func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("COMMIT\n"), nil) },
	"cut in COMMIT":  func(b []byte) []byte { out, _, _ := bytes.Cut(b, []byte("MIT\n")); return out },
	"without head":   func(b []byte) []byte { _, out, _ := bytes.Cut(b, []byte("*")); return out },
	"without chains": func(b []byte) []byte {
		var out []byte
		for line := range bytes.Lines(b) {
			if line[0] != ':' {
				out = append(out, line...)
			}
		}
		return out
	},
	"garbage":         func(b []byte) []byte { return bytes.Repeat([]byte("\x00\xff-A KUBE\n"), 20) },
	"garbage between": func(b []byte) []byte { return bytes.Replace(b, []byte(":"), []byte("oops\n:"), 1) },
	"another table":   func(b []byte) []byte { return bytes.Replace(b, []byte("*"), []byte("*raw\nCOMMIT\n*"), 1) },
}

// Whatever single answer of a tool is wrong, in whatever way, the kernel ends in
// the old state with an error, or in the new one without.
func TestAnyAnswerIsWrong(t *testing.T) {
	_, _, calls := start(t, oldState(t), newState(t))
	for kind, answer := range wrongAnswers {
		disbelieved := 0
		for n := 1; n <= calls; n++ {
			w, states, _ := start(t, oldState(t), newState(t))
			w.kernel.Faults = map[int]fake.Fault{len(w.kernel.Calls()) + n: {Answer: answer}}
			err := to(background, w.engine(), newState(t))
			if errors.Is(err, apply.ErrAnswer) {
				disbelieved++
			}
			w.afterFailure(fmt.Sprintf("%s, call %d", kind, n), states, err, newState(t))
		}
		if disbelieved < 8 { // two tables of two families, before and after
			t.Errorf("%s: %d answers were not believed, want 8", kind, disbelieved)
		}
	}
}

// Where no answer is right any more, svcc says of the kernel only what it knows:
// that nothing was written yet, or that it cannot tell.
func TestNoAnswerIsRight(t *testing.T) {
	_, _, calls := start(t, oldState(t), newState(t))
	for kind, answer := range wrongAnswers {
		unknown := 0
		for n := 1; n <= calls; n++ {
			w, states, _ := start(t, oldState(t), newState(t))
			w.kernel.Faults = map[int]fake.Fault{}
			for i := n; i < n+100; i++ {
				w.kernel.Faults[len(w.kernel.Calls())+i] = fake.Fault{Answer: answer}
			}
			writes := w.kernel.Writes()
			err := to(background, w.engine(), newState(t))
			if err == nil {
				t.Fatalf("%s from call %d on: no error", kind, n)
			}
			if strings.Contains(err.Error(), "no rule was changed") {
				t.Errorf("%s from call %d on: it cannot know that: %v", kind, n, err)
			}
			if w.kernel.Writes() > writes {
				unknown++
				mustFail(t, err, apply.ErrHalfMade)
				if !strings.Contains(err.Error(), "not known") || w.journal() == nil {
					t.Errorf("%s from call %d on: %v, journal %v", kind, n, err, w.journal())
				}
			} else if w.whole(states) != "old" || w.journal() != nil {
				t.Errorf("%s from call %d on: %q, journal %v", kind, n, w.whole(states), w.journal())
			}
			w.kernel.Faults = nil
			if err := w.engine().Recover(background); err != nil || w.whole(states) == "" || w.journal() != nil {
				t.Errorf("%s from call %d on, then mended: %v, %q", kind, n, err, w.whole(states))
			}
			if err := to(background, w.engine(), newState(t)); err != nil || w.whole(states) != "new" {
				t.Errorf("%s from call %d on, then again: %v, %q", kind, n, err, w.whole(states))
			}
		}
		if unknown == 0 {
			t.Errorf("%s: nothing was written before", kind)
		}
	}
}

// Status and remove believe no more than apply does.
func TestWrongAnswersElsewhere(t *testing.T) {
	for kind, answer := range wrongAnswers {
		for name, run := range map[string]func(w *world) error{
			"status": func(w *world) error { _, err := w.engine().Status(background); return err },
			"remove": func(w *world) error { return to(background, w.engine(), nil) },
		} {
			w := newWorld(t)
			w.apply(oldState(t))
			before := w.kernel.SaveAll()
			w.kernel.Faults = map[int]fake.Fault{}
			for i := 3; i < 100; i++ { // after two versions
				w.kernel.Faults[len(w.kernel.Calls())+i] = fake.Fault{Answer: answer}
			}
			mustFail(t, run(w), apply.ErrAnswer)
			if w.kernel.SaveAll() != before {
				t.Errorf("%s, %s: the kernel was written to", kind, name)
			}
		}
	}
}

// A tool that does not end is killed with its children, and has failed.
func TestToolTimeout(t *testing.T) {
	dir := t.TempDir()
	child := filepath.Join(dir, "child")
	script := filepath.Join(dir, "tool")
	text := "#!/bin/sh\nsleep 1000 &\necho $! > " + child + "\nwait\n"
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := apply.Exec{Limit: 500 * time.Millisecond}.Run(context.Background(), apply.Input{Tool: script})
	mustFail(t, err, apply.ErrToolTimeout)
	if !strings.Contains(err.Error(), "--tool-timeout") || !strings.Contains(err.Error(), script) {
		t.Errorf("%v", err)
	}
	pid, readErr := os.ReadFile(child)
	if readErr != nil {
		t.Fatal(readErr)
	}
	stat := "/proc/" + strings.TrimSpace(string(pid)) + "/stat"
	for deadline := time.Now().Add(10 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		text, err := os.ReadFile(stat)
		if err != nil || strings.Contains(string(text), ") Z ") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("its child lives on: %s", text)
		}
	}
	if out, err := (apply.Exec{Limit: 10 * time.Minute}).Run(context.Background(), apply.Input{Tool: "echo", Args: []string{"yes"}}); err != nil || string(out) != "yes\n" {
		t.Errorf("one that ends: %q, %v", out, err)
	}
}
