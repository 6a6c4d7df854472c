package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"svcc/apply"
	"svcc/apply/state"
	"svcc/compiler/diff"
	"svcc/emit"
	"svcc/ir"
)

// outcome tells what a run did, and gives its exit code.
func (e *engineFlags) outcome(s streams, en *apply.Engine, r apply.Report, err error) error {
	for _, note := range r.Notes {
		en.Log.Info(note)
	}
	if err != nil {
		return applied(err)
	}
	if e.dryRun {
		if err := showServices(s.out, r); err != nil {
			return exit{exitRefused, err}
		}
		showPlan(s.out, r)
		return nil
	}
	for _, what := range r.Left {
		en.Log.Info(what)
	}
	switch {
	case r.Wrote:
		came, went := countRules(r.Plan)
		en.Log.Info("done", "came", came, "went", went)
	case r.Recorded:
		en.Log.Info("the node was so already; it is recorded now")
	default:
		en.Log.Info("nothing to do: the node is so already")
	}
	return nil
}

func countRules(p apply.Plan) (came, went int) {
	for _, c := range p.Rules() {
		if c.Add {
			came++
		} else {
			went++
		}
	}
	return came, went
}

// showServices prints what a run would do, service by service: what the record
// promised until now against what it would promise.
func showServices(w io.Writer, r apply.Report) error {
	var sides [2][]*ir.Program
	for i, rs := range []*emit.Ruleset{r.Before, r.After} {
		if rs == nil {
			continue
		}
		if len(rs.Programs) == 0 {
			return nil // a --bare file says nothing of services
		}
		var err error
		if sides[i], err = rs.ReadPrograms(); err != nil {
			return err
		}
	}
	d, err := diff.Compare(sides[0], sides[1])
	if err != nil || d.Same() {
		return err
	}
	return d.Text(w, false)
}

// showPlan prints what a run would do, rule by rule.
func showPlan(w io.Writer, r apply.Report) {
	if r.Plan.Empty() && len(r.Sysctls) == 0 {
		fmt.Fprintln(w, "nothing would change")
		return
	}
	for _, s := range r.Sysctls {
		fmt.Fprintf(w, "sysctl %s\n", s)
	}
	for _, c := range r.Plan.Rules() {
		fmt.Fprintln(w, strings.Map(printable, c.String()))
	}
	came, went := countRules(r.Plan)
	come := "rules and chains"
	if came == 1 {
		come = "rule or chain"
	}
	fmt.Fprintf(w, "%d %s would come, %d would go\n", came, come, went)
}

// applied gives an error of package apply its exit code.
func applied(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, apply.ErrHalfMade):
		return exit{exitHalfMade, err}
	case errors.Is(err, apply.ErrLocked), errors.Is(err, state.ErrBusy), errors.Is(err, state.ErrChild):
		return exit{exitLocked, err}
	}
	return exit{exitRefused, needsRoot(err)}
}
