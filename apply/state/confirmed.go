package state

import (
	"slices"
	"time"
)

// What a run with a window for confirmation leaves where nobody confirmed it is
// its journal, renamed to the sum of its ruleset and refusedSuffix. So nothing has
// to be written at the end of a window, when the disk may be full.
const refusedSuffix = ".refused"

// maxRefused is how many of them are kept, the newest.
const maxRefused = 100

// WindowOpen says whether a run waits at this moment to be confirmed, or writes
// what it will then wait with.
func (d *Dir) WindowOpen() (bool, error) {
	if !d.Busy() {
		return false, nil
	}
	j, err := d.Journal()
	return j != nil && j.Confirm, err
}

// Refused gives the last run that brought the ruleset of that sum and that nobody
// confirmed; nil if there is none, or if the ruleset was confirmed since.
func (d *Dir) Refused(sum string) (*Journal, error) {
	if !isSum(sum) {
		return nil, nil
	}
	r, err := d.Record()
	if err != nil || r.Current == sum {
		return nil, err
	}
	var j Journal
	found, err := d.readJSON(sum+refusedSuffix, &j)
	if !found {
		return nil, err
	}
	return &j, nil
}

// Abandon ends an interrupted run that was undone, or that is no matter any more:
// Refuse for a window that nobody confirmed, else Drop.
func (d *Dir) Abandon() error {
	if d.unconfirmed() {
		return d.Refuse()
	}
	return d.Drop()
}

// unconfirmed says whether the journal is of a window that nobody confirmed.
func (d *Dir) unconfirmed() bool {
	j, err := d.Journal()
	return err == nil && j != nil && j.Confirm && !d.Confirmed(j.ID)
}

// Refuse is Drop for a run that nobody confirmed: its ruleset is remembered. One
// that was confirmed before stays so, whatever became of another attempt.
func (d *Dir) Refuse() error {
	j, err := d.Journal()
	if err != nil {
		return err
	}
	r, _ := d.Record()
	if j == nil || !isSum(j.Current) || j.Current == r.Current {
		return d.Drop()
	}
	if err := d.rename(journalFile, j.Current+refusedSuffix); err != nil {
		return err
	}
	return d.ended(d.sync())
}

// refuseLeft remembers an interrupted window whose journal is about to be replaced
// by that of a run that could not mend it.
func (d *Dir) refuseLeft() {
	j, _ := d.Journal()
	if d.unconfirmed() && isSum(j.Current) {
		_ = d.writeJSON(j.Current+refusedSuffix, j)
	}
}

// clearRefused forgets that a ruleset was refused.
func (d *Dir) clearRefused(sum string) error {
	if !isSum(sum) {
		return nil
	}
	return d.remove(sum + refusedSuffix)
}

// sweepRefused removes the oldest of too many.
func (d *Dir) sweepRefused(names []string) {
	f, err := d.open(false)
	if err != nil || len(names) <= maxRefused {
		return
	}
	age := map[string]time.Time{}
	for _, name := range names {
		if i, err := f.root.Lstat(name); err == nil {
			age[name] = i.ModTime()
		}
	}
	slices.SortFunc(names, func(a, b string) int { return age[a].Compare(age[b]) })
	for _, name := range names[:len(names)-maxRefused] {
		_ = d.remove(name)
	}
}
