package apply

import "svcc/apply/state"

// accept refuses a ruleset that is not what it says it is.
func (r *run) accept() error {
	if r.Accept == nil || r.after == nil {
		return nil
	}
	sum := state.Sum(r.text)
	if r.accepted(sum) {
		return nil
	}
	before := r.before
	if !r.accepted(r.record.Current) {
		before = nil
	}
	if err := r.step("proving the ruleset", func() error { return r.Accept(before, r.after) }); err != nil {
		return err
	}
	r.keepAccepted(sum)
	return nil
}

// accepted says whether a ruleset was accepted by the same who accepts now.
func (r *run) accepted(sum string) bool {
	return r.AcceptedBy != "" && r.State.Accepted(r.AcceptedBy, sum)
}

// keepAccepted remembers what was accepted. Nothing but time depends on it.
func (r *run) keepAccepted(sum string) {
	if r.AcceptedBy == "" || r.Options.DryRun {
		return
	}
	if err := r.State.Accept(r.AcceptedBy, sum); err != nil {
		r.Log.Debug("the ruleset will be proved again", "because", err)
	}
}
