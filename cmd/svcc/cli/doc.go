// Package cli is svcc's command line: one small file a subcommand, flags shared
// by those that compile, diagnostics for people, exit codes.
//
// When reviewing a change here, look for: meaning that belongs in the compiler,
// an exit code that the README's table does not have, and output on stdout that
// is not the thing asked for.
package cli
