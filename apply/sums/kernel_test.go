package sums

import (
	"os/exec"
	"strings"
	"testing"

	"svcc/golden/lab"
	"svcc/ir"
)

// states are those of the nat table. What is equal below a name has the same
// rules, and nothing else has.
var states = []struct{ name, text string }{
	{"plain", ""},
	{"plain", "[7:700] -A KUBE-SERVICES -p tcp -m tcp --dport 80 -j KUBE-SVC-A\n"}, // counters, where the tool takes them
	{"port", "-A KUBE-SERVICES -p tcp -m tcp --dport 81 -j KUBE-SVC-A\n"},
	{"target", "-A KUBE-SERVICES -p tcp -m tcp --dport 80 -j KUBE-SVC-B\n"},
	{"goto", "-A KUBE-SERVICES -p tcp -m tcp --dport 80 -g KUBE-SVC-A\n"},
	{"comment", "-A KUBE-SERVICES -p tcp -m tcp --dport 80 -m comment --comment x -j KUBE-SVC-A\n"},
	{"other comment", "-A KUBE-SERVICES -p tcp -m tcp --dport 80 -m comment --comment y -j KUBE-SVC-A\n"},
	{"twice", "-A KUBE-SERVICES -p tcp -m tcp --dport 80 -j KUBE-SVC-A\n-A KUBE-SERVICES -p tcp -m tcp --dport 80 -j KUBE-SVC-A\n"},
	{"chance", "-A KUBE-SERVICES -m statistic --mode random --probability 0.5 -j KUBE-SVC-A\n"},
	{"other chance", "-A KUBE-SERVICES -m statistic --mode random --probability 0.25 -j KUBE-SVC-A\n"},
	{"hook", "-A PREROUTING -j KUBE-SERVICES\n-A KUBE-SERVICES -p tcp -m tcp --dport 80 -j KUBE-SVC-A\n"},
	{"other hook", "-A OUTPUT -j KUBE-SERVICES\n-A KUBE-SERVICES -p tcp -m tcp --dport 80 -j KUBE-SVC-A\n"},
	{"chain", ":KUBE-SVC-C - [0:0]\n-A KUBE-SERVICES -p tcp -m tcp --dport 80 -j KUBE-SVC-A\n"},
	{"elsewhere", "-A KUBE-SVC-B -p tcp -m tcp --dport 80 -j KUBE-SVC-A\n"},
}

func stateText(body string) string {
	if body == "" {
		body = "-A KUBE-SERVICES -p tcp -m tcp --dport 80 -j KUBE-SVC-A\n"
	}
	return "*nat\n:KUBE-SERVICES - [0:0]\n:KUBE-SVC-A - [0:0]\n:KUBE-SVC-B - [0:0]\n" + body + "COMMIT\n"
}

// forTools runs a test with the tools of each flavour and family.
func forTools(t *testing.T, f func(t *testing.T, family ir.Family, nft bool, tool string)) {
	for _, flavour := range []string{"nft", "legacy"} {
		for family, command := range map[ir.Family]string{ir.IPv4: "iptables-", ir.IPv6: "ip6tables-"} {
			t.Run(flavour+" "+family.String(), func(t *testing.T) {
				lab.Need(t, lab.Tools(command+flavour+"-restore"))
				lab.Enter(t)
				f(t, family, flavour == "nft", command+flavour)
			})
		}
	}
}

func run(t *testing.T, stdin string, command ...string) {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin = strings.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s\n%s", command, err, out, stdin)
	}
}

func read(t *testing.T, f ir.Family, nft bool) Table {
	t.Helper()
	out, err := Kernel{}.Read(f, "nat", nft)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestKernelSumsTellRulesApart(t *testing.T) {
	forTools(t, func(t *testing.T, f ir.Family, nft bool, tool string) {
		names := map[Sum]string{}
		for range 2 { // the second time with other handles
			for _, s := range states {
				run(t, stateText(s.text), tool+"-restore", "-c")
				sum := read(t, f, nft).All
				if was, known := names[sum]; known && was != s.name {
					t.Errorf("%q has the sum of %q", s.name, was)
				}
				names[sum] = s.name
			}
		}
		distinct := map[string]bool{}
		for _, s := range states {
			distinct[s.name] = true
		}
		if len(names) != len(distinct) {
			t.Errorf("%d states have %d sums", len(distinct), len(names))
		}
	})
}

func TestKernelSumsOfChains(t *testing.T) {
	forTools(t, func(t *testing.T, f ir.Family, nft bool, tool string) {
		if !nft {
			t.Skip("sums of chains are iptables-nft's")
		}
		run(t, stateText(""), tool+"-restore")
		was := read(t, f, nft)
		if changed, err := (Kernel{}).Changed(f, "nat", nft, was); err != nil || changed {
			t.Errorf("changed %v, %v, at once", changed, err)
		}
		run(t, "", tool, "-t", "nat", "-A", "KUBE-SVC-B", "-j", "RETURN")
		if changed, err := (Kernel{}).Changed(f, "nat", nft, was); err != nil || !changed {
			t.Errorf("changed %v, %v, after a rule", changed, err)
		}
		now := sumsByName(read(t, f, nft))
		for name, sum := range sumsByName(was) {
			if (now[name] == sum) != (name != "KUBE-SVC-B") {
				t.Errorf("chain %s: sum equal %v", name, now[name] == sum)
			}
		}
	})
}

func sumsByName(t Table) map[string]Sum {
	out := map[string]Sum{}
	for _, c := range t.Chains {
		out[c.Name] = c.Sum
	}
	return out
}

func TestKernelPolicies(t *testing.T) {
	forTools(t, func(t *testing.T, f ir.Family, nft bool, tool string) {
		if nft {
			t.Skip("policies are read for iptables-legacy")
		}
		run(t, "*filter\n:INPUT DROP [3:180]\n:FORWARD ACCEPT [0:0]\n:OUTPUT ACCEPT [4294967297:5]\nCOMMIT\n", tool+"-restore", "-c")
		got, err := Kernel{}.Policies(f, "filter")
		want := []Policy{{"INPUT", "DROP", 3, 180}, {"FORWARD", "ACCEPT", 0, 0}, {"OUTPUT", "ACCEPT", 1<<32 + 1, 5}}
		if err != nil || len(got) != len(want) || got[0] != want[0] || got[1] != want[1] || got[2] != want[2] {
			t.Errorf("policies %v, %v, want %v", got, err, want)
		}
	})
}

func TestMessagesThatAreCutOff(t *testing.T) {
	see := func(uint16, []byte, []byte) error { return nil }
	for _, b := range [][]byte{{9, 0, 1, 0, 'x'}, {3, 0, 1, 0}} {
		if eachAttribute(b, see) == nil {
			t.Errorf("attribute %v was taken", b)
		}
	}
	l := &legacyTable{layouts[ir.IPv4], make([]byte, infoSize), make([]byte, 112)}
	if _, err := l.sum(); err == nil {
		t.Error("a rule without a length was taken")
	}
	l.rules = l.rules[:50]
	if _, err := l.sum(); err == nil {
		t.Error("half a rule was taken")
	}
}
