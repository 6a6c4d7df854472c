// Package passes holds what happens to a Program and a Graph between resolving
// and emitting: rows of one table, each with a name, a doc and its order
// constraints, run by one runner.
//
// When reviewing a change here, look for: a pass whose constraint is only in
// somebody's head (After is checked, comments are not), one that a level needs
// but that is not Required, and one that changes an outcome.
package passes
