// Package sums reads a table of iptables from the kernel in the kernel's own
// form, without a tool, and gives sums of it: equal sums stand for equal rules.
// Reading a large table with the save tool costs twenty times as much.
//
// What changes without anybody changing a rule is left out of sums: counters,
// handles, the marks that the kernel leaves in legacy rules. Of anything else
// every byte counts, so that a sum can differ although the rules mean the same,
// never the other way round. The meaning of the bytes is not known here: that is
// for those who have read the same rules with the tool. One thing the bytes do not
// say: which set a number of theirs stands for (Kernel.Sets).
//
// iptables-nft's tables are dumped over netlink, rule by rule; iptables-legacy's
// come as one piece, by the socket option that its tools use.
//
// Whoever reads a table of iptables-legacy makes it, if the namespace has none:
// Kernel.Used looks first.
//
// When reviewing a change here, look for: a byte that is left out of a sum and
// could tell two rules apart, fields that run into each other in a sum, and a
// length from the kernel that is trusted.
package sums
