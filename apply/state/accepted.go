package state

import (
	"encoding/json"
	"slices"
)

// accepted are the rulesets that somebody held against what they promise.
type accepted struct {
	By   string   `json:"by"`
	Sums []string `json:"sums"` // of rulesets; the latest first
}

// mostAccepted is how many are remembered: those that a node may go back and
// forth between.
const mostAccepted = 8

// Accepted says whether by accepted the ruleset of that sum.
func (d *Dir) Accepted(by, sum string) bool {
	return sum != "" && slices.Contains(d.acceptedBy(by), sum)
}

// Accept remembers that by accepted the ruleset of that sum. What others did is
// forgotten: a newer program may find what an older one did not.
func (d *Dir) Accept(by, sum string) error {
	sums := slices.DeleteFunc(d.acceptedBy(by), func(s string) bool { return s == sum })
	sums = append([]string{sum}, sums...)
	return d.writeJSON(acceptedFile, accepted{by, sums[:min(len(sums), mostAccepted)]})
}

// acceptedBy are the sums of what by accepted; none where that cannot be read.
func (d *Dir) acceptedBy(by string) []string {
	var a accepted
	text, err := d.read(acceptedFile)
	if err != nil || json.Unmarshal(text, &a) != nil || a.By != by {
		return nil
	}
	return a.Sums
}
