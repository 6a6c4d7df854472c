package compiler

import "time"

// Stage is what one stage cost.
type Stage struct {
	Name string
	Wall time.Duration
	CPU  time.Duration // user and system, of the whole process; 0 on Windows
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
