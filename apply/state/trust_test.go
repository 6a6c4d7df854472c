package state

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"svcc/apply/sysctl"
)

// somebody is a user who is neither root nor the one who runs the tests.
const somebody = 1999

// secret is a file outside the state directory, that nobody is to read or write.
type secret struct{ path string }

const secretText = "a file of root's\n"

func newSecret(t *testing.T) secret {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(secretText), 0o600); err != nil {
		t.Fatal(err)
	}
	return secret{path}
}

func (s secret) untouched(t *testing.T) {
	t.Helper()
	info, err := os.Lstat(s.path)
	text, _ := os.ReadFile(s.path)
	if err != nil || string(text) != secretText || info.Mode() != 0o600 {
		t.Errorf("the file outside is now %q, %v, %v", text, info, err)
	}
}

// fileFaults are what can be wrong with a file, and a word of what to do.
var fileFaults = []struct {
	name, todo string
	make       func(path, outside string) error
}{
	{"symbolic link", "remove it", func(p, o string) error { return replaceBy(p, func() error { return os.Symlink(o, p) }) }},
	{"symbolic link", "remove it", func(p, o string) error {
		return replaceBy(p, func() error { return os.Symlink(o+".new", p) })
	}},
	{"hard links", "remove it", func(p, o string) error { return replaceBy(p, func() error { return os.Link(o, p) }) }},
	{"named pipe", "remove it", func(p, _ string) error { return replaceBy(p, func() error { return unix.Mkfifo(p, 0o600) }) }},
	{"directory", "remove it", func(p, _ string) error { return replaceBy(p, func() error { return os.Mkdir(p, 0o700) }) }},
	{"owned by 1999", "chown root", func(p, _ string) error { return os.Chown(p, somebody, -1) }},
	{"0620", "chmod go-w", func(p, _ string) error { return os.Chmod(p, 0o620) }},
	{"0602", "chmod go-w", func(p, _ string) error { return os.Chmod(p, 0o602) }},
}

func replaceBy(path string, by func() error) error {
	if err := os.Remove(path); err != nil {
		return err
	}
	return by()
}

