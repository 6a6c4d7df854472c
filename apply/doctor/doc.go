// Package doctor says what on a node keeps the rules of Services from working,
// and what to do about it.
//
// Checks is the table of checks, a row each with a stable name. A check looks,
// and gives Findings: ok, warn (it works until something else happens), fail
// (something that Services promise does not work), or unknown (what it needs to
// look is missing). No check changes anything: kernel features are tried in a
// network namespace that ends with the tool that ran there, and a table that
// iptables-legacy does not have yet is not asked for. Fix alone writes,
// and only settings that a Finding named.
//
// IPVS mode has checks of its own, and others look at other things there: what
// comes for Services passes INPUT, not FORWARD. What of the other mode is there
// counts as left over unless the record says that it is in force.
//
// The world is behind seams: files below Doctor.Root, tools behind Doctor.Runner,
// virtual servers behind Doctor.Kernel, addresses behind Doctor.Interfaces; the
// threads of this process see /proc/thread-self, so that a test in a network
// namespace of its own sees that one.
//
// When reviewing a change here, look for: an ok that was not looked at, a
// finding without a thing to do, a warning on a node where nothing is wrong, and
// an ID that changed, for scripts ask for them by name.
package doctor
