package apply

import "time"

// patience is how long a step may last before it is told that it is under way.
const patience = time.Second

// step does a part of a run. One that takes long is told, so that nobody
// thinks that svcc hangs.
func (e *Engine) step(name string, do func() error) error {
	begun := time.Now()
	t := time.AfterFunc(patience, func() { e.Log.Info(name + " ...") })
	err := do()
	if t.Stop(); time.Since(begun) > patience {
		e.Log.Info(name+": done", "after", time.Since(begun).Round(time.Millisecond))
	}
	return err
}
