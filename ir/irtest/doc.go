// Package irtest makes Programs for tests: random ones, in which everything
// that can stand beside each other does, and one of each kind of service port.
// And it holds what was made of them to what they mean.
//
// When reviewing a change here, look for: a kind of Program that resolving can
// give and Programs never does, and a Program that breaks Check.
package irtest
