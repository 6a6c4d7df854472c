// Package compiler is the pipeline from manifests to proved rules: load,
// default, validate, resolve, lower, optimize, emit, prove. Each stage is a
// package of its own; this one only joins them.
//
// When reviewing a change here, look for: a decision that belongs to a stage,
// and a way by which text is given out that was not proved.
package compiler
