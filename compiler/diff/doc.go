// Package diff tells people what applying a ruleset would change: which service
// ports, why, and which packets fare differently.
//
// Compare works on Programs, so it does not matter whether a side was compiled
// just now or read from a ruleset file. Service ports are compared by structure
// first; packets are sent only to those that differ (or to all, if a choice for
// the whole node differs), so the cost is that of the difference. CompareRules
// compares the rules themselves, chain by chain.
//
// CompareLive compares a node's kernel with Programs, packet by packet; Affected
// only names the service ports concerned, for less.
//
// A Report has three forms: text for a terminal, Markdown for a pull request,
// JSON for programs. JSON's field names are fixed.
//
// When reviewing a change here, look for: a difference of two Programs that
// gives no Reason, a comparison that is not the mirror image of its reverse, a
// field of JSON that changes its name or meaning, and text of an input that can
// end a table's cell or a fence in Markdown.
package diff
