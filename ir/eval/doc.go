// Package eval gives the outcome of a packet: from a Program (the
// specification), from a Graph, and as the common form in which a backend's
// walker tells what its text would do. Proving a build is comparing outcomes.
//
// An Outcome is exact: shares are fractions, not samples. It says for every
// filter hook what happened there, where the packet goes, whether its source
// is rewritten, the mark it ends with, and how long its client is remembered.
//
// When reviewing a change here, look for: a rule of kube-proxy that the code
// reads off an emitter's text rather than from the specification (then both
// can be wrong together), a difference that Outcome cannot express, and a kind
// of packet that neither Probes nor Reach makes.
package eval
