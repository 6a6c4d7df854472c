package apply

import (
	"fmt"
	"slices"
	"strings"

	"svcc/ir"
)

// shrink refuses a ruleset that takes the endpoints away from more than half of
// the Services that have some by the record: the input is more likely to be
// incomplete (kubernetes#126468) than a cluster to be gone.
func (r *run) shrink() error {
	if r.Options.AllowShrink || bare(r.after) {
		return nil
	}
	had, has := served(r.promised), served(r.promises)
	var lost []string
	for name := range had {
		if !has[name] {
			lost = append(lost, name)
		}
	}
	if 2*len(lost) <= len(had) {
		return nil
	}
	slices.Sort(lost)
	return r.refuseShrink(lost, len(had))
}

func (r *run) refuseShrink(lost []string, of int) error {
	const most = 5
	names := strings.Join(lost[:min(most, len(lost))], ", ")
	if len(lost) > most {
		names += ", ..."
	}
	err := fmt.Errorf("%w: %d of %d (%s); if the input is complete, go on with --allow-shrink", ErrShrink, len(lost), of, names)
	if r.Options.DryRun {
		r.Log.Warn(err.Error())
		return nil
	}
	return err
}

// served names the Services of which some port has endpoints here, in any family.
func served(programs []*ir.Program) map[string]bool {
	out := map[string]bool{}
	for _, p := range programs {
		for _, s := range p.Services {
			if len(s.Cluster)+len(s.Local) > 0 {
				out[s.Service()] = true
			}
		}
	}
	return out
}
