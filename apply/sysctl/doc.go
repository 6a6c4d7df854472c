// Package sysctl knows which kernel settings the rules of Services depend on,
// and sets them so that they can be put back.
//
// Needed is what apply sets itself: what kube-proxy sets in the same mode, and
// only where something depends on it. Everything else that can stand in the
// way, forwarding above all, is for the node's owner to decide; doctor names it.
//
// Check is for values that were kept in a file, to be put back by root: no other
// settings than those of one table (table.go) are.
//
// Files below a root folder stand for the kernel's: "/" in life, a test's own
// folder otherwise.
//
// When reviewing a change here, look for: a setting that opens the node wider
// than a Service in the Program asks for, one that is written though it has the
// value already, and a change that Set does not return, for nobody could undo it.
package sysctl
