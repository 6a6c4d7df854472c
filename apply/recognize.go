package apply

import (
	"slices"

	"svcc/apply/state"
	"svcc/emit"
)

// Recognizing is a Target that cannot tell by the kernel alone what is ours of
// it, and asks rulesets: those that Rulesets gives.
type Recognizing interface {
	Recognize(rulesets func() []*emit.Ruleset)
}

func (e *Engine) recognize() {
	if t, ok := e.Target.(Recognizing); ok {
		t.Recognize(Rulesets(e.State))
	}
}

// Rulesets gives those whose rules may be in the kernel by what a state directory
// says when it is asked: the one in force, the one before, and what a run under
// way or interrupted is to bring. Each is read once. One that cannot be read is
// left out: that is for those to say who need it.
func Rulesets(d *state.Dir) func() []*emit.Ruleset {
	known := map[string]*emit.Ruleset{"": nil}
	return func() (out []*emit.Ruleset) {
		r, _ := d.Record()
		sums := []string{r.Current, r.Previous}
		if j, err := d.Journal(); err == nil && j != nil {
			sums = append(sums, j.Current, j.Previous)
		}
		for i, sum := range sums {
			rs, there := known[sum]
			if !there {
				if read, err := Recorded(d, sum); err == nil {
					rs = read
				}
				known[sum] = rs
			}
			if rs != nil && !slices.Contains(sums[:i], sum) {
				out = append(out, rs)
			}
		}
		return out
	}
}

// Recorded reads a ruleset of a state directory by its sum. An error says that it
// is gone, or is none.
func Recorded(d *state.Dir, sum string) (*emit.Ruleset, error) {
	text, err := d.Ruleset(sum)
	if err != nil {
		return nil, err
	}
	return emit.Unmarshal(text)
}
