package golden

import (
	"strings"
	"testing"

	"svcc/golden/lab"
	"svcc/ir"
	"svcc/ir/eval"
)

func one(t *testing.T, line string) Trace {
	t.Helper()
	traces, err := ParseTraces(line)
	if err != nil || len(traces) != 1 {
		t.Fatalf("%s: %v", line, err)
	}
	return traces[0]
}

// outcome is two endpoints, the second masqueraded, left to the FORWARD
// chain's policy, kept for 10 seconds.
var outcome = eval.Outcome{
	{Share: eval.OneIn(2), To: addrPort("10.0.0.1:80"), DNAT: true, Forward: eval.Policy, Sticky: 10},
	{Share: eval.OneIn(2), To: addrPort("10.0.0.2:80"), DNAT: true, Masquerade: true, Forward: eval.Accept, Sticky: 10},
}

// A wrong expectation fails, whatever is wrong with it.
func TestJudge(t *testing.T) {
	for result, want := range map[string]bool{
		"10.0.0.1:80, 10.0.0.2:80 masq sticky 10":         true,
		"10.0.0.2:80 masq, 10.0.0.1:80 sticky 10":         true,
		"10.0.0.1:80, 10.0.0.2:80 masq":                   false,
		"10.0.0.1:80, 10.0.0.2:80 masq sticky 11":         false,
		"10.0.0.1:80, 10.0.0.2:80 sticky 10":              false,
		"10.0.0.1:80 masq, 10.0.0.2:80 masq sticky 10":    false,
		"10.0.0.1:81, 10.0.0.2:80 masq sticky 10":         false,
		"10.0.0.1:80 sticky 10":                           false,
		"1/3 10.0.0.1:80, 2/3 10.0.0.2:80 masq sticky 10": false,
		"pass":   false,
		"drop":   false,
		"reject": false,
	} {
		err := one(t, "pod -> 10.96.0.1:80 = "+result).Judge("the test", outcome)
		if (err == nil) != want {
			t.Errorf("%s: %v", result, err)
		}
	}
	dropped := one(t, "pod -> 10.96.0.1:80 forward-policy=drop = 10.0.0.1:80, 10.0.0.2:80 masq sticky 10")
	if dropped.Judge("the test", outcome) == nil {
		t.Error("a packet that only the policy accepts counts as accepted under forward-policy=drop")
	}
	err := one(t, "pod -> 10.96.0.1:80 = drop").Judge("the test", outcome)
	for _, want := range []string{"line 1", "the test says", "10.0.0.2:80 masq"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not tell %q: %v", want, err)
		}
	}
}

func TestJudgeVerdicts(t *testing.T) {
	plain := eval.Branch{Share: eval.Whole, To: addrPort("10.96.0.1:80"), Forward: eval.Policy}
	masq, dropped, rejected, dnat := plain, plain, plain, plain
	masq.Masquerade, dropped.Input, rejected.Output, dnat.DNAT = true, eval.Drop, eval.Reject, true
	for result, want := range map[string]eval.Branch{"pass": plain, "pass masq": masq, "drop": dropped, "reject": rejected, "10.96.0.1:80": dnat} {
		for _, b := range []eval.Branch{plain, masq, dropped, rejected, dnat} {
			err := one(t, "pod -> 10.96.0.1:80 = "+result).Judge("the test", eval.Outcome{b})
			if (err == nil) != (b == want) {
				t.Errorf("%s, and it is %v: %v", result, b, err)
			}
		}
	}
}

// seen is what a kernel would show of outcome: pairs, of which the k-th goes
// to the (k%2)-th endpoint.
func seen(flows []lab.Flow) []lab.Seen {
	out := make([]lab.Seen, len(flows))
	for i, f := range flows {
		b := outcome[i/2%2]
		out[i] = lab.Seen{Fate: lab.Sent, To: b.To, From: f.Src, Masquerade: b.Masquerade}
	}
	return out
}

