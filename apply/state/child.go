package state

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// ErrChild is a tool of an interrupted run that still runs.
var ErrChild = errors.New("a tool of an interrupted run is still running")

// childWidth is the size of the child file, which is there before the first
// write to the kernel, so that a full disk cannot keep a child's number out.
const childWidth = 64

func (d *Dir) openChild() error {
	f, err := d.openFile(childFile, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return err
	}
	d.child = f
	if err := f.Truncate(0); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(f, "%-*s\n", childWidth-1, "-"); err != nil {
		return err
	}
	return f.Sync()
}

// Child notes the process that was started, if a journal is open. It need not
// outlive the machine, only this process.
func (d *Dir) Child(pid int) {
	if d.child == nil {
		return
	}
	_, _ = d.child.WriteAt(fmt.Appendf(nil, "%-*s\n", childWidth-1, fmt.Sprintf("%d %s", pid, startTime(pid))), 0)
}

// AwaitChild waits until the tool that the journal's run started last is gone.
// Tools die with svcc, but not in the same instant. It is ErrChild if one does
// not go.
func (d *Dir) AwaitChild(ctx context.Context, j *Journal, timeout time.Duration) error {
	text, err := d.read(childFile)
	if err != nil || j.Boot != bootID() {
		return nil
	}
	var pid int
	var start string
	if _, err := fmt.Sscan(string(text), &pid, &start); err != nil || start == gone {
		return nil
	}
	for deadline := time.Now().Add(timeout); startTime(pid) == start; {
		if time.Now().After(deadline) {
			return fmt.Errorf("%w: process %d; waited %s", ErrChild, pid, timeout)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(poll):
		}
	}
	return nil
}

// gone is the start of a process that is no more.
const gone = "gone"

// startTime tells one life of a process number from another: field 22 of
// /proc/PID/stat, in ticks since boot (proc_pid_stat(5)). It is gone for nobody
// and for the dead that nobody waited for.
func startTime(pid int) string {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return gone
	}
	// The name, field 2, may hold anything, but it ends with the last ")".
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 20 || strings.ContainsAny(fields[0], "ZXx") {
		return gone
	}
	return fields[19]
}

func bootID() string {
	text, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(text))
}
