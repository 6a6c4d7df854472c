// Command testrun runs the tests of packages in groups, the quick ones first, and
// tells where they stand.
//
//	testrun ./ir/...,./compiler/...,./emit/... ./...
//
// Each argument is a group: packages separated by commas, of which those are run that
// were not in a group before. A line is printed when a package ends, every minute one
// that says what still runs, and in full what a test wrote that failed. The last line counts packages that are ok and that failed, and
// tests that were skipped, by reason; the exit code is 1 if anything failed.
//
// No limit is set on the whole: a machine may be slow. A run of which nothing is
// heard for 20 minutes is ended, and has failed.
//
// When reviewing a change here, look for: a failure that does not reach the exit
// code, or of which nothing is shown; a skip that is not counted; and a limit on
// time that is none on progress.
package main
