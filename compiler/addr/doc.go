// Package addr reads IP addresses and CIDRs as Kubernetes does, into the one
// canonical form that every later stage uses.
//
// When reviewing a change here, look for: a string from a manifest that
// reaches a rule without passing through here.
package addr