func TestJudgeSeen(t *testing.T) {
	line := one(t, "pod -> 10.96.0.1:80 = 10.0.0.1:80, 10.0.0.2:80 masq sticky 10")
	flows := line.Flows(World{Family: ir.IPv4}.Packet(line), 1000)
	if err := line.JudgeSeen(flows, seen(flows)); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]func(s []lab.Seen){
		"lost":       func(s []lab.Seen) { s[5] = lab.Seen{} },
		"rejected":   func(s []lab.Seen) { s[5] = lab.Seen{Fate: lab.Rejected} },
		"elsewhere":  func(s []lab.Seen) { s[5].To = addrPort("10.0.0.1:81") },
		"masquerade": func(s []lab.Seen) { s[5].Masquerade = true },
		"rewritten":  func(s []lab.Seen) { s[5].From = addrPort("10.9.9.9:9") },
		"not sticky": func(s []lab.Seen) { s[5] = s[2] },
		"never seen": func(s []lab.Seen) {
			for i := range s {
				s[i] = s[2]
			}
		},
	} {
		s := seen(flows)
		spoil(s)
		if line.JudgeSeen(flows, s) == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for _, line := range []Trace{one(t, "pod -> 10.96.0.1:80 = drop"), one(t, "pod -> 10.96.0.1:80 = reject"), one(t, "pod -> 10.96.0.1:80 = pass")} {
		if line.JudgeSeen(flows, seen(flows)) == nil {
			t.Errorf("%s: no error although packets went elsewhere", line.Text)
		}
	}
}

// What a line leaves open is filled in as the cases rely on it.
func TestWorld(t *testing.T) {
	cidr := ir.Detector{Kind: ir.DetectCIDR, Prefix: addrPrefix("10.244.1.0/28")}
	w := World{Family: ir.IPv4, NodeIP: addr("192.0.2.10"), Pods: cidr}
	for a := addr("10.244.1.2"); a != addr("10.244.1.16"); a = a.Next() {
		w.Endpoints = append(w.Endpoints, a)
	}
	bridge, prefix := w, w
	bridge.Pods = ir.Detector{Kind: ir.DetectBridge, Interface: "cni0"}
	prefix.Pods = ir.Detector{Kind: ir.DetectInterface, Interface: "veth"}
	for _, c := range []struct {
		w       World
		line    string
		src, in string
	}{
		{w, "pod -> 10.96.0.1:80 = pass", "10.244.1.1", lab.Pods},
		{w, "pod 10.244.1.2 -> 10.96.0.1:80 = pass", "10.244.1.2", lab.Pods},
		{w, "outside -> 10.96.0.1:80 = pass", "198.51.100.77", lab.Outside},
		{w, "outside -> 10.96.0.1:80 via=eth7 = pass", "198.51.100.77", "eth7"},
		{w, "node -> 10.96.0.1:80 = pass", "192.0.2.10", ""},
		{w, "node -> 127.0.0.1:80 = pass", "127.0.0.1", ""},
		{w, "node -> 10.96.0.1:80 local=10.96.0.1 = pass", "10.96.0.1", ""},
		{bridge, "pod -> 10.96.0.1:80 = pass", "10.244.1.99", "cni0"},
		{prefix, "pod -> 10.96.0.1:80 = pass", "10.244.1.99", "veth0"},
	} {
		p := c.w.Packet(one(t, c.line))
		if p.Src.Addr() != addr(c.src) || p.In != c.in {
			t.Errorf("%s: from %s by %q, want %s by %q", c.line, p.Src.Addr(), p.In, c.src, c.in)
		}
	}
}

// Enough packets are sent to see each alternative, and not many more.
func TestTries(t *testing.T) {
	for result, want := range map[string]int{
		"drop": 2, "10.0.0.1:1": 2, "10.0.0.1:1, 10.0.0.2:1": 31,
		"1/10 10.0.0.1:1, 9/10 10.0.0.2:1": 204,
		"10.0.0.1:1, 10.0.0.2:1 sticky 5":  62,
	} {
		line := one(t, "pod -> 10.96.0.1:80 = "+result)
		if got := len(line.Flows(eval.Packet{Src: addrPort("10.0.0.1:1")}, 1)); got != want {
			t.Errorf("%s: %d packets, want %d", result, got, want)
		}
	}
}
