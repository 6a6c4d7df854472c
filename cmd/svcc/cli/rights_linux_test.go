package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"

	"svcc/apply"
)

// What is refused for want of rights is told from what failed otherwise.
func TestDenied(t *testing.T) {
	said := func(text string) error {
		return &apply.ToolError{Tool: "iptables-save", Code: 4, Stderr: text, Err: errors.New("exit status 4")}
	}
	for _, c := range []struct {
		err  error
		want bool
	}{
		{fmt.Errorf("locking: %w", &fs.PathError{Op: "open", Path: "/var/lib/svcc/lock", Err: syscall.EACCES}), true},
		{syscall.EPERM, true},
		{said("iptables-save v1.8.9 (nf_tables): Could not fetch rule set generation id: Permission denied (you must be root)"), true},
		{said("ipset v7.17: Kernel error received: Operation not permitted"), true},
		{said("iptables-restore: line 3 failed"), false},
		{&fs.PathError{Op: "open", Path: "/var/lib/svcc/lock", Err: syscall.ENOSPC}, false},
		{errors.New("anything else"), false},
	} {
		if got := denied(c.err); got != c.want {
			t.Errorf("%v: %v", c.err, got)
		}
	}
}
