package state

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// DefaultPath is where the state is kept unless another place is asked for.
const DefaultPath = "/var/lib/svcc"

// Dir is a state directory, which need not exist until it is locked. Everything
// that writes wants the lock held, but for Confirm. What reads or writes gives an
// UntrustedError where others can change the directory, or the file in question.
type Dir struct {
	path   string
	opened *folder  // once it was there, and checked
	child  *os.File // open between Begin and Finish or Drop
}

// At gives the state directory at a path.
func At(path string) *Dir { return &Dir{path: path} }

// Path is where the directory is.
func (d *Dir) Path() string { return d.path }

const (
	recordFile  = "record.json"
	journalFile = "journal.json"
	lockFile    = "lock"
	childFile   = "child"
	confirmFile = "confirm"
	seenFile    = "seen"

	acceptedFile = "accepted.json"
	rulesSuffix  = ".rules"
	undoSuffix   = ".undo"
)

func (d *Dir) file(name string) string { return filepath.Join(d.path, name) }

// write replaces a file in one step and makes it last.
func (d *Dir) write(name string, text []byte) error {
	if err := d.replace(name, text); err != nil {
		return err
	}
	return d.sync()
}

// maxFile is more than any state file has; a record of 10,000 services has 40 MB.
const maxFile = 1 << 30

// read reads one of our files. One that is too large is an error.
func (d *Dir) read(name string) ([]byte, error) {
	f, err := d.openFile(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	i, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if i.Size() > maxFile {
		return nil, fmt.Errorf("%s is no file that svcc has written", d.file(name))
	}
	return io.ReadAll(io.LimitReader(f, maxFile))
}

// isSum says whether a text is a sum as sumOf writes it: nothing else may become
// part of a path.
func isSum(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == sha256.Size
}

// keep stores a text under its sum, which it returns. A text that is there
// already is not written again.
func (d *Dir) keep(text []byte, suffix string) (string, error) {
	sum := sumOf(text)
	if old, err := d.read(sum + suffix); err == nil && bytes.Equal(old, text) {
		return sum, nil
	}
	return sum, d.write(sum+suffix, text)
}

func sumOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// load reads a text by its sum.
func (d *Dir) load(sum, suffix string) ([]byte, error) {
	if !isSum(sum) {
		return nil, fmt.Errorf("%s names no state of the rules (%q); svcc remove starts afresh", d.path, sum)
	}
	const hint = "put it back from a copy, or take everything away with svcc remove and apply again"
	text, err := d.read(sum + suffix)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("a file that the last run left is gone: %w; %s", err, hint)
	}
	if err != nil {
		return nil, err
	}
	if sumOf(text) != sum {
		return nil, fmt.Errorf("%s was changed since it was written; %s", d.file(sum+suffix), hint)
	}
	return text, nil
}

// Ruleset reads the ruleset file that a Record names.
func (d *Dir) Ruleset(sum string) ([]byte, error) { return d.load(sum, rulesSuffix) }

// Seen reads what KeepSeen kept; nil if nothing.
func (d *Dir) Seen() ([]byte, error) {
	text, err := d.read(seenFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return text, err
}

// KeepSeen keeps what a Target wants to see again. It has a sum of its own, and
// nothing is lost with it but time.
func (d *Dir) KeepSeen(text []byte) error { return d.replace(seenFile, text) }

// readJSON reads a file into v and says whether there is one.
func (d *Dir) readJSON(name string, v any) (bool, error) {
	text, err := d.read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := json.Unmarshal(text, v); err != nil {
		return false, fmt.Errorf("%s cannot be read: %w", d.file(name), err)
	}
	return true, nil
}

func (d *Dir) writeJSON(name string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return d.write(name, append(text, '\n'))
}

// sweep removes what neither record nor journal names, left by runs that were
// interrupted as well. What cannot be removed is tried again next time.
func (d *Dir) sweep() {
	var r Record
	if _, err := d.readJSON(recordFile, &r); err != nil {
		return
	}
	var j Journal
	if _, err := d.readJSON(journalFile, &j); err != nil {
		return
	}
	named := map[string]bool{j.Undo + undoSuffix: true}
	for _, sum := range []string{r.Current, r.Previous, j.Current, j.Previous} {
		named[sum+rulesSuffix] = true
	}
	var refused []string
	names, _ := d.names()
	for _, name := range names {
		switch {
		case strings.HasSuffix(name, refusedSuffix):
			refused = append(refused, name)
		case !named[name] && !fixed[name] && ours(name):
			_ = d.remove(name)
		}
	}
	d.sweepRefused(refused)
}

// fixed are the names of files that are there once at most.
var fixed = map[string]bool{lockFile: true, recordFile: true, journalFile: true, childFile: true, confirmFile: true, seenFile: true, acceptedFile: true}

// ours says whether a name is one that this package gives by content, or that
// renameio gives to what it has not yet renamed.
func ours(name string) bool {
	for _, part := range []string{"." + recordFile, "." + journalFile, "." + confirmFile, "." + seenFile, "." + acceptedFile, rulesSuffix, undoSuffix} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}
