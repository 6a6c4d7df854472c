// Package lab sends real packets through the rules of a real kernel.
//
// A Lab is a node in a network namespace of its own. The world around it is a
// few TUN devices: what is written into one arrives at the node there, and
// what the node sends out is read from them as bytes. Packets that the node
// keeps are read from raw sockets, which are given a copy after every hook, so
// after every rule under test and after IPVS; that the node itself then refuses
// them, as no other socket is there, is no matter. A REJECT is known by its
// ICMP error; what is seen nowhere was dropped.
//
// Nothing is waited for: a write into a TUN device returns when the packet has
// gone its whole way, and what crosses the loopback device keeps its order on
// one CPU, to which a Lab's thread is bound. So a batch ends with a sentinel
// over loopback, and hundreds of dropped packets cost no time.
//
// Every packet carries a number that no translation changes (the sequence
// number, the payload, the initiate tag), by which it is recognised.
//
// When reviewing a change here, look for: anything that runs outside a Lab's
// own thread and so in the namespace of the machine, a rule of the laboratory
// that the rules under test could meet or notice, and an answer that depends
// on time.
package lab
