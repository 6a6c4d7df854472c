package compiler

import (
	"strings"
	"testing"

	"svcc/emit"
	"svcc/emit/mode"
)

// TestProveSince proves only what differs from a ruleset that kept its promise,
// and sees what a whole proof sees: here an endpoint of web is another one.
func TestProveSince(t *testing.T) {
	for level := range 3 {
		before := rulesetFor(t, mode.IPTables, level)
		after := reseal(t, before, func(s string) string { return strings.ReplaceAll(s, "10.244.1.5", "10.244.1.99") })
		if err := Prove(before, after); err != nil {
			t.Errorf("-O%d: %v", level, err)
		}
		for _, c := range []struct {
			name string
			edit func(string) string
		}{
			{"the rules of another service are changed as well", replace(`(--to-destination|--to) 10\.244\.1\.7:8080`, "--to-destination 10.244.1.8:8080")},
			{"a rule of another service is gone", replace(`(?m)^-A .*(--to-destination|--to) 10\.244\.1\.7:8080\n`, "")},
			{"the Program is changed and the rules are not", replace(`10\.244\.1\.6:8080, 10\.244\.1\.7:8080`, "10.244.1.6:8080, 10.244.1.9:8080")},
			{"the new endpoint has another port", replace(`(--to-destination|--to) 10\.244\.1\.99:8080`, "--to-destination 10.244.1.99:8081")},
			{"a foreign address is captured", insert("nat", "-A KUBE-SERVICES -d 8.8.8.8/32 -p udp --dport 53 -j DNAT --to-destination 6.6.6.6:53")},
			{"nothing meets the services", insert("nat", "-A KUBE-SERVICES -j RETURN")},
			{"a port of all addresses is let be", insert("nat", "-A KUBE-SERVICES -p tcp --dport 80 -j RETURN")},
		} {
			err := Prove(before, reseal(t, after, c.edit))
			if err == nil || !strings.Contains(err.Error(), "does not keep its own promise") {
				t.Errorf("-O%d: %s: error %v", level, c.name, err)
			}
		}
	}
}

// A ruleset that differs in one service is not proved as a whole.
func TestProveSinceAsksLess(t *testing.T) {
	for level := range 3 {
		before := rulesetFor(t, mode.IPTables, level)
		after := reseal(t, before, func(s string) string { return strings.ReplaceAll(s, "10.244.1.5", "10.244.1.99") })
		rules, _, err := promised(after)
		if err != nil {
			t.Fatal(err)
		}
		old, _, err := promised(before)
		if err != nil {
			t.Fatal(err)
		}
		for f, w := range rules {
			to, ok := w.(emit.Comparer).Differs(old[f])
			var got []string
			for _, d := range to {
				got = append(got, d.Addr.String())
			}
			want := map[string]string{"ipv4": "10.96.0.10", "ipv6": ""}[f.String()]
			if !ok || strings.Join(got, " ") != want {
				t.Errorf("-O%d %s: %v %v, want %q", level, f, ok, got, want)
			}
		}
	}
}
