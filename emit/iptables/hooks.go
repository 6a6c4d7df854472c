package iptables

import (
	"slices"

	"svcc/emit/iptables/rule"
)

// filterHooks and natHooks are the jumps from the built-in chains, from top to
// bottom as kube-proxy's insertions leave them on a clean host.
var (
	filterHooks = []rule.Rule{
		hook("INPUT", chainFirewall, ""),
		hook("INPUT", ChainProxyFirewall, "kubernetes load balancer firewall", newOnly),
		hook("INPUT", chainNodePorts, "kubernetes health check service ports"),
		hook("INPUT", chainExternalServices, "kubernetes externally-visible service portals", newOnly),
		hook("FORWARD", ChainProxyFirewall, "kubernetes load balancer firewall", newOnly),
		hook("FORWARD", ChainForward, "kubernetes forwarding rules"),
		hook("FORWARD", ChainServices, "kubernetes service portals", newOnly),
		hook("FORWARD", chainExternalServices, "kubernetes externally-visible service portals", newOnly),
		hook("OUTPUT", chainFirewall, ""),
		hook("OUTPUT", ChainProxyFirewall, "kubernetes load balancer firewall", newOnly),
		hook("OUTPUT", ChainServices, "kubernetes service portals", newOnly),
	}
	natHooks = []rule.Rule{
		hook("PREROUTING", ChainServices, "kubernetes service portals"),
		hook("OUTPUT", ChainServices, "kubernetes service portals"),
		hook("POSTROUTING", ChainPostrouting, "kubernetes postrouting rules"),
	}
	// ipvsFilterHooks are those of the IPVS mode, whose chains ask for themselves
	// what kube-proxy's order of hooks leaves open: guards come first, then what
	// is open whatever the service.
	ipvsFilterHooks = []rule.Rule{
		hook("INPUT", ChainProxyFirewall, "kube-proxy firewall rules", newOnly),
		hook("INPUT", ChainNodePort, "kubernetes health check rules"),
		hook("INPUT", ChainIPVSFilter, "kubernetes ipvs access filter", newOnly),
		hook("FORWARD", ChainForward, "kubernetes forwarding rules"),
		hook("OUTPUT", ChainIPVSOut, "kubernetes ipvs access filter", newOnly),
	}
	// fastFilterHooks are those of the fast layouts: a chain tells a state once
	// for all, and there is no jump to a chain that does not exist. Health
	// checks come after new connections, which look for them by themselves.
	fastFilterHooks = []rule.Rule{
		hook("INPUT", chainFirewall, ""),
		hook("INPUT", chainExternalServices, "kubernetes externally-visible service portals", newOnly),
		hook("INPUT", chainNodePorts, "kubernetes health check service ports"),
		hook("FORWARD", ChainForward, "kubernetes forwarding rules"),
		hook("OUTPUT", chainFirewall, ""),
		hook("OUTPUT", ChainServices, "kubernetes service portals", newOnly),
	}
)

// Hooks are the jumps from built-in chains that a table with these chains needs: the
// layout is told by a chain that only kube-proxy's has.
func Hooks(table string, chains []string) []rule.Rule {
	rows := natHooks
	switch {
	case table != "filter":
	case slices.Contains(chains, ChainIPVSFilter):
		rows = ipvsFilterHooks
	case slices.Contains(chains, ChainProxyFirewall):
		rows = filterHooks
	default:
		rows = fastFilterHooks
	}
	var out []rule.Rule
	for _, r := range rows {
		if slices.Contains(chains, targetOf(r.Action)) {
			out = append(out, r)
		}
	}
	return out
}

var newOnly = rule.States{List: "NEW"}

// hook is a jump from a built-in chain. kube-proxy writes its conditions
// before the comment; to the kernel, and in a dump, that is the same rule.
func hook(from, to, comment string, ms ...rule.Match) rule.Rule {
	return rule.Rule{Chain: from, Early: ms, Comment: comment, Action: rule.Jump(to)}
}

// Jumps are the lines that a restore input without the jumps from built-in chains lacks
// in a table with these chains, as a node that loads it has them: jumps, and before
// them a chain that they need.
func Jumps(table string, chains []string) (lines []string) {
	if table == "filter" && slices.Contains(chains, ChainProxyFirewall) &&
		!slices.Contains(chains, chainFirewall) && !slices.Contains(chains, ChainIPVSFilter) {
		lines = append(lines, ":"+chainFirewall+" - [0:0]")
		chains = append(slices.Clone(chains), chainFirewall)
	}
	for _, r := range Hooks(table, chains) {
		line, _ := rule.Append(nil, &r) // the hooks' comments are constants
		lines = append(lines, string(line[:len(line)-1]))
	}
	return lines
}
