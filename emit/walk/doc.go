// Package walk sends packets through what a node has, as the kernel would: chains of
// rules, and in some modes virtual servers and sets beside them. Backends read text
// into a Ruleset and an Around; a Walker tells of a packet every way that it may go.
//
//	                in                                     sent by the node
//	                 |                                            |
//	           nat PREROUTING                                 nat OUTPUT
//	                 |                                            |
//	      is it for the node?                             (virtual servers)
//	      yes /            \ no                                   |
//	  filter INPUT      filter FORWARD                      filter OUTPUT
//	       |                  |                                   |
//	(virtual servers)         +---------> nat POSTROUTING <-------+
//	       |  those that one serves            |
//	       |  leave by OUTPUT                  +-- if it is for the node: filter INPUT
//
// A way is a state: the packet as it is by now, with the share of packets that go this
// way, and where it is. Most rules only move it on. One that leaves something to chance
// (statistic) parts it: the share that matches goes on, the rest waits (walk.waiting)
// and goes on from the next rule. Shares are exact fractions, so that they add up to
// one. A list that remembers clients (recent) is asked twice: a packet is first sent
// through as one of a client that nobody knows; each way that entered it into lists is
// then walked again with these lists known, and is sticky if it ends where it ended
// before (walker.go).
//
// To read: ruleset.go and cond.go are what is walked, as a few large slices, since a
// node has 150,000 rules; state.go follows a packet, match.go asks conditions, stage.go
// has the hooks, around.go the virtual servers; trace.go notes what a packet met.
// index.go, shortcut.go and narrow.go make it quick and change no outcome: an index by
// what long chains ask for exactly, where a destination alone leads, and the rules that
// lead a packet elsewhere than to the endpoint that is asked about.
//
// boxes.go goes the other way: down from the hooks, and gives what each rule of ours
// asks for, as sets of packets (eval.Box); box.go narrows one by a condition, way.go
// knows what its fields cannot say. differs.go tells for which destinations two
// rulesets differ.
//
// When reviewing a change here, look for: a new condition that box.go does not narrow
// by, a condition with an effect that is asked out of order, a share that is rounded,
// a field that an index's key assumes but a rule before can change, and a way that
// a shortcut takes and Trace, which takes none, does not.
package walk
