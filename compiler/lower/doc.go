// Package lower turns a Program into a Graph: the promises of service ports
// into the steps by which a packet is decided. It chooses no layout; passes
// and backends do.
//
// When reviewing a change here, look for: a step that eval of the Program does
// not imply (the proof finds it, but the reason belongs here), and labels that
// two different steps share.
package lower
