package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// UntrustedError is a state directory, a folder above it or a file in it that
// somebody other than the effective user can change, or may have made. Nothing
// is read from it and nothing is written.
type UntrustedError struct {
	Path  string
	Fault string // what is wrong with it: "has mode 0777: ..."
	Todo  string // what to do about it: "chmod go-w PATH"
}

func (e *UntrustedError) Error() string {
	return fmt.Sprintf("%s %s; the state is not trusted, and nothing was written: %s", e.Path, e.Fault, e.Todo)
}

// othersWrite are the permissions that let group or others write. A write
// permission of an access control list shows in the group's (acl(5)).
const othersWrite = 0o022

// maxLinks is of symbolic links how many a path may lead through (path_resolution(7)).
const maxLinks = 40

// locate follows a path from the top, and gives one without symbolic links. Each
// folder is checked before what it holds is looked at, so that nobody but root
// and the effective user can make it lead elsewhere afterwards. make makes what
// is missing.
func locate(path string, make bool) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	at, rest := "/", parts(abs)
	for links := 0; ; {
		info, err := lookAt(at, make)
		switch {
		case err != nil:
			return "", err
		case info.Mode()&fs.ModeSymlink == 0 && len(rest) == 0:
			return at, checkDir(at, info)
		case info.Mode()&fs.ModeSymlink == 0:
			if err := checkParent(at, info); err != nil {
				return "", err
			}
		case links == maxLinks:
			return "", &os.PathError{Op: "open", Path: path, Err: syscall.ELOOP}
		default:
			target, err := checkedLink(at, info)
			if err != nil {
				return "", err
			}
			links, rest = links+1, append(parts(target), rest...)
			at = filepath.Dir(at)
			if filepath.IsAbs(target) {
				at = "/"
			}
			if len(rest) == 0 {
				continue
			}
		}
		at, rest = filepath.Join(at, rest[0]), rest[1:]
	}
}

func parts(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
}

func lookAt(path string, make bool) (fs.FileInfo, error) {
	info, err := os.Lstat(path)
	if !make || !errors.Is(err, fs.ErrNotExist) {
		return info, err
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return os.Lstat(path)
}

// checkedLink reads a symbolic link that root or the effective user made. Nobody
// else can replace it, as the folder that it is in was checked.
func checkedLink(path string, info fs.FileInfo) (target string, err error) {
	if !trustedAbove(owner(info)) {
		return "", &UntrustedError{path, "is a symbolic link of " + userName(owner(info)), "chown -h " + userName(os.Geteuid()) + " " + path + ", if it is right"}
	}
	return os.Readlink(path)
}

// checkParent is for folders above the state directory. In a sticky one, such as
// /tmp, others can make files, but not rename or remove what is not theirs.
func checkParent(path string, info fs.FileInfo) error {
	switch {
	case !info.IsDir():
		return &os.PathError{Op: "open", Path: path, Err: syscall.ENOTDIR}
	case !trustedAbove(owner(info)):
		return wrongOwner(path, info)
	case info.Mode().Perm()&othersWrite != 0 && info.Mode()&fs.ModeSticky == 0:
		return writable(path, info)
	}
	return nil
}

// checkDir is for the state directory itself.
func checkDir(path string, info fs.FileInfo) error {
	switch {
	case !info.IsDir():
		return &os.PathError{Op: "open", Path: path, Err: syscall.ENOTDIR}
	case owner(info) != os.Geteuid():
		return wrongOwner(path, info)
	case info.Mode().Perm()&othersWrite != 0:
		return writable(path, info)
	}
	return nil
}

// checkFile is for files of the state directory. One with a second name may be
// a file from elsewhere (link(2)), which must be neither changed nor believed.
func checkFile(path string, info fs.FileInfo) error {
	switch {
	case !info.Mode().IsRegular():
		return &UntrustedError{path, "is " + kindOf(info.Mode()) + ", not a regular file", "remove it"}
	case owner(info) != os.Geteuid():
		return wrongOwner(path, info)
	case info.Mode().Perm()&othersWrite != 0:
		return writable(path, info)
	case stat(info).Nlink > 1:
		return &UntrustedError{path, fmt.Sprintf("is one of %d names of a file (hard links)", stat(info).Nlink),
			fmt.Sprintf("if its content is right, cp -p %[1]s %[1]s.copy && mv %[1]s.copy %[1]s, else remove it", path)}
	}
	return nil
}

func kindOf(m fs.FileMode) string {
	switch m.Type() {
	case fs.ModeSymlink:
		return "a symbolic link"
	case fs.ModeNamedPipe:
		return "a named pipe"
	case fs.ModeSocket:
		return "a socket"
	case fs.ModeDir:
		return "a directory"
	}
	return "a device"
}

func writable(path string, info fs.FileInfo) error {
	return &UntrustedError{path, fmt.Sprintf("has mode %#o: others than its owner can write it", info.Mode().Perm()),
		"look at what it holds, then chmod go-w " + path}
}

func wrongOwner(path string, info fs.FileInfo) error {
	me, whose := os.Geteuid(), owner(info)
	todo := "look at what it holds, then chown " + userName(me) + " " + path
	if whose == 0 {
		todo = "run svcc as root, or give another directory with --state-dir"
	}
	return &UntrustedError{path, fmt.Sprintf("is owned by %s, not by %s", userName(whose), userName(me)), todo}
}

func stat(info fs.FileInfo) *syscall.Stat_t { return info.Sys().(*syscall.Stat_t) }

func owner(info fs.FileInfo) int { return int(stat(info).Uid) }

// userName is a user as chown takes it.
func userName(uid int) string {
	if uid == 0 {
		return "root"
	}
	return fmt.Sprint(uid)
}

// unmapped is the owner that files of users outside a user namespace seem to
// have (user_namespaces(7)).
const unmapped = 65534

// trustedAbove says whether somebody may own folders above the state directory:
// root or the effective user. In a user namespace root of the machine is among
// those who are outside, and cannot be told from the others.
func trustedAbove(uid int) bool {
	return uid == 0 || uid == os.Geteuid() || uid == unmapped && inUserNamespace()
}

// inUserNamespace says that not all users of the machine have a number here.
func inUserNamespace() bool {
	const everybody = "4294967295"
	text, err := os.ReadFile("/proc/self/uid_map")
	f := strings.Fields(string(text))
	return err == nil && (len(f) != 3 || f[2] != everybody)
}
