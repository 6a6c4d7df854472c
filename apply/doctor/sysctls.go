package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"svcc/apply/sysctl"
	"svcc/ir"
)

// sysctls looks at the settings that the rules' work depends on.
func sysctls(x *examination) []Finding {
	var out []Finding
	for _, f := range ir.Families {
		if x.wants(f) && (f == ir.IPv4 || x.hasIPv6()) {
			out = append(out, x.forwarding(f), x.bridge(f))
		}
	}
	out = append(out, x.localnet(), x.liberal(), x.reversePath())
	if x.facts().BindsAddresses {
		out = append(out, x.virtualSettings()...)
	}
	return out
}

// virtualSettings are those that only virtual servers need. svcc apply sets
// them: until it has, it is no fault that they are not.
func (x *examination) virtualSettings() []Finding {
	programs := slices.DeleteFunc(slices.Clone(x.Programs), func(p *ir.Program) bool { return !p.Options.Facts().BindsAddresses })
	if len(programs) == 0 {
		programs = []*ir.Program{{Family: ir.IPv4, Options: ir.Options{Virtual: &ir.Virtual{}}}}
	}
	var out []Finding
	for _, s := range sysctl.Needed(x.Root, programs) {
		if s.Name == sysctl.RouteLocalnet || s.Stays { // forwarding and localnet look at these
			continue
		}
		id := "sysctl." + strings.ReplaceAll(strings.TrimPrefix(strings.TrimPrefix(s.Name, "net/ipv4/"), "conf/all/"), "/", ".")
		if !x.served() && x.applySets(s) {
			out = append(out, willBeSet(id, s))
			continue
		}
		out = append(out, x.setting(id, Fail, s, Finding{ID: id, State: Fail, Text: "there is no " + dotted(s.Name), Todo: "modprobe ip_vs; is /proc/sys mounted?"}))
	}
	return out
}

// applySets says that a setting is not as svcc apply makes it.
func (x *examination) applySets(s sysctl.Sysctl) bool {
	now, err := sysctl.Get(x.Root, s.Name)
	return err == nil && now != s.Value || errors.Is(err, fs.ErrNotExist)
}

func willBeSet(id string, s sysctl.Sysctl) Finding {
	return ok(id, fmt.Sprintf("svcc apply sets %s to %s", dotted(s.Name), s.Value))
}

// setting compares one setting. missing is what it means that the kernel has
// none such.
func (x *examination) setting(id string, bad State, want sysctl.Sysctl, missing Finding) Finding {
	now, err := sysctl.Get(x.Root, want.Name)
	name := dotted(want.Name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return missing
	case err != nil:
		return Finding{ID: id, State: Unknown, Text: err.Error(), Todo: "run as root"}
	case now == want.Value:
		return ok(id, name+" = "+now)
	}
	return Finding{ID: id, State: bad, Text: fmt.Sprintf("%s = %s: %s", name, now, want.Why), Sysctl: &want,
		Todo: fmt.Sprintf("sysctl -w %s=%s, and the same in /etc/sysctl.d for the next boot (or svcc doctor --fix for now)", name, want.Value)}
}

// dotted is how sysctl(8) and its files spell a setting.
func dotted(name string) string { return strings.ReplaceAll(name, "/", ".") }

func (x *examination) forwarding(f ir.Family) Finding {
	id := "sysctl.forwarding." + f.String()
	name := "net/ipv4/ip_forward"
	if f == ir.IPv6 {
		name = "net/ipv6/conf/all/forwarding"
	}
	want := sysctl.Sysctl{Name: name, Value: "1", Why: "packets for endpoints are not forwarded: pods and clients outside reach no Service"}
	return x.setting(id, Fail, want, Finding{ID: id, State: Unknown, Text: "there is no " + dotted(name), Todo: "is /proc/sys mounted?"})
}

// bridge: packets between pods on one bridge meet the rules only if bridges
// hand them to iptables; without the module br_netfilter they never do.
func (x *examination) bridge(f ir.Family) Finding {
	id, name := "sysctl.bridge."+f.String(), "net/bridge/bridge-nf-call-iptables"
	if f == ir.IPv6 {
		name = "net/bridge/bridge-nf-call-ip6tables"
	}
	want := sysctl.Sysctl{Name: name, Value: "1", Why: "answers between two pods on one bridge bypass the rules, and arrive from the wrong address"}
	return x.setting(id, Warn, want, ok(id, "br_netfilter is not loaded; it is needed only where pods share a bridge"))
}

// localnet is set by svcc apply: until the ruleset in force needs it, it is no fault
// that it is not.
func (x *examination) localnet() Finding {
	const id = "sysctl.route_localnet"
	is := func(s sysctl.Sysctl) bool { return s.Name == sysctl.RouteLocalnet }
	needed := sysctl.Needed(x.Root, x.Programs)
	i := slices.IndexFunc(needed, is)
	if i < 0 {
		return ok(id, "no node port that is known answers at 127.0.0.1")
	}
	want := needed[i]
	if !slices.ContainsFunc(sysctl.Needed(x.Root, x.promised()), is) && x.applySets(want) {
		return willBeSet(id, want)
	}
	want.Why = "node ports do not answer at 127.0.0.1"
	return x.setting(id, Fail, want, Finding{ID: id, State: Unknown, Text: "there is no " + dotted(want.Name), Todo: "is /proc/sys mounted?"})
}

// liberal: the rules drop what connection tracking calls invalid, unless it was
// said, when they were made, that it calls nothing so (kubernetes#94861). With
// the setting on, the rule finds nothing: harmless.
func (x *examination) liberal() Finding {
	const id, name = "sysctl.be_liberal", "net/netfilter/nf_conntrack_tcp_be_liberal"
	spares := slices.ContainsFunc(x.Programs, func(p *ir.Program) bool { return !p.Options.DropInvalid })
	if !spares {
		return ok(id, "the rules drop invalid packets themselves, or no rules are known")
	}
	want := sysctl.Sysctl{Name: name, Value: "1", Why: "the rules were made for 1 (--tcp-be-liberal) and let invalid packets pass, which reset connections"}
	return x.setting(id, Fail, want, ok(id, "connection tracking is not loaded yet"))
}

// reversePath: a strict filter drops packets that come in by another interface
// than answers would leave by. That can be where there are two ways out.
func (x *examination) reversePath() Finding {
	const id, name = "sysctl.rp_filter", "net/ipv4/conf/all/rp_filter"
	ways := x.waysOut()
	if ways < 2 {
		return ok(id, "there is at most one way out, by which everything comes in")
	}
	if now, err := sysctl.Get(x.Root, name); err == nil && now != "1" {
		return ok(id, dotted(name)+" = "+now)
	}
	want := sysctl.Sysctl{Name: name, Value: "2", Why: "there are " + strconv.Itoa(ways) + " ways out, and a client that comes in by one and is answered by another is dropped"}
	return x.setting(id, Warn, want, ok(id, "there is no "+dotted(name)))
}

// waysOut counts the interfaces with an IPv4 default route (proc_net(5)).
func (x *examination) waysOut() int {
	text, err := os.ReadFile(x.path("proc/thread-self/net/route"))
	if err != nil {
		return 0
	}
	seen := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 7 && f[1] == "00000000" && f[7] == "00000000" {
			seen[f[0]] = true
		}
	}
	return len(seen)
}
