// Package proof holds rules against the Program that they should mean: it walks
// probe packets through parsed rules and compares each outcome with the
// specification's. Probes come from both sides: from the Program (eval.Probes) and
// from what the rules ask for beyond it (Beyond).
//
// older.go explains differences by what older kube-proxies do: they stay
// differences.
//
// When reviewing a change here, look for: a difference that is forgiven, and a
// walker's error that is not reported as a difference, and a rule too many that
// toomany_rules_test.go calls idle although some packet meets it.
package proof
