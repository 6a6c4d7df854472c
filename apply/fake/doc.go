// Package fake is a kernel for tests: an apply.Runner that behaves as the
// iptables tools do with a kernel behind them. It keeps tables, chains, policies
// and counters; each table of a restore input is written as a whole or not at
// all; what the real tools refuse it refuses, with their exit codes and much of
// their words. Faults fail or interrupt any single call. TestHonest holds it
// against the real tools.
//
// When reviewing a change here, look for: something that the fake accepts and a
// real tool does not, or the reverse, without a line in TestHonest's corpus.
package fake
