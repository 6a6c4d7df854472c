package conntrack

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"svcc/ir"
)

// Table is a connection-tracking table; tests put a fake behind it.
type Table interface {
	// Local gives the node's own addresses of a family.
	Local(f ir.Family) ([]netip.Prefix, error)
	// Each shows every UDP entry of a family once. ErrInterrupted means that
	// the table changed meanwhile: what was shown exists, some was left out.
	Each(ctx context.Context, f ir.Family, see func(Entry)) error
	// Delete deletes exactly these entries, all of one family. An entry that
	// is gone, or that another flow has replaced, is none of them any more and
	// no error; it is not counted in deleted.
	Delete(ctx context.Context, f ir.Family, entries []Entry) (deleted int, err error)
}

// ErrInterrupted is a listing that the table's own change made incomplete.
var ErrInterrupted = errors.New("the table changed while it was listed")

// attempts bounds the listings of a table that keeps changing.
const attempts = 5

// Report says what Clean found and did.
type Report struct {
	Listed     int    // UDP entries looked at
	Stale      []Flow // by family, in the table's order
	Deleted    int    // of them; the others had ended by themselves
	Incomplete bool   // the table changed too fast to be seen as a whole
}

// Flow is a stale entry and the service port whose destination it went to.
type Flow struct {
	Entry
	Service ir.PortName
	Gone    bool // the destination is no service's any more
}

// String is one line for people: the number of flows, by service.
func (r Report) String() string {
	if len(r.Stale) == 0 {
		return fmt.Sprintf("no stale UDP flows among %d", r.Listed)
	}
	var parts []string
	for _, c := range r.byService() {
		parts = append(parts, fmt.Sprintf("%s %d", c.name, c.n))
	}
	flows := "flows"
	if len(r.Stale) == 1 {
		flows = "flow"
	}
	return fmt.Sprintf("%d stale UDP %s among %d, %d deleted: %s", len(r.Stale), flows, r.Listed, r.Deleted, strings.Join(parts, ", "))
}

type count struct {
	name string
	n    int
}

// byService counts in the order of services' first flows, at most a handful.
func (r Report) byService() []count {
	const most = 10
	at := map[ir.PortName]int{}
	var out []count
	for _, f := range r.Stale {
		i, seen := at[f.Service]
		if !seen {
			i = min(len(out), most)
			at[f.Service] = i
			switch {
			case len(out) < most:
				out = append(out, count{name: f.Service.String()})
			case len(out) == most:
				out = append(out, count{name: "others"})
			}
		}
		out[i].n++
	}
	return out
}

// Clean deletes the stale entries of both families, or with dryRun only names
// them. old are the Programs of the ruleset before, nil if there was none; new
// those of the ruleset that the kernel holds now. It reads nothing where no UDP
// service port is or was. After an error the Report holds what was done; it is
// safe to run again.
func Clean(ctx context.Context, t Table, old, new []*ir.Program, dryRun bool) (Report, error) {
	var r Report
	j := newJudge(old, new)
	var errs []error
	for _, f := range j.families() {
		if err := r.clean(ctx, t, f, j, dryRun); err != nil {
			errs = append(errs, fmt.Errorf("UDP conntrack entries, %s: %w", f, err))
		}
	}
	return r, errors.Join(errs...)
}

func (r *Report) clean(ctx context.Context, t Table, f ir.Family, j *judge, dryRun bool) error {
	local, err := t.Local(f)
	if err != nil {
		return err
	}
	j.setLocal(local)
	flows, listed, err := list(ctx, t, f, j)
	if errors.Is(err, ErrInterrupted) {
		r.Incomplete, err = true, nil
	}
	if err != nil {
		return err
	}
	r.Listed += listed
	r.Stale = append(r.Stale, flows...)
	if dryRun || len(flows) == 0 {
		return nil
	}
	entries := make([]Entry, len(flows))
	for i, f := range flows {
		entries[i] = f.Entry
	}
	n, err := t.Delete(ctx, f, entries)
	r.Deleted += n
	return err
}

// list gives the stale entries of a family. A listing that was interrupted is
// made again; the last attempt's stands.
func list(ctx context.Context, t Table, f ir.Family, j *judge) (flows []Flow, listed int, err error) {
	for range attempts {
		flows, listed = nil, 0
		err = t.Each(ctx, f, func(e Entry) {
			listed++
			if owner, stale := j.judge(e); stale {
				flows = append(flows, Flow{Entry: e, Service: owner.port.PortName, Gone: j.now[f].find(e.Dst, j.local) == nil})
			}
		})
		if !errors.Is(err, ErrInterrupted) || ctx.Err() != nil {
			break
		}
	}
	return flows, listed, err
}
