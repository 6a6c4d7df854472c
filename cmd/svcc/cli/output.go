package cli

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"svcc/compiler"
	"svcc/emit"
)

// writeRuleset writes a result where -o says. Files appear whole or not at all.
func writeRuleset(r *compiler.Result, bare bool, to string, stdout io.Writer) error {
	rs, err := r.Ruleset(bare)
	if err != nil {
		return exit{exitRefused, err}
	}
	switch {
	case to == "":
		return errors.New("-o names no file: FILE, DIR/ or - for standard output")
	case to == "-":
		_, err = stdout.Write(rs.Marshal())
	case os.IsPathSeparator(to[len(to)-1]) || isDir(to):
		err = writeDir(rs, to)
	default:
		err = writeFile(to, rs.Marshal())
	}
	if err != nil {
		return exit{exitUsage, fmt.Errorf("cannot write: %w", err)}
	}
	return nil
}

func isDir(path string) bool {
	i, err := os.Stat(path)
	return err == nil && i.IsDir()
}

// writeDir writes a file a tool, and the whole. Nothing is replaced before
// all of it is written: a disk that is full leaves what was there.
func writeDir(rs *emit.Ruleset, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var files []pending
	defer func() {
		for _, f := range files {
			f.drop()
		}
	}()
	written := map[string]bool{}
	add := func(name string, text []byte) error {
		written[name] = true
		f, err := prepare(filepath.Join(dir, name), text)
		files = append(files, f)
		return err
	}
	for _, s := range emit.Files(rs.Sections) {
		if err := add(s.FileName(), s.Text); err != nil {
			return err
		}
	}
	if err := add("svcc.rules", rs.Marshal()); err != nil {
		return err
	}
	for _, f := range files[:len(files)-1] {
		if err := f.put(); err != nil {
			return err
		}
	}
	if err := removeStale(dir, written); err != nil {
		return err
	}
	return files[len(files)-1].put()
}

// removeStale takes away what an earlier build in another mode left.
func removeStale(dir string, written map[string]bool) error {
	for _, name := range emit.FileNames() {
		if written[name] {
			continue
		}
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// pending is a file that is written, and not yet in its place, path: a file beside
// it, or, where there is something else than a regular file, that and the text.
type pending struct {
	path string
	temp *os.File
	open *os.File
	text []byte
}

func prepare(path string, text []byte) (f pending, err error) {
	f.path = path
	i, err := os.Stat(path)
	if err == nil && !i.Mode().IsRegular() {
		f.text = text
		f.open, err = os.OpenFile(path, os.O_WRONLY, 0)
		return f, err
	}
	beside := filepath.Join(filepath.Dir(path), ".svcc-"+rand.Text())
	if f.temp, err = os.OpenFile(beside, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644); err != nil {
		return f, atPath(path, err)
	}
	if i != nil {
		err = f.temp.Chmod(i.Mode().Perm()) // the file keeps its own
	}
	if err == nil {
		_, err = f.temp.Write(text)
	}
	if err == nil {
		err = f.temp.Sync()
	}
	return f, atPath(path, err)
}

// atPath gives an error of the file beside path the name that was asked for.
func atPath(path string, err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		at.Path = path
	}
	return err
}

// put brings the file to its place. It is closed before: Windows moves no open file.
func (f pending) put() error {
	if f.temp != nil {
		if err := f.temp.Close(); err != nil {
			return err
		}
		return os.Rename(f.temp.Name(), f.path)
	}
	_, err := f.open.Write(f.text)
	return errors.Join(err, f.open.Close())
}

// drop forgets the file, unless it is in its place.
func (f pending) drop() {
	switch {
	case f.temp != nil:
		_ = f.temp.Close()
		_ = os.Remove(f.temp.Name()) // is gone if it was put
	case f.open != nil:
		_ = f.open.Close()
	}
}

// writeFile replaces a regular file in one step; what is no regular file (a
// pipe, /dev/stdout) is written to as it is.
func writeFile(path string, text []byte) error {
	f, err := prepare(path, text)
	defer f.drop()
	if err != nil {
		return err
	}
	return f.put()
}
