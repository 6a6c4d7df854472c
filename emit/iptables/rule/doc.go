// Package rule has the rules of iptables: as values that layouts are made of, as lines,
// and in a form by which any tool's way of writing one can be compared with any other.
//
// rule.go has a type for each match and target that svcc writes, and print.go prints
// them: no text can hold more than one rule. vocabulary.go is the one table of matches
// and targets with their options (iptables-extensions(8)); canonical.go reads a line by
// it, token by token, and canonical_write.go prints what it read in one way. What a
// match means to a packet is said in package iptables, in rows beside those of the
// vocabulary, so that what is printed and what is understood do not rest on one belief.
//
// When reviewing a change here, look for: text of a name that is not held to plain
// characters before it is printed, a match that does more than ask and may therefore
// not be moved among others (Term.acts), a default of a tool that the canonical form
// spells out for one way of writing and leaves out for another, and an option that
// svcc prints and the vocabulary does not have.
package rule
