// Command kernelbench measures what rules cost in the kernel: to load them, and
// for each new connection on a node that has them.
//
//	make bench-kernel            (root)
//
// It compiles clusters at each level, loads each text in a network namespace of
// its own with each flavour of iptables, and sends TCP SYNs through all of them
// in turn, round after round. A namespace has no name and ends with this
// process, however that ends.
//
// What counts is the time that the sending thread spends in the kernel. A veth
// pair hands a packet to its receiver in the sender's own context, so that time
// holds the packet's whole way: out of a packet socket, into the node, through
// conntrack, PREROUTING, routing, FORWARD and POSTROUTING, at whose end a chain
// without rules drops it. The entry of conntrack is made and translated but, as
// the packet never leaves, not confirmed: no table fills up, and each SYN is a
// new connection. The sources are pods of the node, so nothing is masqueraded.
//
// The floors say what would be paid anyway, see floors in text.go. Machines are
// noisy: a figure is the least of all rounds, and only figures of one run may
// be compared.
//
// When reviewing a change here, look for: work of this program that lands
// between the two looks at the clock, anything that one layout pays and another
// does not (a rule in the way, a different source, a cache just warmed by its
// neighbour), and a packet that did not take the way that it is counted for:
// check in world.go must see every target of every layout.
package main
