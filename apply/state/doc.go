// Package state keeps what svcc did to a node, in one directory: the ruleset
// that is in force and the one before, a record of who applied it and when, and,
// while the kernel is being written to, a journal.
//
// The directory holds
//
//	lock              flock(2)ed by a run that changes the node; names its process
//	record.json       the last run that was completed
//	journal.json      the run under way, or the one that was interrupted
//	child             the tool that this run started last
//	confirm           the run that "svcc confirm" agreed to
//	SHA256.rules      ruleset files, named by their content
//	SHA256.undo       what the kernel held before the run of the journal
//	SHA256.refused    the journal of a run that nobody confirmed, by the sum of its ruleset
//	seen              what the last run read from the kernel, to read less next time
//	accepted.json     sums of rulesets that were proved, not to prove them again
//
// A journal is complete before the first write to the kernel: all that the
// record needs is in it, and it becomes the record by being renamed. So a disk
// that is full stops a run while nothing has happened, and completing a run
// needs no space. Whoever finds a journal and no lock knows that its run was
// interrupted. The record's ruleset is the last that was confirmed: a run that waits
// for that is in the journal until then, and is renamed to its sum and ".refused" if
// nobody agrees.
//
// Whoever can write here decides what root writes to the kernel. So nothing is
// taken from a directory that others than the effective user can change, nor from
// a file that is not a regular one of that user alone (trust.go); the directory is
// opened once, and what is in it is reached by that descriptor, without following
// symbolic links and without waiting for a pipe (folder.go). A symbolic link on the
// way to the directory is followed if it is root's or the effective user's.
//
// When reviewing a change here, look for: a path that is opened otherwise than by
// openFile, something of a record or journal that is believed without being
// checked, a file that is written in place, a rename whose file or directory is
// not synced, and a write between Begin and Finish that needs space on the disk.
package state
