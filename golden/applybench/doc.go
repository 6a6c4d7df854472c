// Command applybench measures what an apply costs on a node with many services:
// a first one, one that changes an endpoint, and one that changes nothing, as
// CPU time of the tools and of svcc itself, beside a plain restore of the whole
// and a read of what is there. It works in a network namespace of its own.
//
// When reviewing a change here, look for: a ratio whose two sides were not
// measured in one run, and a cost that lies in neither column.
package main
