// Package cluster makes realistic clusters of any size, for benchmarks and for
// property tests: Services, EndpointSlices and Nodes as an API server would
// hand them out, with the labels, annotations and identifiers that a real
// cluster's output is full of.
//
// Generate is a pure function of its options: the same options give the same
// objects, in the same order, on every machine. WriteYAML and WriteJSON store
// them in the shape of kubectl's output.
//
// The mix is that of kinds (kinds.go), in per mille of all Services; details
// such as a traffic policy or a roll-out in progress are drawn one by one.
// Every claim on an address or a node port is unique, so that a cluster
// compiles without a finding beyond what it holds on purpose: Services without
// endpoints, and one load balancer in a hundred that is still pending.
//
// When reviewing a change here, look for: anything that depends on a map's
// order or the clock, an object that the API server would have refused, and a
// change of the mix (benchmark figures before and after it cannot be compared:
// say so where they are recorded).
package cluster
