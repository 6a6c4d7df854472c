//go:build unix

package compiler

import (
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime is what this process has had of the CPUs so far.
func cpuTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
