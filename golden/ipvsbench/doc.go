// Package ipvsbench measures what an apply in IPVS mode costs on a node with
// many services: a first one, one that changes an endpoint, and one that
// changes nothing. "make bench-ipvs" runs it inside User Mode Linux and prints a
// table; processes and system calls are some ten times as dear there as on the
// machine, so figures are to be compared with each other only.
//
// When reviewing a change here, look for: a part of an apply that is in no
// column, and a cluster whose change would be smaller than a real one's.
package ipvsbench
