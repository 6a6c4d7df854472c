// Command samebytes proves that two builds of svcc write the same bytes:
//
//	go run ./golden/samebytes -base COMMIT
//
// It builds svcc of a commit and of the working tree, makes manifests once, with the
// generators of the working tree, and runs both on them: every golden case, the
// clusters for which kube-proxy's rules are known, and random clusters of a fixed
// seed, half of them such as clusters are and half as awkward as they can be; in
// both modes, at each level, for all families and for one, with jumps and without,
// as a folder, as a file and on standard output. What is compared are the files, to
// the byte, and the exit code. With -messages also what build, lint and explain say
// on either stream, and diff in each of its formats. With -run only the inputs whose
// name a pattern matches; in make's ARGS a $ of it is written $$.
//
// A line a difference goes to standard output, with the first line of the text that
// differs, and a closing line with what was compared. The exit code is 1 where
// anything differs or nothing was written, and 2 where nothing could be compared.
//
// A change that rewrites how rules are made, and no rule, is held to it; one that
// changes rules on purpose shows here which.
//
// When reviewing a change here, look for: an output that is made and not compared,
// and inputs that depend on which of the two builds runs.
package main
