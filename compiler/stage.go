package compiler

import (
	"time"

	"golang.org/x/sys/unix"
)

// Stage is what one stage cost.
type Stage struct {
	Name string
	Wall time.Duration
	CPU  time.Duration // user and system, of the whole process
}

// stage runs f and adds its cost to the stage of that name.
func (r *Result) stage(name string, f func()) {
	wall, cpu := time.Now(), cpuTime()
	f()
	cost := Stage{Name: name, Wall: time.Since(wall), CPU: cpuTime() - cpu}
	for i := range r.Stages {
		if r.Stages[i].Name == name {
			r.Stages[i].Wall += cost.Wall
			r.Stages[i].CPU += cost.CPU
			return
		}
	}
	r.Stages = append(r.Stages, cost)
}

func cpuTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
