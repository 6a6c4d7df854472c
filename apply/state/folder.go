package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"
)

// folder is a state directory that was opened and checked. Everything in it is
// reached by its descriptor: what its path leads to later does not matter.
type folder struct {
	root *os.Root
	dir  *os.File // the same directory
}

// open opens the directory once. It is fs.ErrNotExist if there is none, unless
// make is to make it.
func (d *Dir) open(make bool) (*folder, error) {
	if d.opened != nil {
		return d.opened, nil
	}
	path, err := locate(d.path, make)
	if err != nil {
		return nil, err
	}
	f, err := openFolder(path)
	if err == nil {
		d.opened = f
	}
	return f, err
}

// openFolder opens what locate found. That nobody replaced it meanwhile, who may
// not, is what the descriptor shows.
func openFolder(path string) (*folder, error) {
	was, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	info, err := root.Stat(".")
	if err == nil {
		err = checkDir(path, info)
	}
	if err == nil && !os.SameFile(was, info) {
		err = &UntrustedError{path, "was replaced while it was opened", "find out by whom"}
	}
	var dir *os.File
	if err == nil {
		dir, err = root.Open(".")
	}
	if err != nil {
		root.Close()
		return nil, err
	}
	return &folder{root, dir}, nil
}

// openFile opens one of our files, which is an UntrustedError if it is not a
// regular one of ours alone: that is asked before and after opening it. Symbolic
// links are not followed, and nothing is waited for.
func (d *Dir) openFile(name string, flag int) (*os.File, error) {
	f, err := d.open(false)
	if err != nil {
		return nil, err
	}
	info, err := f.root.Lstat(name)
	if err == nil {
		err = checkFile(d.file(name), info)
	}
	if err != nil && (flag&os.O_CREATE == 0 || !errors.Is(err, fs.ErrNotExist)) {
		return nil, err
	}
	fd, err := unix.Openat(int(f.dir.Fd()), name, flag|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: d.file(name), Err: err}
	}
	file := os.NewFile(uintptr(fd), d.file(name))
	if info, err = file.Stat(); err == nil {
		err = checkFile(d.file(name), info)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// replace writes a file in one step: a new one is renamed to its name.
func (d *Dir) replace(name string, text []byte) error {
	f, err := d.open(false)
	if err != nil {
		return err
	}
	t, err := renameio.NewPendingFile(name, renameio.WithRoot(f.root), renameio.WithStaticPermissions(0o600))
	if err == nil {
		defer t.Cleanup()
		_, err = t.Write(text)
	}
	if err == nil {
		err = t.CloseAtomicallyReplace()
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", d.file(name), err)
	}
	return nil
}

// rename gives a file another's name.
func (d *Dir) rename(from, to string) error {
	f, err := d.open(false)
	if err != nil {
		return err
	}
	return f.root.Rename(from, to)
}

// remove removes a name, and follows nothing. It is no error that it is not there.
func (d *Dir) remove(name string) error {
	f, err := d.open(false)
	if err == nil {
		err = f.root.Remove(name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// sync makes renames and removals last.
func (d *Dir) sync() error {
	f, err := d.open(false)
	if err != nil {
		return err
	}
	return f.dir.Sync()
}

// names lists what the directory holds.
func (d *Dir) names() ([]string, error) {
	f, err := d.open(false)
	if err != nil {
		return nil, err
	}
	again, err := f.root.Open(".") // to read it from its beginning
	if err != nil {
		return nil, err
	}
	defer again.Close()
	return again.Readdirnames(-1)
}

// Check looks at the directory, at each file that is ours by its name, and at what
// record and journal would have put back. It is an UntrustedError if others can
// change or may have written one, nil if there is none yet. Damage is for those to
// tell who need what is damaged.
func (d *Dir) Check() error {
	names, err := d.names()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := d.checkName(name); err != nil {
			return err
		}
	}
	_, recordErr := d.Record()
	_, journalErr := d.Journal()
	var untrusted *UntrustedError
	if errors.As(errors.Join(recordErr, journalErr), &untrusted) {
		return untrusted
	}
	return nil
}

func (d *Dir) checkName(name string) error {
	if !fixed[name] && !ours(name) {
		return nil
	}
	info, err := d.opened.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a run that is under way was done with it
	}
	if err != nil {
		return err
	}
	return checkFile(d.file(name), info)
}
