package iptables

import (
	"bytes"

	"svcc/emit"
)

// filterHooks and natHooks are the jumps from the built-in chains, from top to
// bottom as kube-proxy's insertions leave them on a clean host.
var (
	filterHooks = []rule{
		hook("INPUT", chainFirewall, ""),
		hook("INPUT", chainProxyFirewall, "kubernetes load balancer firewall", newOnly),
		hook("INPUT", chainNodePorts, "kubernetes health check service ports"),
		hook("INPUT", chainExternalServices, "kubernetes externally-visible service portals", newOnly),
		hook("FORWARD", chainProxyFirewall, "kubernetes load balancer firewall", newOnly),
		hook("FORWARD", chainForward, "kubernetes forwarding rules"),
		hook("FORWARD", chainServices, "kubernetes service portals", newOnly),
		hook("FORWARD", chainExternalServices, "kubernetes externally-visible service portals", newOnly),
		hook("OUTPUT", chainFirewall, ""),
		hook("OUTPUT", chainProxyFirewall, "kubernetes load balancer firewall", newOnly),
		hook("OUTPUT", chainServices, "kubernetes service portals", newOnly),
	}
	natHooks = []rule{
		hook("PREROUTING", chainServices, "kubernetes service portals"),
		hook("OUTPUT", chainServices, "kubernetes service portals"),
		hook("POSTROUTING", chainPostrouting, "kubernetes postrouting rules"),
	}
)

var newOnly = states{list: "NEW"}

// hook is a jump from a built-in chain. kube-proxy writes its conditions
// before the comment; to the kernel, and in a dump, that is the same rule.
func hook(from, to, comment string, ms ...match) rule {
	return rule{chain: from, early: ms, comment: comment, action: jump(to)}
}

// Hook puts the jumps from the built-in chains at the head of each table, as a
// node that loads the section has them.
func (Backend) Hook(s emit.Section) emit.Section {
	hooks := map[string][]rule{"*filter": filterHooks, "*nat": natHooks}
	var out []byte
	for line := range bytes.Lines(s.Text) {
		out = append(out, line...)
		rules := hooks[string(bytes.TrimSpace(line))]
		if rules == nil {
			continue
		}
		if !bytes.Contains(s.Text, []byte(":"+chainFirewall+" ")) && &rules[0] == &filterHooks[0] {
			out = append(out, ":"+chainFirewall+" - [0:0]\n"...)
		}
		for i := range rules {
			// The hooks' own comments are constants, so there is no error.
			out, _ = appendRule(out, &rules[i])
		}
	}
	s.Text = out
	return s
}
