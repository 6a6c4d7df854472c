// Package ipvs lowers a Graph to what IPVS mode needs of the kernel: virtual
// servers, the addresses that the node bears for them, ipsets, and the few
// iptables rules (the glue) that masquerade, guard and refuse. It prints all of
// it, reads it back, and tells the walker of emit/iptables what is around the
// rules (around.go).
//
// IPVS knows a packet by destination, protocol and port alone. What depends on
// the sender as well, as external traffic policy Local does, has a second way:
// nat comes before IPVS, so rules that emit/iptables lowers send pods and the
// node itself to endpoints there (views.go), and IPVS serves everybody else.
//
// boxes.go gives the packets that entries, addresses and servers are for.
//
// When reviewing a change here, look for: a set or address that apply would take
// for somebody else's (OwnedSet, and owned.go in apply/ipvs), a rule that a packet
// of no service meets at a cost that grows with the cluster, and a set's name that
// stands elsewhere than in names.go.
package ipvs