// interrupted makes a directory with a file of each kind in it.
func interrupted(t *testing.T) (path string, files []string) {
	t.Helper()
	d := At(filepath.Join(t.TempDir(), "state"))
	unlock, err := d.Lock(context.Background(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	for _, err := range []error{
		d.Save(Record{ID: "0"}, []byte("first")),
		d.Begin(Record{ID: "1", Previous: Sum([]byte("first"))}, []byte("rules"), []byte("before"), nil, true),
		d.KeepSeen([]byte("seen")), d.Confirm("1"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if files, err = d.names(); err != nil || len(files) != 9 {
		t.Fatal(files, err)
	}
	return d.path, files
}

// everything does all that can be done with a directory.
func everything(t *testing.T, path string) {
	limit := time.AfterFunc(10*time.Minute, func() { panic("something is waited for") })
	defer limit.Stop()
	d, ctx := At(path), context.Background()
	d.Busy()
	if unlock, err := d.Lock(ctx, 0); err == nil {
		defer unlock()
	}
	r, _ := d.Record()
	_, _ = d.Ruleset(r.Current)
	if j, err := d.Journal(); err == nil && j != nil {
		_, _ = d.Undo(j)
		_, _ = d.Ruleset(j.Current)
		_ = d.AwaitChild(ctx, j, 0)
	}
	_, _ = d.Seen()
	d.Confirmed("1")
	_ = d.Confirm("1")
	_ = d.KeepSeen([]byte("more"))
	_ = d.Begin(Record{ID: "2"}, []byte("rules"), []byte("before"), nil, true)
	d.Child(os.Getpid())
	_ = d.Finish()
	_ = d.Save(Record{ID: "3"}, []byte("first"))
	_ = d.Drop()
}

// A file that others can change, or that is none, is told by name, with what is
// wrong and what to do. Nothing outside is read or written, whatever is done.
func TestUntrustedFiles(t *testing.T) {
	asRoot(t)
	_, files := interrupted(t)
	for _, file := range files {
		for _, f := range fileFaults {
			path, _ := interrupted(t)
			outside := newSecret(t)
			if err := f.make(filepath.Join(path, file), outside.path); err != nil {
				t.Fatal(err)
			}
			err := At(path).Check()
			wantUntrusted(t, file, err, filepath.Join(path, file), f.name, f.todo)
			if text, err := At(path).read(file); err == nil {
				t.Errorf("%s: %s: %q is read", file, f.name, text)
			}
			everything(t, path)
			outside.untouched(t)
			if _, err := os.Lstat(outside.path + ".new"); err == nil {
				t.Errorf("%s: %s: a file was made outside", file, f.name)
			}
		}
	}
}

// wantUntrusted wants an error that says all of these.
func wantUntrusted(t *testing.T, what string, err error, words ...string) {
	t.Helper()
	var u *UntrustedError
	if !errors.As(err, &u) {
		t.Errorf("%s: %v, want an UntrustedError", what, err)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%s: %v does not say %q", what, err, w)
		}
	}
}

func asRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
}

// A directory that others can change, or lead elsewhere, is neither read nor
// written, nor made.
func TestUntrustedFolders(t *testing.T) {
	asRoot(t)
	for _, c := range []struct {
		name  string
		make  func(top, dir string) error
		words []string // nil if it is trusted
	}{
		{"0755", func(_, dir string) error { return os.Chmod(dir, 0o755) }, nil},
		{"below a sticky folder", func(top, _ string) error { return os.Chmod(top, 0o777|os.ModeSticky) }, nil},
		{"a link of root's", func(top, dir string) error { return moved(top, dir) }, nil},
		{"0775", func(_, dir string) error { return os.Chmod(dir, 0o775) }, []string{"state has mode 0775", "chmod go-w"}},
		{"0757", func(_, dir string) error { return os.Chmod(dir, 0o757) }, []string{"state has mode 0757", "chmod go-w"}},
		{"sticky itself", func(_, dir string) error { return os.Chmod(dir, 0o777|os.ModeSticky) }, []string{"state has mode 0777"}},
		{"another's", func(_, dir string) error { return os.Chown(dir, somebody, -1) }, []string{"owned by 1999", "chown root"}},
		{"folder above 0770", func(top, _ string) error { return os.Chmod(top, 0o770) }, []string{"top has mode 0770"}},
		{"folder above another's", func(top, _ string) error { return os.Chown(top, somebody, -1) }, []string{"top is owned by 1999"}},
		{"a sticky folder of another's", func(top, _ string) error {
			return errors.Join(os.Chmod(top, 0o777|os.ModeSticky), os.Chown(top, somebody, -1))
		}, []string{"top is owned by 1999"}},
		{"a link of another's", func(top, dir string) error {
			return errors.Join(moved(top, dir), os.Lchown(dir, somebody, -1))
		}, []string{"symbolic link of 1999"}},
		{"a link to what is another's", func(top, dir string) error {
			return errors.Join(moved(top, dir), os.Chown(filepath.Join(top, "moved"), somebody, -1))
		}, []string{"moved is owned by 1999"}},
		{"a link to nowhere below what others write", func(top, dir string) error {
			open := filepath.Join(top, "open")
			return errors.Join(os.RemoveAll(dir), os.Mkdir(open, 0o700), os.Chmod(open, 0o777), os.Symlink("open/state", dir))
		}, []string{"open has mode 0777"}},
	} {
		top := filepath.Join(t.TempDir(), "top")
		dir := filepath.Join(top, "state")
		unlock, err := At(dir).Lock(context.Background(), 0)
		if err != nil {
			t.Fatal(err)
		}
		unlock()
		if err := c.make(top, dir); err != nil {
			t.Fatal(err)
		}
		err = At(dir).Check()
		_, lockErr := At(dir).Lock(context.Background(), 0)
		if c.words == nil {
			if err != nil || lockErr != nil {
				t.Errorf("%s: %v, %v", c.name, err, lockErr)
			}
			continue
		}
		wantUntrusted(t, c.name, err, c.words...)
		wantUntrusted(t, c.name, lockErr, c.words...)
		everything(t, dir)
		if names, _ := filepath.Glob(filepath.Join(top, "*", "record.json")); names != nil {
			t.Errorf("%s: there is %v", c.name, names)
		}
	}
}

// moved puts the directory elsewhere, with a link in its place.
func moved(top, dir string) error {
	to := filepath.Join(top, "moved")
	return errors.Join(os.Rename(dir, to), os.Symlink(to, dir))
}

// What is opened stays the same directory, whatever its path leads to later.
func TestReplacedDirectory(t *testing.T) {
	d := locked(t)
	begin(t, d, "1", "rules", "before")
	elsewhere := t.TempDir()
	if err := errors.Join(os.Rename(d.path, d.path+".old"), os.Symlink(elsewhere, d.path)); err != nil {
		t.Fatal(err)
	}
	if err := d.Finish(); err != nil {
		t.Error(err)
	}
	if names, _ := os.ReadDir(elsewhere); len(names) > 0 {
		t.Errorf("written elsewhere: %v", names)
	}
	if r, err := At(d.path + ".old").Record(); err != nil || r.ID != "1" {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestLinksInACircle(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	if err := os.Symlink("a", path); err != nil {
		t.Fatal(err)
	}
	if err := At(path).Check(); !errors.Is(err, unix.ELOOP) {
		t.Errorf("%v", err)
	}
}

// Root puts back what the record says. So it may say only what svcc sets.
func TestUntrustedSettings(t *testing.T) {
	for _, s := range []sysctl.Saved{
		{Name: "../../etc/x", Value: "1"}, {Name: "kernel/core_pattern", Value: "|/tmp/x"}, {Name: "", Value: "1"},
		{Name: "net/ipv4/conf/all/../all/route_localnet", Value: "1"}, {Name: "net/ipv4/conf/all/rp_filter", Value: "0"},
		{Name: sysctl.RouteLocalnet, Value: "1\n2"}, {Name: sysctl.RouteLocalnet, Value: ""}, {Name: sysctl.RouteLocalnet, Value: "9999999999"},
		{Name: sysctl.RouteLocalnet, Value: "0x1"},
	} {
		d := locked(t)
		good := sysctl.Saved{Name: sysctl.RouteLocalnet, Value: "0"}
		if err := d.Save(Record{ID: "0", Sysctls: []sysctl.Saved{good, s}}, nil); err != nil {
			t.Fatal(err)
		}
		r, err := d.Record()
		wantUntrusted(t, s.Name, err, recordFile, "svcc remove")
		if r.ID != "" || r.Sysctls != nil {
			t.Errorf("%s: %+v is read", s.Name, r)
		}
		if err := d.Begin(Record{ID: "1"}, nil, []byte("before"), []sysctl.Saved{good, s}, false); err != nil {
			t.Fatal(err)
		}
		j, err := d.Journal()
		wantUntrusted(t, s.Name, err, journalFile)
		if j != nil {
			t.Errorf("%s: %+v is read", s.Name, j)
		}
	}
}
