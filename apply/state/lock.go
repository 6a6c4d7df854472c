package state

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ErrBusy is a directory that another run holds locked.
var ErrBusy = errors.New("another run of svcc is under way")

// poll is how often something is looked at that cannot be waited for.
const poll = 20 * time.Millisecond

// Lock makes the directory if need be and locks it; another run's lock is
// waited for, then it is ErrBusy. The kernel frees the lock when the process
// ends, however it ends.
func (d *Dir) Lock(ctx context.Context, timeout time.Duration) (unlock func(), err error) {
	if _, err := d.open(true); err != nil {
		return nil, err
	}
	f, err := d.openFile(lockFile, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	if err := flock(ctx, f, timeout); err != nil {
		f.Close()
		return nil, err
	}
	// Only for those who wait; a full disk is no reason to stop here.
	if f.Truncate(0) == nil {
		_, _ = fmt.Fprintf(f, "%d\n", os.Getpid())
	}
	return func() { f.Close() }, nil
}

func flock(ctx context.Context, f *os.File, timeout time.Duration) error {
	deadline := time.Now().Add(timeout)
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil || !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR):
			return err
		case time.Now().After(deadline):
			return fmt.Errorf("%w%s; waited %s", ErrBusy, holder(f), timeout)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(poll):
		}
	}
}

// holder names the process that wrote itself into the lock.
func holder(f *os.File) string {
	text := make([]byte, 32)
	n, _ := f.ReadAt(text, 0)
	if pid := strings.TrimSpace(string(text[:n])); pid != "" {
		return " (process " + pid + ")"
	}
	return ""
}

// Busy says whether a run holds the lock at this moment.
func (d *Dir) Busy() bool {
	f, err := d.openFile(lockFile, os.O_RDONLY)
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
}
