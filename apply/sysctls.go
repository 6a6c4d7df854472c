package apply

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"svcc/apply/sysctl"
	"svcc/ir"
)

// settings are the sysctls of a run.
type settings struct {
	change []sysctl.Sysctl // what is to be set
	was    []sysctl.Saved  // what these have now
	keep   []sysctl.Saved  // for the record: values from before svcc changed them
}

func (e *Engine) root() string {
	if e.Root == "" {
		return "/"
	}
	return e.Root
}

// planSysctls works out which settings the services need that are not so, and
// which of those that svcc set are needed no more and go back.
func (r *run) planSysctls() error {
	kept := r.record.Sysctls
	if r.after != nil && r.promises == nil {
		r.sysctls.keep = kept
		return nil
	}
	needed := sysctl.Needed(r.root(), r.promises)
	for _, s := range kept {
		if has(needed, s.Name) {
			r.sysctls.keep = append(r.sysctls.keep, s)
		} else if err := r.set(sysctl.Sysctl{Name: s.Name, Value: s.Value}, false); err != nil {
			return err
		}
	}
	for _, s := range needed {
		if err := r.set(s, !slices.ContainsFunc(kept, func(k sysctl.Saved) bool { return k.Name == s.Name })); err != nil {
			return err
		}
	}
	return nil
}

func has(list []sysctl.Sysctl, name string) bool {
	return slices.ContainsFunc(list, func(s sysctl.Sysctl) bool { return s.Name == name })
}

// set plans one setting, unless it has its value. The value that it has is kept
// in the record, to be put back one day, if it is not svcc's.
func (r *run) set(s sysctl.Sysctl, keep bool) error {
	now, err := sysctl.Get(r.root(), s.Name)
	if errors.Is(err, fs.ErrNotExist) && s.Why == "" {
		return nil // it was to go back, and is gone
	}
	if err != nil {
		return fmt.Errorf("sysctl %s: %w", s.Name, err)
	}
	if now == s.Value {
		return nil
	}
	saved := sysctl.Saved{Name: s.Name, Value: now}
	if err := sysctl.Check([]sysctl.Saved{saved}); err != nil {
		return fmt.Errorf("it could not be put back: %w", err)
	}
	r.sysctls.change = append(r.sysctls.change, s)
	r.sysctls.was = append(r.sysctls.was, saved)
	if keep && !s.Stays {
		r.sysctls.keep = append(r.sysctls.keep, saved)
	}
	r.report.Sysctls = append(r.report.Sysctls, fmt.Sprintf("%s: %s -> %s", s.Name, now, s.Value))
	return nil
}

// amiss names the settings that services need and that are not so.
func (e *Engine) amiss(promises []*ir.Program) []string {
	var out []string
	for _, s := range sysctl.Needed(e.root(), promises) {
		if now, err := sysctl.Get(e.root(), s.Name); err != nil {
			out = append(out, fmt.Sprintf("%s: %v", s.Name, err))
		} else if now != s.Value {
			out = append(out, fmt.Sprintf("%s is %s, not %s", s.Name, now, s.Value))
		}
	}
	return out
}
