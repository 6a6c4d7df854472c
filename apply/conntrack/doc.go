// Package conntrack deletes the connection-tracking entries of UDP flows that
// a change of rules has left behind.
//
// NAT is decided once a flow: an entry remembers where its first packet was
// sent, and rules are not asked again while it lives. A UDP client that goes on
// sending from one port keeps its entry alive for ever, so it keeps sending to
// an endpoint that is gone, or past a Service that did not exist when it began.
// TCP and SCTP need no help: their peers notice, and deleting their entries
// would break the graceful shutdown of endpoints that are leaving.
//
// Virtual servers (IPVS mode) have entries of the same kind, and connections of
// their own beside them. Those whose destination is gone end by the setting
// expire_nodest_conn, and their entries with them: from Linux 5.9 on a moment
// after the destination, before that when the next packet comes, which is lost.
// Clean leaves nothing for that packet to meet but a new destination; and no
// kernel ends what began before there was a virtual server.
//
// What is stale is derived from two states, never from events, so that nothing
// is lost when a run fails: the Programs of the ruleset that is loaded now, and
// those of the one before it for what is gone (Stale). Clean asks a Table, in
// one pass a family, and deletes in batches what is stale there and nothing
// else. Kernel is the real Table, by netlink.
//
// When reviewing a change here, look for: an entry that could be deleted though
// a new flow to the same destination would be sent where it goes already, one
// whose destination was never a Service's, work that grows with services times
// entries, and a deletion that names less than one whole entry.
package conntrack
