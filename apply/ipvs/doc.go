// Package ipvs is the apply.Target for IPVS mode: virtual servers, the
// addresses that the node bears for them, ipsets, and the glue, which are
// iptables rules and the business of svcc/apply/iptables.
//
// Observe reads what is ours of both families (owned.go says what is by the kernel,
// known.go what is by the rulesets of the state directory). Plan
// compares that with a ruleset and makes steps of it: operations on the kernel by
// netlink, and inputs for ipset restore and iptables-restore. Their order
// (order.go) is: sets, glue, link, addresses, servers, destinations; then what
// goes, the other way round; the glue of each family in its own time. At every
// point between two steps it can be told of each virtual server whether it is
// ours, because its address or its entry in a set is there before it and goes
// after it; sets and addresses may be lost otherwise, which is why there are the
// rulesets. Restore makes the steps to what was observed before, from whatever is
// there.
//
// A TCP destination that is not wanted any more is drained: its weight becomes
// 0, and Tidy deletes it when no connection uses it. While it drains it is no
// difference, neither to a ruleset nor to what was observed.
//
// The Kernel is one interface; Netlink is the machine's.
//
// When reviewing a change here, look for: a virtual server that is written or
// deleted without being proved ours; an entry of a set that goes before the
// server which it proves to be ours; a step whose number grows with the cluster
// rather than with the change; and a step that Restore cannot take back.
package ipvs
