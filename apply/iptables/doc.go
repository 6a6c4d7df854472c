// Package iptables is the apply.Target for iptables rules, of either flavour:
// iptables-legacy and iptables-nft.
//
// Observe reads the tables filter and nat with the save tool and keeps of them
// only what is ours: chains by name (svcc/emit/iptables.Owned) and the hooks,
// which are jumps to these chains from built-in ones. A table of which the kernel
// holds the same bytes as when the tool was last asked is not asked for again,
// nor are iptables-nft's chains (seen.go, package sums). Plan compares that with a
// ruleset rule by rule in canonical form, and makes one restore input a family:
// the chains that differ are flushed and written, chains of Services that are
// gone are deleted, and hooks that are missing or out of order are deleted and
// inserted at the top, in the same transaction. Commit runs these inputs with
// --noflush, which leaves everything else as it is; Restore makes and runs the
// inputs that lead back to what was observed.
//
// A table that the kernel does not have (Kernel.Used) counts as empty and is not
// asked for, since that makes it. Tables stay when all of ours goes; Left tells of
// those that svcc made.
//
// Each table of an input is a transaction of its own in the kernel. filter
// comes first, so that what guards a service is there before it is reached;
// where everything goes, nat does.
//
// When reviewing a change here, look for: a line that names a chain which is
// not ours, or a built-in one otherwise than by inserting or deleting a hook; a
// dump that is read without Whole, or not against what the kernel counts; a
// foreign rule that is kept or written; -D of a rule that was not observed in
// this very text (it would fail the whole table); -X of a chain that something
// may still jump to; something that is taken to be as it was seen although it
// depends on more than the bytes of which the sum is.
package iptables
