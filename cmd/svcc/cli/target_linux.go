package cli

import (
	"cmp"
	"net"
	"net/netip"
	"slices"

	"svcc/apply"
	"svcc/apply/iptables"
	"svcc/apply/ipvs"
	"svcc/apply/state"
	"svcc/apply/sums"
	"svcc/emit"
	virtual "svcc/emit/ipvs"
	"svcc/emit/mode"
)

// aimAt sets what an engine programs: a mode, or what the record says. Where
// virtual servers are, or may be, what programs them sees to it that they go.
func (e *engineFlags) aimAt(en *apply.Engine, name string) {
	rec, _ := en.State.Record() // what is wrong with it is for the engine to say
	name = cmp.Or(name, rec.Mode, mode.Default.Name)
	en.Options.Mode = name
	tools := apply.Exec{Started: func(pid int, _ apply.Input) { en.State.Child(pid) }, Limit: e.tool}
	glue := &iptables.Target{Runner: tools, LockTimeout: e.lock, Canaries: e.canaries, Kernel: sums.Kernel{}}
	// Sets that others used when IPVS mode ended go with the rest.
	all := e.removing && e.mode == ""
	if name != mode.IPVS.Name && !all && !hadIPVS(en.State, rec) {
		en.Target = glue
		return
	}
	t := &ipvs.Target{
		Glue: glue, Runner: tools, Kernel: &ipvs.Netlink{}, DrainTimeout: e.drain, TakeOver: e.takeOver,
		Modprobe: name == mode.IPVS.Name && !e.dryRun,
	}
	if e.removing || name != mode.IPVS.Name {
		t.Exclude = excluded(en.State, rec)
	}
	en.Target = t
}

// excluded are the addresses whose virtual servers the ruleset in force leaves
// alone. What is wrong with it is for the engine to say.
func excluded(d *state.Dir, rec state.Record) []netip.Prefix {
	rs := rulesetOfState(d, rec.Current)
	if rs == nil {
		return nil
	}
	programs, err := rs.ReadPrograms()
	if err != nil {
		return nil
	}
	return ipvs.Excludes(programs)
}

// rulesetOfState reads one of the state directory; nil for what cannot be read.
func rulesetOfState(d *state.Dir, sum string) *emit.Ruleset {
	rs, err := apply.Recorded(d, sum)
	if err != nil {
		return nil
	}
	return rs
}

// hadIPVS says whether the node has, or may have, what IPVS mode makes.
func hadIPVS(d *state.Dir, rec state.Record) bool {
	modes := []string{rec.Mode}
	if j, err := d.Journal(); err == nil && j != nil {
		modes = append(modes, j.Mode)
	}
	return bearsLink() || slices.Contains(modes, mode.IPVS.Name)
}

// bearsLink says whether the link for addresses of IPVS mode is there.
func bearsLink() bool {
	_, err := net.InterfaceByName(virtual.Link)
	return err == nil
}

// modeBefore is the mode of the ruleset before the one in force; "" if that
// cannot be told, which is for the engine to say.
func modeBefore(dir string) string {
	d := state.At(dir)
	rec, err := d.Record()
	if err != nil {
		return ""
	}
	rs := rulesetOfState(d, rec.Previous)
	if rs == nil {
		return ""
	}
	return rs.Head.Mode
}
