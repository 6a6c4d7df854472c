package lab

import (
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// Enter puts the test's thread, which ends with it, into a network namespace of
// its own, where nothing is set up and iptables-legacy has a lock of its own.
// Without root a test is skipped, and fails where CI is set.
func Enter(t *testing.T) {
	t.Helper()
	Need(t, Root())
	ownLock(t)
	runtime.LockOSThread() // never unlocked
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
}

// ownLock gives iptables-legacy a lock that no other test waits for.
func ownLock(t testing.TB) {
	t.Helper()
	t.Setenv("XTABLES_LOCKFILE", filepath.Join(t.TempDir(), "lock"))
}

// Thread is a thread in a network namespace of its own; both end with the test.
type Thread struct{ work chan func() }

// NewThread starts one. Unlike Enter it leaves the test's own thread where it is.
func NewThread(t testing.TB) Thread {
	t.Helper()
	Need(t, Root())
	ownLock(t)
	n := Thread{make(chan func())}
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends, and the namespace
		failed <- unix.Unshare(unix.CLONE_NEWNET)
		for f := range n.work {
			f()
		}
	}()
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { close(n.work) })
	return n
}

// Do runs f in the namespace, and waits for it.
func (n Thread) Do(f func()) {
	done := make(chan struct{})
	n.work <- func() { f(); close(done) }
	<-done
}
