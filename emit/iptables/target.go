package iptables

import (
	"net/netip"

	"svcc/emit/iptables/rule"
	"svcc/emit/walk"
)

// targets are those with a model.
var targets = modelled(rule.TargetTerm, []module{
	{name: "DNAT", do: walk.DoDNAT, models: map[string]option{
		"--to-destination": {false, setDNAT},
		// With a single address and port there is nothing to choose.
		"--random":     {false, ignore},
		"--persistent": {false, ignore},
	}},
	{name: "MARK", do: walk.DoMark, models: map[string]option{
		"--set-xmark": {false, func(r *ruleParser, v string) string { return setXmark(r, v, false) }},
		"--set-mark":  {false, func(r *ruleParser, v string) string { return setXmark(r, v, true) }},
		"--or-mark":   {false, bitsOf(func(n uint32) (uint32, uint32) { return n, n })},
		"--and-mark":  {false, bitsOf(func(n uint32) (uint32, uint32) { return 0, ^n })},
		"--xor-mark":  {false, bitsOf(func(n uint32) (uint32, uint32) { return n, 0 })},
	}},
	{name: "ACCEPT", do: walk.DoAccept},
	{name: "RETURN", do: walk.DoReturn},
	{name: "DROP", do: walk.DoDrop},
	{name: "REJECT", do: walk.DoReject, models: map[string]option{"--reject-with": {false, setReject}}},
	{name: "MASQUERADE", do: walk.DoMasquerade, models: map[string]option{"--random-fully": {false, ignore}, "--random": {false, ignore}}},
})

func setDNAT(r *ruleParser, v string) string {
	to, err := netip.ParseAddrPort(v)
	if err != nil {
		a, err := netip.ParseAddr(v)
		if err != nil {
			return "not one address, with or without a port"
		}
		to = netip.AddrPortFrom(a, 0)
	}
	if !r.rs.Family.Of(to.Addr()) || to.Addr().Zone() != "" {
		return "not an address of " + r.rs.Family.String()
	}
	r.target = int32(len(r.rs.Dests))
	r.rs.Dests = append(r.rs.Dests, to)
	return ""
}

func setXmark(r *ruleParser, v string, set bool) string {
	value, mask, ok := rule.ParseMasked(v)
	if !ok {
		return "not a mark"
	}
	if set {
		mask |= value
	}
	r.value, r.mask = value, mask
	return ""
}

func bitsOf(f func(uint32) (value, mask uint32)) func(*ruleParser, string) string {
	return func(r *ruleParser, v string) string {
		n, ok := rule.ParseNumber(v)
		if !ok {
			return "not a mark"
		}
		r.value, r.mask = f(n)
		return ""
	}
}

// setReject notes an answer that kube-proxy's rules never give: from a foreign
// rule it is a refusal like any other, from one of ours a difference.
func setReject(r *ruleParser, v string) string {
	if !rule.PortUnreachable(v) {
		r.value = 1
	}
	return ""
}
