package apply_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"svcc/apply"
	"svcc/apply/state"
	"svcc/apply/sysctl"
)

// commands are all that deals with the state directory.
var commands = map[string]func(w *world) error{
	"apply":    func(w *world) error { return to(background, w.engine(), newState(w.t)) },
	"remove":   func(w *world) error { return to(background, w.engine(), nil) },
	"dry run":  func(w *world) error { return to(background, w.engine(dryRun), newState(w.t)) },
	"rollback": func(w *world) error { _, err := w.engine().Rollback(background); return err },
	"recover":  func(w *world) error { return w.engine().Recover(background) },
	"status":   func(w *world) error { _, err := w.engine().Status(background); return err },
	"confirm":  func(w *world) error { return apply.Confirm(background, state.At(w.path)) },
}

// refusesAll wants every command to refuse, by a word of what is wrong, and the
// kernel, the settings and the directory to be as they were.
func (w *world) refusesAll(what, word string) {
	w.t.Helper()
	before, files, setting := w.kernel.SaveAll(), listing(w.t, w.path), w.sysctl()
	for name, run := range commands {
		err := run(w)
		var u *state.UntrustedError
		if !errors.As(err, &u) || !strings.Contains(err.Error(), word) {
			w.t.Errorf("%s: %s: %v; want an UntrustedError with %q", what, name, err, word)
		}
		if w.kernel.SaveAll() != before || listing(w.t, w.path) != files || w.sysctl() != setting {
			w.t.Fatalf("%s: %s wrote all the same", what, name)
		}
	}
}

// listing is what a folder holds, links not followed.
func listing(t testing.TB, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&b, info.Name(), info.Mode(), info.Size(), info.ModTime())
	}
	return b.String()
}

// A state directory that others could have written decides nothing, with a run
// that was interrupted or without one.
func TestUntrustedState(t *testing.T) {
	for _, c := range []struct {
		name, word string
		make       func(path string) error
	}{
		{"directory", "chmod go-w", func(p string) error { return os.Chmod(p, 0o777) }},
		{"folder above", "chmod go-w", func(p string) error { return os.Chmod(filepath.Dir(p), 0o777) }},
		{"lock a pipe", "named pipe", func(p string) error {
			return replaced(p, "lock", func(f string) error { return unix.Mkfifo(f, 0o600) })
		}},
		{"lock a link", "symbolic link", func(p string) error {
			return replaced(p, "lock", func(f string) error { return os.Symlink("/etc/hostname", f) })
		}},
		{"child a link", "symbolic link", func(p string) error {
			return replaced(p, "child", func(f string) error { return os.Symlink("/etc/hostname", f) })
		}},
		{"confirm a pipe", "named pipe", func(p string) error {
			return replaced(p, "confirm", func(f string) error { return unix.Mkfifo(f, 0o600) })
		}},
		{"record", "chmod go-w", func(p string) error { return os.Chmod(filepath.Join(p, "record.json"), 0o666) }},
	} {
		for _, interrupted := range []bool{false, true} {
			w, _, calls := start(t, oldState(t), newState(t))
			if interrupted {
				w.crashed(calls-4, true, newState(t))
			}
			if err := c.make(w.path); err != nil {
				t.Fatal(err)
			}
			w.refusesAll(fmt.Sprintf("%s, interrupted %v", c.name, interrupted), c.word)
		}
	}
}

func replaced(dir, name string, by func(path string) error) error {
	path := filepath.Join(dir, name)
	_ = os.Remove(path)
	return by(path)
}

// What a record or a journal wants put back is put back only if svcc sets it.
func TestUntrustedSettings(t *testing.T) {
	for _, s := range []sysctl.Saved{
		{Name: "../../etc/x", Value: "0"}, {Name: "kernel/core_pattern", Value: "|/tmp/x"}, {Name: sysctl.RouteLocalnet, Value: "1 2"},
	} {
		for _, file := range []string{"record.json", "journal.json"} {
			w, _, calls := start(t, oldState(t), newState(t))
			for _, name := range []string{"etc/x", "proc/sys/kernel/core_pattern"} {
				path := filepath.Join(w.root, name)
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("core"), 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			if file == "journal.json" {
				w.crashed(calls-4, true, newState(t))
			}
			w.addSetting(file, s)
			w.refusesAll(file+" with "+s.Name, file)
			for _, name := range []string{"etc/x", "proc/sys/kernel/core_pattern"} {
				if text, err := os.ReadFile(filepath.Join(w.root, name)); err != nil || string(text) != "core" {
					t.Errorf("%s: %s is now %q, %v", file, name, text, err)
				}
			}
		}
	}
}

// addSetting edits a file of the state directory as its owner could.
func (w *world) addSetting(file string, s sysctl.Saved) {
	w.t.Helper()
	path := filepath.Join(w.path, file)
	text, err := os.ReadFile(path)
	all := map[string]any{}
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	for _, key := range []string{"sysctls", "sysctled"} {
		all[key] = []sysctl.Saved{s}
	}
	if err == nil {
		text, err = json.Marshal(all)
	}
	if err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}
