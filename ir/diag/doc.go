// Package diag is how svcc speaks of what it found in its input: a place, a
// code, a severity, a message, related places and a hint.
//
// Every code stands in one table (codes.go), which is also its documentation;
// no other package invents one.
//
// When reviewing a change here, look for: a code whose meaning changed (codes
// are an interface, add a new one instead), a message without the name of the
// object it speaks of, and a hint that does not say what to do.
package diag
