//go:build !unix

package compiler

import "time"

// cpuTime is not asked for on this system.
func cpuTime() time.Duration { return 0 }
