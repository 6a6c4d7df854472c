package cli

import (
	"context"
	"slices"

	"svcc/apply"
	"svcc/apply/ipvs"
	"svcc/compiler/diff"
	"svcc/emit/mode"
)

// addAffected adds to a status the services of which packets show that they are
// affected. A node that is as recorded costs nothing; neither does one that a run is
// changing, for which it would not hold for long.
func addAffected(ctx context.Context, en *apply.Engine, st *apply.Status) {
	if len(st.Changes) == 0 || st.Condition == apply.UnderWay || st.Record.Current == "" {
		return
	}
	if len(st.Promised) == 0 {
		st.Unknown = "the ruleset does not say what it promises (svcc build --bare)"
		return
	}
	if err := sendPackets(ctx, en, st); err != nil {
		st.Unknown = "packets cannot be followed through the node's rules: " + err.Error()
	}
}

func sendPackets(ctx context.Context, en *apply.Engine, st *apply.Status) error {
	target := en.Target
	if t, both := en.Target.(*ipvs.Target); both && st.Record.Mode != mode.IPVS.Name {
		target = t.Glue
	}
	var rules []diff.Rule
	for _, c := range st.Changes {
		rules = append(rules, diff.Rule(c))
	}
	for _, p := range st.Promised {
		w, err := liveWalker(ctx, target, st.Record.Mode, p.Family)
		if err != nil {
			return err
		}
		found, err := diff.Affected(p, w, rules)
		st.Services = append(st.Services, found...)
		if err != nil {
			return err
		}
	}
	slices.Sort(st.Services)
	st.Services = slices.Compact(st.Services)
	return nil
}
