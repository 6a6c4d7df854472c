// Package emit turns Graphs into artifacts for a tool of the kernel, wraps
// them into one sealed ruleset file, and reads that file back, or in its place
// what the tools print of a node (ReadRules).
//
// Each backend is a sub-package that satisfies Backend: it lowers a Graph,
// prints, parses what it (or the tool's own dump) prints, and walks packets
// through what it parsed, so that every build can be proved. It also gives the packets
// that what it parsed asks for (Boxes), so that rules too many are met.
//
// When reviewing a change here, look for: anything but bytes that depends on
// the time, a map's order or the machine, and a section that its tool cannot
// load by itself.
package emit
