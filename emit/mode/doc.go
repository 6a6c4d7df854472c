// Package mode is the table of modes, the ways to program the kernel: a row says what
// svcc has to know of one. Whoever works for all modes takes a row as a value and asks
// it, or its Facts, what is so in that mode; only backends, and the resources that
// apply writes, know which mode they are of.
//
// When reviewing a change here, look for: a question about a mode by its name
// elsewhere, where a fact of its row would do.
package mode
