package iptables

import (
	"slices"
	"strings"
)

// Canary is the chain that kube-proxy keeps in each of the tables mangle, nat
// and filter to notice that somebody flushed them. Nothing jumps to it.
const Canary = "KUBE-PROXY-CANARY"

// SharedChain, in filter, is also kubelet's: what it holds beside a rule of
// ours stays, and so does the chain unless it was made by us.
const SharedChain = chainFirewall

// fixedChains are the chains that do not come and go with Services, by table.
var fixedChains = map[string][]string{
	"filter": {ChainServices, chainExternalServices, ChainForward, chainNodePorts, ChainProxyFirewall, chainFirewall,
		ChainNodePort, ChainSourceRanges, ChainIPVSFilter, ChainIPVSOut},
	"nat": {ChainServices, chainNodePorts, ChainPostrouting, ChainMarkMasq, ChainNodePort, ChainLoadBalancer},
}

// ownPrefixes begin the names of all other chains of ours, by table.
var ownPrefixes = map[string][]string{
	"filter": {filterTree},
	"nat":    {"KUBE-SVC-", "KUBE-SVL-", "KUBE-SEP-", "KUBE-FW-", "KUBE-EXT-"},
}

// Owned says whether a chain of a table is ours to flush, rewrite and delete.
// It is the one list of such names, kube-proxy's, whose leftovers are ours too.
// SharedChain is among them; Canary, which is kube-proxy's alone, is not.
func Owned(table, chain string) bool {
	return slices.Contains(fixedChains[table], chain) ||
		slices.ContainsFunc(ownPrefixes[table], func(p string) bool { return strings.HasPrefix(chain, p) })
}

// Hooked says whether any jump to a chain of ours from a built-in one is a
// hook, right or outdated. To mark for masquerading is anybody's right, and a
// jump to SharedChain may be kubelet's.
func Hooked(table, chain string) bool {
	return chain != ChainMarkMasq && chain != SharedChain && Owned(table, chain)
}
