package doctor

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"svcc/apply/ipvs"
	"svcc/emit"
	rules "svcc/emit/iptables"
	spec "svcc/emit/ipvs"
	"svcc/emit/mode"
	"svcc/ir"
)

// modes looks for what is left of the mode that the node is not in.
func modes(x *examination) []Finding {
	if !x.facts().BindsAddresses {
		return []Finding{x.serversLeft()}
	}
	var out []Finding
	for _, f := range x.toolFamilies() {
		out = append(out, x.rulesLeft(f))
	}
	if len(out) == 0 {
		return one("modes", Unknown, "without iptables, rules of iptables mode cannot be seen", install)
	}
	return out
}

// recorded is the mode that is in force by the record; nil for none.
func (x *examination) recorded() *mode.Mode {
	if x.InForce == nil {
		return nil
	}
	return mode.Named(x.InForce.Head.Mode)
}

// served says that virtual servers are in force by the record.
func (x *examination) served() bool {
	m := x.recorded()
	return m != nil && m.Facts.BindsAddresses
}

// promised are the Programs of the ruleset in force, as far as they can be read.
func (x *examination) promised() []*ir.Program {
	if x.InForce == nil {
		return nil
	}
	programs, _ := x.InForce.ReadPrograms()
	return programs
}

// serversLeft looks for virtual servers beside iptables mode.
func (x *examination) serversLeft() Finding {
	const id = "modes"
	if x.served() {
		return ok(id, "IPVS mode is in force; svcc apply --mode iptables ends it")
	}
	there, addresses, err := x.Kernel.Link()
	if err != nil {
		return Finding{ID: id, State: Unknown, Text: oneLine(err.Error()), Todo: "look at \"ip address show dev " + spec.Link + "\""}
	}
	if !there {
		return ok(id, "nothing of IPVS mode is here")
	}
	servers, err := x.Kernel.Servers()
	if err != nil && !errors.Is(err, ipvs.ErrNoIPVS) {
		return Finding{ID: id, State: Unknown, Text: oneLine(err.Error()), Todo: "run as root, with CAP_NET_ADMIN"}
	}
	n := 0
	for _, s := range servers {
		if slices.Contains(addresses, s.Address.Addr()) {
			n++
		}
	}
	return Finding{ID: id, State: Warn,
		Text: fmt.Sprintf("%s of IPVS mode is left, with %d addresses and %d virtual servers at them: what the rules do not send elsewhere ends there", spec.Link, len(addresses), n),
		Todo: "svcc apply takes them away, with --take-over if it was not svcc that made them, and so does svcc remove"}
}

// rulesLeft looks for chains of iptables mode beside IPVS mode, where a few of
// them, for the views of pods and the node, are part of the ruleset.
func (x *examination) rulesLeft(f ir.Family) Finding {
	id := "modes." + f.String()
	if x.recorded() != nil && !x.served() {
		return ok(id, "iptables mode is in force; svcc apply --mode ipvs ends it")
	}
	text, err := x.saved(f, "nat")
	if err != nil {
		return Finding{ID: id, State: Unknown, Text: oneLine(err.Error()), Todo: todo(err, "run as root, with CAP_NET_ADMIN")}
	}
	own := x.recordedChains(f)
	left := slices.DeleteFunc(ownChains(text), func(c string) bool { return virtualChains[c] || own[c] })
	switch {
	case len(left) == 0:
		return ok(id, "nothing of iptables mode is here")
	case x.InForce != nil:
		return Finding{ID: id, State: Warn, Text: fmt.Sprintf("%d chains are in nat that no ruleset in force has, such as %s; nat comes before virtual servers", len(left), left[0]),
			Todo: "svcc apply takes them away; find out who makes them"}
	}
	return Finding{ID: id, State: Warn, Text: fmt.Sprintf("%d chains of iptables mode are in nat, such as %s, which svcc did not make; nat comes before virtual servers", len(left), left[0]),
		Todo: "stop what made them, as kube-proxy; then svcc apply --take-over replaces them"}
}

// virtualChains are those of IPVS mode in nat.
var virtualChains = map[string]bool{rules.ChainServices: true, rules.ChainNodePort: true, rules.ChainLoadBalancer: true}

// recordedChains are those of nat that the ruleset in force has.
func (x *examination) recordedChains(f ir.Family) map[string]bool {
	out := map[string]bool{}
	for _, s := range x.sections(f) {
		if s.Tool == rules.Tool {
			for _, c := range ownChains(string(s.Text)) {
				out[c] = true
			}
		}
	}
	return out
}

// sections are those of the ruleset in force.
func (x *examination) sections(f ir.Family) []emit.Section {
	if x.InForce == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(x.InForce.Sections), func(s emit.Section) bool { return s.Family != f })
}

// some joins a few of a list.
func some(list []string) string {
	const few = 3
	if len(list) > few {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:few], ", "), len(list)-few)
	}
	return strings.Join(list, ", ")
}
