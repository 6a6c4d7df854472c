package doctor

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"
	"strings"

	"svcc/apply"
	"svcc/apply/iptables"
	"svcc/apply/ipvs"
	"svcc/apply/sysctl"
	"svcc/emit"
	"svcc/emit/mode"
	"svcc/ir"
)

// State is how a thing is.
type State string

// The states.
const (
	OK      State = "ok"
	Warn    State = "warn"    // works until something else happens, or for some
	Fail    State = "fail"    // something that Services promise does not work
	Unknown State = "unknown" // could not be looked at
)

// Finding is what a check found.
type Finding struct {
	ID    string `json:"id"` // the check's, with more after a dot where it has several
	State State  `json:"state"`
	Text  string `json:"text"`           // what was found
	Todo  string `json:"todo,omitempty"` // what to do; empty if OK
	// Sysctl is the setting that would mend it, if a setting would.
	Sysctl *sysctl.Sysctl `json:"sysctl,omitempty"`
}

// Check is a row of the table of checks.
type Check struct {
	ID, Doc string
	run     func(*examination) []Finding
	only    func(*ir.Facts) bool // of modes: those for which it holds; nil for all
}

// binding are modes in which the node bears service addresses for virtual servers.
func binding(f *ir.Facts) bool { return f.BindsAddresses }

// Checks are all checks in the order in which they run.
var Checks = []Check{
	{"tools", "iptables-restore, iptables-save and their IPv6 twins are there, of one flavour and a version that works", tools, nil},
	{"flavours", "no kube-proxy rules are left in the other flavour of iptables, where they would steer packets too", flavours, nil},
	{"modes", "nothing of another mode is left, whose virtual servers or rules would steer packets too", modes, nil},
	{"capabilities", "this process may change rules (CAP_NET_ADMIN, CAP_NET_RAW) and try them apart (CAP_SYS_ADMIN)", capabilities, nil},
	{"kernel", "each kind of rule that svcc writes can be loaded; names the module that is missing", kernel, nil},
	{"ipvs", "IPVS mode: ip_vs, the schedulers, dummy devices and rules that ask for virtual servers are there; names the module that is missing", virtualServers, binding},
	{"sets", "IPVS mode: ipset is there, each type of set, and rules that ask them; names the module that is missing", sets, binding},
	{"conntrack", "stale UDP flows can be deleted (nf_conntrack_netlink)", flowTable, nil},
	{"policies", "no chain outside svcc's drops by policy what Services let through", policies, nil},
	{"sysctl", "forwarding, localhost node ports, bridges, connection tracking, virtual servers and reverse-path filters are set as the rules expect", sysctls, nil},
	{"addresses", "IPVS mode: the node bears service addresses on kube-ipvs0, which is svcc's, and not on other interfaces", addresses, binding},
	{"affinity", "session affinity can remember enough clients (xt_recent ip_list_tot)", affinity, nil},
	{"kube-proxy", "no kube-proxy runs that would write its own rules", kubeProxy, nil},
	{"state", "the state directory can be used, and no run was interrupted", stateDir, nil},
}

// Doctor examines a node.
type Doctor struct {
	Root     string // where proc and sys are: "/"
	Runner   apply.Runner
	StateDir string
	// Programs are what the node is to do, for what depends on it; nil if that
	// is not known.
	Programs []*ir.Program
	// Mode is what the node is to be in; nil for the usual one.
	Mode *mode.Mode
	// Schedulers are to be there in IPVS mode, beside those that Programs name.
	Schedulers []string
	// InForce is the ruleset that the record says is in force; nil for none.
	InForce *emit.Ruleset
	// Kernel has the virtual servers; nil stands for netlink's.
	Kernel ipvs.Kernel
	// Interfaces lists the node's; nil stands for this network namespace's.
	Interfaces func() ([]ipvs.Interface, error)
	// Flows asks whether entries of flows can be deleted; nil stands for
	// conntrack.Available.
	Flows func() error
}

// examination is one run of the checks.
type examination struct {
	*Doctor
	ctx      context.Context
	versions map[ir.Family]iptables.Version // of the tools that answered
}

// Examine runs all checks of the mode. It changes nothing.
func (d *Doctor) Examine(ctx context.Context) []Finding {
	seen := *d
	if seen.Kernel == nil {
		k := &ipvs.Netlink{}
		defer k.Close()
		seen.Kernel = k
	}
	if seen.Interfaces == nil {
		seen.Interfaces = ipvs.Interfaces
	}
	x := &examination{Doctor: &seen, ctx: ctx, versions: map[ir.Family]iptables.Version{}}
	var out []Finding
	for _, c := range Checks {
		if c.only == nil || c.only(x.facts()) {
			out = append(out, c.run(x)...)
		}
	}
	return out
}

// facts are those of the mode that the node is to be in.
func (d *Doctor) facts() *ir.Facts { return cmp.Or(d.Mode, mode.Default).Facts }

// Fix sets the settings that findings named, and returns what they were before.
func (d *Doctor) Fix(findings []Finding) ([]sysctl.Saved, error) {
	var want []sysctl.Sysctl
	for _, f := range findings {
		if f.Sysctl != nil && f.State != OK {
			want = append(want, *f.Sysctl)
		}
	}
	return sysctl.Set(d.Root, want)
}

// Works says that everything was looked at and nothing fails; if strict, that there
// is no warning either.
func Works(findings []Finding, strict bool) bool {
	return !slices.ContainsFunc(findings, func(f Finding) bool { return f.State != OK && (strict || f.State != Warn) })
}

func (d *Doctor) path(name string) string { return filepath.Join(d.Root, name) }

// wants says whether a family is served on this node, or may be.
func (d *Doctor) wants(f ir.Family) bool {
	return d.Programs == nil || slices.ContainsFunc(d.Programs, func(p *ir.Program) bool { return p.Family == f && len(p.Services) > 0 })
}

// severity of a fault that concerns one family: apply cleans both, so that a
// family without Services matters less.
func (d *Doctor) severity(f ir.Family) State {
	if d.wants(f) {
		return Fail
	}
	return Warn
}

func ok(id, text string) Finding { return Finding{ID: id, State: OK, Text: text} }

// one makes a list of a single finding.
func one(id string, s State, text, todo string) []Finding {
	return []Finding{{ID: id, State: s, Text: text, Todo: todo}}
}

// run runs a tool that only looks.
func (x *examination) run(tool string, args ...string) (string, error) {
	out, err := x.Runner.Run(x.ctx, apply.Input{Tool: tool, Args: args})
	return string(out), err
}

// oneLine fits a tool's words into a finding.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
