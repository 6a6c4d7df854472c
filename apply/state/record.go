package state

import (
	"crypto/rand"
	"slices"
	"time"

	"svcc/apply/sysctl"
)

// Record tells of a run that was completed. The zero Record: there was none.
type Record struct {
	ID       string    `json:"id"` // of the run, no two alike
	When     time.Time `json:"when"`
	Who      string    `json:"who"`
	Mode     string    `json:"mode"`
	Flavour  string    `json:"flavour,omitempty"` // of the tools: "iptables 1.8.11 (nf_tables)"
	Node     string    `json:"node,omitempty"`
	Level    int       `json:"level"`
	Current  string    `json:"current,omitempty"`  // sum of the ruleset in force; "" after svcc remove
	Previous string    `json:"previous,omitempty"` // sum of the one before; "" if there was none
	// Made names what exists because svcc made it although others use it too.
	Made []string `json:"made,omitempty"`
	// Sysctls are the values from before svcc set them, by name.
	Sysctls []sysctl.Saved `json:"sysctls,omitempty"`
}

// Journal is a run that has begun to write: the Record that it will leave, and
// what is needed to undo it.
type Journal struct {
	Record
	Undo     string         `json:"undo"`               // sum of what the kernel held before
	Sysctled []sysctl.Saved `json:"sysctled,omitempty"` // settings as they were before the run
	// Confirm says that the run is to be undone unless it was confirmed.
	Confirm bool   `json:"confirm,omitempty"`
	Boot    string `json:"boot"` // the boot in which the child's number means something
}

// NewID gives a name for a run.
func NewID() string { return rand.Text() }

// Record reads the record; the zero Record if there is none, or with an error.
func (d *Dir) Record() (Record, error) {
	var r Record
	if _, err := d.readJSON(recordFile, &r); err != nil {
		return Record{}, err
	}
	if err := d.checkSettings(recordFile, r.Sysctls); err != nil {
		return Record{}, err
	}
	return r, nil
}

// checkSettings refuses a file by which root would write what svcc never does.
func (d *Dir) checkSettings(name string, was ...[]sysctl.Saved) error {
	if err := sysctl.Check(slices.Concat(was...)); err != nil {
		return &UntrustedError{d.file(name), "names " + err.Error(), "find out who wrote it, then move it away and run svcc remove"}
	}
	return nil
}

// Save records a run that had nothing to write to the kernel. The ruleset is
// nil if none is in force.
func (d *Dir) Save(r Record, ruleset []byte) error {
	var err error
	if r.Current, err = d.keepRuleset(ruleset); err != nil {
		return err
	}
	if err := d.clearRefused(r.Current); err != nil {
		return err
	}
	if err := d.writeJSON(recordFile, r); err != nil {
		return err
	}
	d.sweep()
	return nil
}

func (d *Dir) keepRuleset(text []byte) (string, error) {
	if text == nil {
		return "", nil
	}
	return d.keep(text, rulesSuffix)
}

// Sum is the name under which a ruleset file is kept.
func Sum(ruleset []byte) string {
	if ruleset == nil {
		return ""
	}
	return sumOf(ruleset)
}
