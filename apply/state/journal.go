package state

import (
	"fmt"

	"svcc/apply/sysctl"
)

// Journal reads the journal; nil if no run is under way or was interrupted.
func (d *Dir) Journal() (*Journal, error) {
	var j Journal
	found, err := d.readJSON(journalFile, &j)
	if !found {
		return nil, err
	}
	if !isSum(j.Undo) {
		return nil, fmt.Errorf("%s says nothing of a run; move it away if svcc status then says what is right", d.file(journalFile))
	}
	if err := d.checkSettings(journalFile, j.Sysctls, j.Sysctled); err != nil {
		return nil, err
	}
	return &j, nil
}

// Undo reads what the kernel held before the journal's run.
func (d *Dir) Undo(j *Journal) ([]byte, error) { return d.load(j.Undo, undoSuffix) }

// Begin keeps all that is needed to complete or undo a run: r is the record
// that it will leave, ruleset what will be in force (nil for nothing), undo what
// the kernel holds now, sysctls the values of those that will be set. Once it returns nil, the kernel may be written to.
func (d *Dir) Begin(r Record, ruleset, undo []byte, sysctls []sysctl.Saved, confirm bool) error {
	j := Journal{Record: r, Sysctled: sysctls, Confirm: confirm, Boot: bootID()}
	err := d.begin(&j, ruleset, undo)
	if err == nil {
		return nil
	}
	if left, _ := d.Journal(); left != nil && left.ID == r.ID {
		_ = d.Drop()
	}
	return d.ended(err)
}

func (d *Dir) begin(j *Journal, ruleset, undo []byte) error {
	var err error
	if j.Current, err = d.keepRuleset(ruleset); err != nil {
		return err
	}
	if j.Undo, err = d.keep(undo, undoSuffix); err != nil {
		return err
	}
	if err := d.openChild(); err != nil {
		return err
	}
	d.refuseLeft()
	return d.writeJSON(journalFile, j)
}

// Finish makes the journal the record: its ruleset is the confirmed one from then
// on. It was confirmed before, so it is not refused any more if that fails.
func (d *Dir) Finish() error {
	if j, err := d.Journal(); err == nil && j != nil {
		if err := d.clearRefused(j.Current); err != nil {
			return err
		}
	}
	if err := d.rename(journalFile, recordFile); err != nil {
		return err
	}
	return d.ended(d.sync())
}

// Drop forgets the journal: the kernel is as it was before its run.
func (d *Dir) Drop() error {
	if err := d.remove(journalFile); err != nil {
		return err
	}
	return d.ended(d.sync())
}

// ended tidies up after a run.
func (d *Dir) ended(err error) error {
	if d.child != nil {
		d.child.Close()
		d.child = nil
	}
	_ = d.remove(childFile)
	_ = d.remove(confirmFile)
	d.sweep()
	return err
}

// Confirm agrees to the run of that ID.
func (d *Dir) Confirm(id string) error { return d.write(confirmFile, []byte(id+"\n")) }

// Confirmed says whether somebody agreed to the run of that ID.
func (d *Dir) Confirmed(id string) bool {
	text, err := d.read(confirmFile)
	return err == nil && string(text) == id+"\n"
}
