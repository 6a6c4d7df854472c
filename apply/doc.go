// Package apply brings a node's kernel to the state that a ruleset describes,
// as a whole or not at all. It is the only package that runs tools or opens
// netlink.
//
// One run (Engine.Apply) reads what is there (Observe), works out what differs
// (Plan), checks it against the closed world of our own chains, the real tool
// and a throw-away namespace (Check), keeps the old state (Snapshot), writes
// (Commit), reads back, and records. Whatever fails after the first write, the
// old state is put back (Restore) and the error says so; what a crash left half
// made, the journal (package state) lets the next run finish or undo, whatever
// that run was to do itself.
//
// What was read is kept beside the record with sums of what the kernel held
// (Recalling), so that the next run asks the tools only for what differs. It is
// no mark of who wrote last: the kernel's own bytes are compared.
//
// A tool's answer is an observation only if it is whole and agrees with what the
// kernel says without a tool (ErrAnswer); a tool that does not end is killed at
// Exec.Limit. The state directory is trusted only as far as package state says.
//
// A run that waits to be confirmed is watched by a process of its own (Guard,
// Watch), which undoes it if this one dies. What nobody confirmed is refused to every
// run that does not ask for it.
//
// A Target programs what a mode needs of the kernel and knows which of it is ours:
// package iptables, and package ipvs, which has the former for its rules. Package
// fake is a kernel for tests.
//
// Whatever comes before the first write makes nothing: with iptables-legacy, to ask
// for a table is to make it.
//
// When reviewing a change here, look for: a write outside Commit and Restore, a
// look that makes a table or set, a foreign chain, rule, policy or counter that
// could change, an error path that leaves tables of two states without a journal,
// one on which rules that nobody confirmed would stay or come back, and a tool that
// could outlive the process without being recorded.
package apply
