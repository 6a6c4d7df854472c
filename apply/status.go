package apply

import (
	"context"
	"slices"

	"svcc/apply/state"
	"svcc/emit"
	"svcc/ir"
)

// Condition is how the kernel stands to the record.
type Condition string

// The conditions. Only AsRecorded is well.
const (
	AsRecorded Condition = "as recorded"
	Drift      Condition = "drift"     // somebody else changed our rules
	HalfMade   Condition = "half made" // a run was interrupted, some tables are old and some new
	Old        Condition = "interrupted, old state"
	New        Condition = "interrupted, new state"
	UnderWay   Condition = "a run is under way"
)

// Status is how the kernel stands to the record, and where they differ.
type Status struct {
	Condition Condition      `json:"condition"`
	Record    state.Record   `json:"record"`
	Services  []string       `json:"services"`          // that the changes name, sorted; cmd adds those that packets show
	Changes   []Change       `json:"changes"`           // what would bring the kernel to the record
	Sysctls   []string       `json:"sysctls,omitempty"` // needed settings that are not so
	Waits     bool           `json:"waits_to_be_confirmed,omitempty"`
	Journal   *state.Journal `json:"journal,omitempty"`
	// Unknown is why Services may lack some: packets could not be followed.
	Unknown string `json:"services_unknown,omitempty"`
	// Promised is what the record promises; nil if it does not say.
	Promised []*ir.Program `json:"-"`
}

// Status compares the kernel with the record. It writes nothing and needs no
// lock.
func (e *Engine) Status(ctx context.Context) (Status, error) {
	var s Status
	if err := e.State.Check(); err != nil {
		return s, err
	}
	e.recognize()
	busy := e.State.Busy()
	r := &run{Engine: e}
	err := r.read()
	if err != nil {
		return s, err
	}
	s.Record, s.Promised = r.record, r.promised
	if s.Journal, err = e.State.Journal(); err != nil {
		return s, err
	}
	now, err := e.observe(ctx)
	if err != nil {
		return s, err
	}
	p, err := e.plan(r.before, now)
	if err != nil {
		return s, err
	}
	s.Changes, s.Services = append([]Change{}, p.Rules()...), services(p.Rules())
	s.Sysctls = e.amiss(r.promised)
	s.Condition, err = e.condition(s.Journal, busy, p.Empty() && len(s.Sysctls) == 0, now)
	s.Waits = s.Condition == UnderWay && s.Journal != nil && s.Journal.Confirm
	return s, err
}

// condition judges what was observed.
func (e *Engine) condition(j *state.Journal, busy, recorded bool, now Observed) (Condition, error) {
	switch {
	case busy:
		return UnderWay, nil
	case j == nil && recorded:
		return AsRecorded, nil
	case j == nil:
		return Drift, nil
	}
	text, err := e.State.Undo(j)
	if err != nil {
		return HalfMade, nil
	}
	if old, err := e.Target.Load(text); err == nil && now.Equal(old) {
		return Old, nil
	}
	var desired *emit.Ruleset
	if j.Current != "" {
		if desired, err = e.recorded(j.Current); err != nil {
			return HalfMade, nil
		}
	}
	p, err := e.plan(desired, now)
	if err == nil && p.Empty() {
		return New, nil
	}
	return HalfMade, err
}

// services names those of which a change is, sorted.
func services(list []Change) []string {
	out := []string{}
	for _, c := range list {
		if c.Service != "" {
			out = append(out, c.Service)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
