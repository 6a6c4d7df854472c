package iptables

import (
	"net/netip"

	"svcc/emit/iptables/rule"
	"svcc/emit/walk"
)

// target is what -j names beside chains.
type target struct {
	name    string
	do      walk.Verb
	options []option
}

// targets are those with a model.
var targets = []target{
	{name: "DNAT", do: walk.DoDNAT, options: []option{
		{"--to-destination", true, false, setDNAT},
		{"--to", true, false, setDNAT},
		// With a single address and port there is nothing to choose.
		{"--random", false, false, ignore},
		{"--persistent", false, false, ignore},
	}},
	{name: "MARK", do: walk.DoMark, options: []option{
		{"--set-xmark", true, false, func(r *ruleParser, v string) string { return setXmark(r, v, false) }},
		{"--set-mark", true, false, func(r *ruleParser, v string) string { return setXmark(r, v, true) }},
		{"--or-mark", true, false, func(r *ruleParser, v string) string {
			return setBits(r, v, func(n uint32) (uint32, uint32) { return n, n })
		}},
		{"--and-mark", true, false, func(r *ruleParser, v string) string {
			return setBits(r, v, func(n uint32) (uint32, uint32) { return 0, ^n })
		}},
		{"--xor-mark", true, false, func(r *ruleParser, v string) string {
			return setBits(r, v, func(n uint32) (uint32, uint32) { return n, 0 })
		}},
	}},
	{name: "ACCEPT", do: walk.DoAccept},
	{name: "RETURN", do: walk.DoReturn},
	{name: "DROP", do: walk.DoDrop},
	{name: "REJECT", do: walk.DoReject, options: []option{{"--reject-with", true, false, setReject}}},
	{name: "MASQUERADE", do: walk.DoMasquerade, options: []option{
		{"--random-fully", false, false, ignore},
		{"--random", false, false, ignore},
	}},
}

func targetNamed(name string) *target {
	for i := range targets {
		if targets[i].name == name {
			return &targets[i]
		}
	}
	return nil
}

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

func setBits(r *ruleParser, v string, f func(uint32) (value, mask uint32)) string {
	n, ok := rule.ParseNumber(v)
	if !ok {
		return "not a mark"
	}
	r.value, r.mask = f(n)
	return ""
}

// setReject notes an answer that kube-proxy's rules never give: from a foreign
// rule it is a refusal like any other, from one of ours a difference.
func setReject(r *ruleParser, v string) string {
	if !rule.PortUnreachable(v) {
		r.value = 1
	}
	return ""
}
