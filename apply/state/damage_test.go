package state_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"svcc/apply/state"
)

// What is no file of ours is neither waited for nor believed.
func TestStrangeFiles(t *testing.T) {
	for name, make := range map[string]func(path string) error{
		"record.json":  func(p string) error { return unix.Mkfifo(p, 0o600) },
		"journal.json": func(p string) error { return os.Symlink("/dev/zero", p) },
	} {
		dir := t.TempDir()
		if err := make(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		done := time.AfterFunc(10*time.Minute, func() { panic(name + " is waited for") })
		_, recordErr := state.At(dir).Record()
		_, journalErr := state.At(dir).Journal()
		done.Stop()
		if (recordErr != nil) != (name == "record.json") || (journalErr != nil) != (name == "journal.json") {
			t.Errorf("%s: record %v, journal %v", name, recordErr, journalErr)
		}
	}
}

// A journal that names nothing to go back to is not a run to complete or undo.
func TestEmptyJournal(t *testing.T) {
	for _, text := range []string{"null", "{}", `{"record":{}}`, `{"undo":"../../etc/passwd"}`} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "journal.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if j, err := state.At(dir).Journal(); err == nil {
			t.Errorf("%s is taken for %+v", text, j)
		}
	}
}
