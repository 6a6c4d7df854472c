// Package resolve joins Services, EndpointSlices and what is known of the node
// into Programs, one an IP family. Kubernetes types stop here.
//
// It expects defaulted and validated objects. What the input and the flags do
// not tell of the node is an error only where a Service's meaning depends on it.
//
// When reviewing a change here, look for: anything that depends on the order
// of slices or of endpoints within them, a condition's missing value read as
// false, and a fact of the node that is guessed.
package resolve
