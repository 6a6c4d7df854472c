// Package ir holds the meaning of Services on one node in one IP family, at
// two levels. It knows no Kubernetes type and no kernel.
//
// Program (level 1) says what each service port promises: its frontends, the
// endpoints that each traffic policy chose, affinity, source ranges. It is the
// specification: package eval gives the outcome of any packet from it.
//
// Graph (level 2) says how a packet is decided, for any dataplane: exact-match
// look-ups leading to guards, balances and verdicts. Passes rewrite it, and
// backends lower it to chains, maps or virtual servers.
//
// When reviewing a change here, look for: a field that only one backend could
// want (it belongs in that backend's lowering), anything whose order is not
// fixed by Check, and a meaning that eval does not give.
package ir
