// Package iptables is the backend for iptables-restore: it lowers a Graph to
// chains and rules and prints them; and it reads such text back, or what
// iptables-save prints of a node, and walks packets through it.
//
// The two halves share nothing but the text, so that they cannot be wrong
// together. The reading half starts in parse.go: lines and tables, then a rule's
// words (parse_token.go), its options (parse_rule.go) with a row for each match
// in match.go and each target in target.go. walker in walk.go is the kernel's
// model: walk_state.go has the hooks and the verbs, walk_match.go the
// conditions, walk_index.go what keeps chains of 10,000 rules quick. What a node
// has is read with more patience (parse_dump.go); furniture.go knows kubelet's
// rules, age.go the words of older kube-proxies, captured.go who is before
// them. Canonicalizer
// brings any tool's way of writing a rule into one, so that apply finds what
// differs; owned.go has the names of chains that are ours.
//
// boxes.go goes down from the hooks and gives what each rule of ours asks for, as
// sets of packets (eval.Box): box.go narrows one by a condition, way.go knows what
// its fields cannot say.
//
// When reviewing a change here, look for: a new condition that box.go does not
// narrow by, a rule that is read as less than it
// says (what has no model must be an error in a chain of ours, and opaque in
// anybody else's), a condition with an effect that is asked out of order, a
// share that is rounded, a field that an index's key assumes but a rule before
// can change, patience with what svcc itself wrote, and text of a name that is not held to plain characters before
// it is printed.
package iptables
