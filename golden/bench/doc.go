// Command bench measures builds of generated clusters, by stage:
//
//	go run ./golden/bench -services 100,1000,10000
//
// Each cluster is generated and each build is run in a process of its own, so
// that its peak memory is what the kernel counted for that build alone. Times
// are wall time, and user plus system time of all of a process's threads.
//
// Then it measures how the commands grow with what one Service has many of:
// endpoints, source ranges (growth.go).
//
// When reviewing a change here, look for: work that lands in the measured
// process but is no part of a build, and memory of the measuring process (the
// kernel hands the peak of the process that starts another on to it, so this
// one must stay small).
package main
