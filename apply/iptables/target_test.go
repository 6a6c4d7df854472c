package iptables

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"svcc/apply"
	"svcc/apply/fake"
	"svcc/emit"
	rules "svcc/emit/iptables"
	"svcc/ir"
)

func TestApplyOverForeignRules(t *testing.T) {
	both(t, func(t *testing.T, k *fake.Kernel) {
		before := foreignLines(k.SaveAll())
		target := &Target{Runner: k}
		p := mustApply(t, target, worked(t))
		if !p.Whole() {
			t.Error("the first plan does not say that it writes everything")
		}
		if after := foreignLines(k.SaveAll()); after != before {
			t.Errorf("foreign rules changed\nbefore:\n%s\nafter:\n%s", before, after)
		}
		wantInput := []string{"KUBE-FIREWALL", "KUBE-PROXY-FIREWALL", "KUBE-NODEPORTS", "KUBE-EXTERNAL-SERVICES"}
		if got := hookTargets(k, ir.IPv4, "filter", "INPUT"); !slices.Equal(got[:4], wantInput) {
			t.Errorf("hooks at the top of INPUT: %v, want %v", got, wantInput)
		}
		wantForward := []string{"KUBE-PROXY-FIREWALL", "KUBE-FORWARD", "KUBE-SERVICES", "KUBE-EXTERNAL-SERVICES", "DOCKER-USER"}
		if got := hookTargets(k, ir.IPv4, "filter", "FORWARD"); !slices.Equal(got[:5], wantForward) {
			t.Errorf("top of FORWARD: %v, want %v", got, wantForward)
		}
	})
}

// hookTargets are the targets of a built-in chain's rules, from the top.
func hookTargets(k *fake.Kernel, f ir.Family, table, chain string) []string {
	var out []string
	for line := range strings.Lines(k.Save(f, table)) {
		if _, rule, ok := strings.Cut(line, " -A "+chain+" "); ok {
			_, to, _ := strings.Cut(rule, "-j ")
			to, _, _ = strings.Cut(strings.TrimSpace(to), " ")
			out = append(out, to)
		}
	}
	return out
}

func TestEmptyPlanRunsNothing(t *testing.T) {
	both(t, func(t *testing.T, k *fake.Kernel) {
		target := &Target{Runner: k}
		mustApply(t, target, worked(t))
		p, _ := mustPlan(t, target, worked(t))
		calls, writes := len(k.Calls()), k.Writes()
		if _, err := target.Check(context.Background(), p); err != nil {
			t.Fatal(err)
		}
		if err := target.Commit(context.Background(), p); err != nil {
			t.Fatal(err)
		}
		if len(k.Calls()) != calls || k.Writes() != writes || p.Whole() || len(p.Rules()) != 0 {
			t.Errorf("an empty plan ran %d tools, wrote %d tables, whole %v, %d changes",
				len(k.Calls())-calls, k.Writes()-writes, p.Whole(), len(p.Rules()))
		}
	})
}

// drifts are changes that somebody may make to our rules; "after" are the
// chains that the repair may write or unhook.
var drifts = []struct {
	name, text string
	after      []string
}{
	{"rule deleted", "*nat\n-D KUBE-SVC-XRY76EGRC3BSCIIJ -m comment --comment \"demo/web:http -> 10.244.2.7:8080\" -j KUBE-SEP-JPICTQTYOLMYNIJ7\nCOMMIT\n", []string{"KUBE-SVC-XRY76EGRC3BSCIIJ"}},
	{"rule inserted", "*nat\n-I KUBE-SERVICES -p tcp -m length --length 7 -j RETURN\nCOMMIT\n", []string{"KUBE-SERVICES"}},
	{"rule doubled", "*filter\n-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP\nCOMMIT\n", []string{"KUBE-FORWARD"}},
	{"rule changed", "*nat\n-F KUBE-MARK-MASQ\n-A KUBE-MARK-MASQ -j MARK --or-mark 0x8000\nCOMMIT\n", []string{"KUBE-MARK-MASQ"}},
	{"chain emptied", "*filter\n-F KUBE-NODEPORTS\nCOMMIT\n", []string{"KUBE-NODEPORTS"}},
	{"chain missing", "*filter\n-D INPUT -m conntrack --ctstate NEW -m comment --comment \"kubernetes load balancer firewall\" -j KUBE-PROXY-FIREWALL\n-D FORWARD -m conntrack --ctstate NEW -m comment --comment \"kubernetes load balancer firewall\" -j KUBE-PROXY-FIREWALL\n-D OUTPUT -m conntrack --ctstate NEW -m comment --comment \"kubernetes load balancer firewall\" -j KUBE-PROXY-FIREWALL\n-F KUBE-PROXY-FIREWALL\n-X KUBE-PROXY-FIREWALL\nCOMMIT\n", []string{"KUBE-PROXY-FIREWALL", "INPUT", "FORWARD", "OUTPUT"}},
	{"chain extra", "*nat\n:KUBE-SEP-AAAAAAAAAAAAAAAA - [0:0]\n:KUBE-SVC-AAAAAAAAAAAAAAAA - [0:0]\n-A KUBE-SVC-AAAAAAAAAAAAAAAA -j KUBE-SEP-AAAAAAAAAAAAAAAA\n-A KUBE-SEP-AAAAAAAAAAAAAAAA -j KUBE-MARK-MASQ\nCOMMIT\n", []string{"KUBE-SEP-AAAAAAAAAAAAAAAA", "KUBE-SVC-AAAAAAAAAAAAAAAA"}},
	{"chain extra and in use", "*nat\n:KUBE-SVC-AAAAAAAAAAAAAAAA - [0:0]\n-A KUBE-SVC-AAAAAAAAAAAAAAAA -j KUBE-MARK-MASQ\n-A KUBE-SERVICES -j KUBE-SVC-AAAAAAAAAAAAAAAA\nCOMMIT\n", []string{"KUBE-SERVICES", "KUBE-SVC-AAAAAAAAAAAAAAAA"}},
	{"jump missing", "*nat\n-D PREROUTING -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES\nCOMMIT\n", []string{"PREROUTING"}},
	{"jump doubled", "*filter\n-A INPUT -m comment --comment \"kubernetes health check service ports\" -j KUBE-NODEPORTS\nCOMMIT\n", []string{"INPUT"}},
	{"jump changed", "*filter\n-D FORWARD -m comment --comment \"kubernetes forwarding rules\" -j KUBE-FORWARD\n-I FORWARD -s 10.0.0.0/8 -j KUBE-FORWARD\nCOMMIT\n", []string{"FORWARD"}},
	{"jumps in another order", "*filter\n-D FORWARD -m comment --comment \"kubernetes forwarding rules\" -j KUBE-FORWARD\n-A FORWARD -m comment --comment \"kubernetes forwarding rules\" -j KUBE-FORWARD\nCOMMIT\n", []string{"FORWARD"}},
	{"jump below what lets nothing through", "*nat\n-I POSTROUTING -j ACCEPT\nCOMMIT\n", []string{"POSTROUTING"}},
}

func TestDriftIsRepaired(t *testing.T) {
	both(t, func(t *testing.T, k *fake.Kernel) {
		target := &Target{Runner: k}
		mustApply(t, target, worked(t))
		good, err := target.Observe(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range drifts {
			load(t, k, ir.IPv4, d.text)
			foreign := foreignLines(k.SaveAll())
			bad, err := target.Observe(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			if bad.Equal(good) || good.Equal(bad) {
				t.Errorf("%s: not seen", d.name)
			}
			p := mustApply(t, target, worked(t))
			slices.Sort(d.after)
			if got := touched(p); !slices.Equal(got, d.after) {
				t.Errorf("%s: the repair touches %v, want %v\n%s", d.name, got, d.after, inputText(p))
			}
			now, _ := target.Observe(context.Background())
			if !now.Equal(good) {
				t.Errorf("%s: not repaired", d.name)
			}
			if got := foreignLines(k.SaveAll()); got != foreign {
				t.Errorf("%s: foreign rules changed\n%s\n%s", d.name, foreign, got)
			}
		}
	})
}

// touched are the chains that a plan writes, deletes or changes hooks of, each
// once, as they are met.
func touched(p apply.Plan) []string {
	var out []string
	for _, in := range p.Inputs() {
		for line := range strings.Lines(string(in.Stdin)) {
			name := ""
			switch {
			case line[0] == ':':
				name, _, _ = strings.Cut(line[1:], " ")
			case strings.HasPrefix(line, "-D "), strings.HasPrefix(line, "-I "):
				name = strings.Fields(line)[1]
			}
			if name != "" && !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return out
}

func TestForeignRulesAmongHooksStay(t *testing.T) {
	both(t, func(t *testing.T, k *fake.Kernel) {
		target := &Target{Runner: k}
		mustApply(t, target, worked(t))
		load(t, k, ir.IPv4, "*filter\n-I FORWARD -i docker0 -j ACCEPT\n-I FORWARD 3 -j DOCKER-USER\n-I INPUT 2 -p udp -j DROP\nCOMMIT\n")
		if p, _ := mustPlan(t, target, worked(t)); !p.Empty() {
			t.Errorf("hooks in order are moved:\n%s", inputText(p))
		}
	})
}

func TestSmallChangeTouchesItsChainsOnly(t *testing.T) {
	both(t, func(t *testing.T, k *fake.Kernel) {
		target := &Target{Runner: k}
		mustApply(t, target, oneFamily(worked(t), ir.IPv4))
		// Another address for one endpoint of demo/web:http.
		p := mustApply(t, target, movedEndpoint(t))
		want := []string{"KUBE-SEP-BBBBBBBBBBBBBBBB", "KUBE-SEP-JPICTQTYOLMYNIJ7", "KUBE-SVC-XRY76EGRC3BSCIIJ"}
		if got := touched(p); !slices.Equal(got, want) || p.Whole() || len(p.Inputs()) != 1 {
			t.Errorf("touches %v, want %v; whole %v, %d inputs", got, want, p.Whole(), len(p.Inputs()))
		}
		if in := string(p.Inputs()[0].Stdin); strings.Contains(in, "*filter") || !strings.Contains(in, "-X KUBE-SEP-JPICTQTYOLMYNIJ7\n") {
			t.Errorf("not a delta of nat alone, or the old chain stays:\n%s", in)
		}
		var got []string
		for _, c := range p.Rules() {
			sign := "-"
			if c.Add {
				sign = "+"
			}
			if c.Service != "demo/web:http" {
				t.Errorf("%+v: not of demo/web:http", c)
			}
			got = append(got, sign+c.Chain+" "+c.Rule)
		}
		wantRules := []string{
			"+KUBE-SEP-BBBBBBBBBBBBBBBB ",
			"+KUBE-SEP-BBBBBBBBBBBBBBBB -A KUBE-SEP-BBBBBBBBBBBBBBBB -s 10.244.2.99 -m comment --comment \"demo/web:http\" -j KUBE-MARK-MASQ",
			"+KUBE-SEP-BBBBBBBBBBBBBBBB -A KUBE-SEP-BBBBBBBBBBBBBBBB -p tcp -m comment --comment \"demo/web:http\" -j DNAT --to-destination 10.244.2.99:8080",
			"-KUBE-SEP-JPICTQTYOLMYNIJ7 -A KUBE-SEP-JPICTQTYOLMYNIJ7 -s 10.244.2.7 -m comment --comment \"demo/web:http\" -j KUBE-MARK-MASQ",
			"-KUBE-SEP-JPICTQTYOLMYNIJ7 -A KUBE-SEP-JPICTQTYOLMYNIJ7 -p tcp -m comment --comment \"demo/web:http\" -j DNAT --to-destination 10.244.2.7:8080",
			"-KUBE-SEP-JPICTQTYOLMYNIJ7 ",
			"-KUBE-SVC-XRY76EGRC3BSCIIJ -A KUBE-SVC-XRY76EGRC3BSCIIJ -m comment --comment \"demo/web:http -> 10.244.2.7:8080\" -j KUBE-SEP-JPICTQTYOLMYNIJ7",
			"+KUBE-SVC-XRY76EGRC3BSCIIJ -A KUBE-SVC-XRY76EGRC3BSCIIJ -m comment --comment \"demo/web:http -> 10.244.2.99:8080\" -j KUBE-SEP-BBBBBBBBBBBBBBBB",
		}
		if !slices.Equal(got, wantRules) {
			t.Errorf("changes:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(wantRules, "\n"))
		}
	})
}

// movedEndpoint is the worked example for IPv4 with another address for one
// endpoint of demo/web:http.
func movedEndpoint(t testing.TB) *emit.Ruleset {
	rs := worked(t, "10.244.2.7:8080", "10.244.2.99:8080", "KUBE-SEP-JPICTQTYOLMYNIJ7", "KUBE-SEP-BBBBBBBBBBBBBBBB", "-s 10.244.2.7 ", "-s 10.244.2.99 ")
	return oneFamily(rs, ir.IPv4)
}

func TestRemove(t *testing.T) {
	both(t, func(t *testing.T, k *fake.Kernel) {
		load(t, k, ir.IPv4, "*nat\n:KUBE-PROXY-CANARY - [0:0]\nCOMMIT\n*mangle\n:KUBE-PROXY-CANARY - [0:0]\nCOMMIT\n")
		before := strings.ReplaceAll(k.SaveAll(), rulesCanary+" - [0:0]\n", "")
		target := &Target{Runner: k}
		p := mustApply(t, target, worked(t))
		if want := []string{"ipv4 filter KUBE-FIREWALL", "ipv6 filter KUBE-FIREWALL"}; !slices.Equal(p.Makes(), want) {
			t.Fatalf("makes %v, want %v", p.Makes(), want)
		}
		target.Owns, target.Canaries = p.Makes(), true
		r := mustApply(t, target, nil)
		if after := k.SaveAll(); after != before {
			t.Errorf("before:\n%s\nafter:\n%s", before, after)
		}
		text := string(r.Inputs()[0].Stdin)
		if strings.Index(text, "*nat") > strings.Index(text, "*filter") {
			t.Error("filter is removed before nat")
		}
	})
}

// TestRemoveLeavesWhatOthersUse: kubelet's chain and its rules, and a chain of
// ours that a foreign rule jumps to.
func TestRemoveLeavesWhatOthersUse(t *testing.T) {
	both(t, func(t *testing.T, k *fake.Kernel) {
		load(t, k, ir.IPv4, "*filter\n:KUBE-FIREWALL - [0:0]\n-A INPUT -j KUBE-FIREWALL\n[4:400] -A KUBE-FIREWALL -m mark --mark 0x8000/0x8000 -j DROP\nCOMMIT\n")
		target := &Target{Runner: k}
		p := mustApply(t, target, worked(t))
		if want := []string{"ipv6 filter KUBE-FIREWALL"}; !slices.Equal(p.Makes(), want) {
			t.Errorf("makes %v, want %v", p.Makes(), want)
		}
		if !strings.Contains(k.Save(ir.IPv4, "filter"), "[4:400] -A KUBE-FIREWALL -m mark --mark 0x8000/0x8000 -j DROP") {
			t.Error("kubelet's rule is gone or was written again")
		}
		load(t, k, ir.IPv4, "*nat\n-A CNI-HOSTPORT-DNAT -j KUBE-MARK-MASQ\nCOMMIT\n")
		target.Owns = p.Makes()
		mustApply(t, target, nil)
		filter, nat := k.Save(ir.IPv4, "filter"), k.Save(ir.IPv4, "nat")
		if !strings.Contains(filter, "-A KUBE-FIREWALL -m mark") || !strings.Contains(filter, "-A INPUT -j KUBE-FIREWALL") {
			t.Errorf("kubelet's chain was not left as it is:\n%s", filter)
		}
		if !strings.Contains(nat, ":KUBE-MARK-MASQ") || strings.Contains(nat, "-A KUBE-") || strings.Count(nat, ":KUBE-") != 1 {
			t.Errorf("want KUBE-MARK-MASQ alone, and empty:\n%s", nat)
		}
		if got := k.Save(ir.IPv6, "filter"); strings.Contains(got, "KUBE-") {
			t.Errorf("IPv6 is not clean:\n%s", got)
		}
	})
}

func TestAFamilyThatIsGoneIsCleaned(t *testing.T) {
	both(t, func(t *testing.T, k *fake.Kernel) {
		target := &Target{Runner: k}
		p := mustApply(t, target, worked(t))
		target.Owns = p.Makes()
		mustApply(t, target, oneFamily(worked(t), ir.IPv4))
		if got := k.Save(ir.IPv6, "filter") + k.Save(ir.IPv6, "nat"); strings.Contains(got, "KUBE-") {
			t.Errorf("IPv6 is not clean:\n%s", got)
		}
	})
}

func TestKubeProxysLeftoversAreOurs(t *testing.T) {
	both(t, func(t *testing.T, k *fake.Kernel) {
		load(t, k, ir.IPv4, "*nat\n:KUBE-SERVICES - [0:0]\n:KUBE-SVC-CCCCCCCCCCCCCCCC - [0:0]\n:KUBE-PROXY-CANARY - [0:0]\n-A OUTPUT -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES\n-A KUBE-SERVICES -j KUBE-SVC-CCCCCCCCCCCCCCCC\nCOMMIT\n")
		mustApply(t, &Target{Runner: k}, worked(t))
		nat := k.Save(ir.IPv4, "nat")
		if strings.Contains(nat, "CCCCCCCCCCCCCCCC") || strings.Count(nat, "-A OUTPUT") != 1 || !strings.Contains(nat, rulesCanary) {
			t.Errorf("want the old chain gone, one hook in OUTPUT, the canary left alone:\n%s", nat)
		}
	})
}

const rulesCanary = ":" + rules.Canary

// A ruleset that has the hooks in its text gives the same plan.
func TestHooksInTheText(t *testing.T) {
	target := &Target{Runner: newFake(t, false)}
	without, _ := mustPlan(t, target, worked(t))
	rs := worked(t)
	rs.Head.Hooks = true
	for i := range rs.Sections {
		rs.Sections[i].Text = []byte(hooked(string(rs.Sections[i].Text)))
	}
	with, _ := mustPlan(t, target, rs)
	if inputText(with) != inputText(without) || strings.Count(inputText(with), "\n-I ") != 28 {
		t.Errorf("with hooks in the text:\n%s\nwithout:\n%s", inputText(with), inputText(without))
	}
}

func TestVersions(t *testing.T) {
	for text, want := range map[string]string{
		"iptables v1.8.9 (nf_tables)\n":       "1.8.9 (nf_tables)",
		"ip6tables v1.8.11 (legacy)\n":        "1.8.11 (legacy)",
		"iptables v1.6.2\n":                   "1.6.2 (legacy)",
		"iptables-nft v1.8.3 (nf_tables)\n":   "1.8.3 (nf_tables)",
		"iptables v1.6.1\n":                   "too old",
		"iptables v1.8.2 (nf_tables)\n":       "1.8.3 is needed",
		"iptables v1.8.2 (legacy)\n":          "1.8.2 (legacy)",
		"iptables: command not understood\n":  "not the version",
		"":                                    "not the version",
		"ip6tables v1.10.0-rc1 (nf_tables)\n": "1.10.0 (nf_tables)",
	} {
		v, err := ParseVersion(text)
		got := v.String()
		if err == nil {
			err = v.check()
		}
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestWhole(t *testing.T) {
	k := newFake(t, false)
	mustApply(t, &Target{Runner: k}, worked(t))
	p, _ := mustPlan(t, &Target{Runner: k, Whole: true}, worked(t))
	if !p.Whole() || p.Empty() || len(p.Rules()) != 0 {
		t.Errorf("whole %v, empty %v, %d changes", p.Whole(), p.Empty(), len(p.Rules()))
	}
	before := k.SaveAll()
	if err := (&Target{Runner: k}).Commit(context.Background(), p); err != nil {
		t.Fatal(err)
	}
	if k.SaveAll() != before {
		t.Error("writing everything anew changed something")
	}
}

func TestPlanRefusesWhatIsNotOurs(t *testing.T) {
	for _, edit := range [][2]string{
		{":KUBE-SERVICES - [0:0]\n", ":KUBE-SERVICES - [0:0]\n:DOCKER-USER - [0:0]\n"},
		{":KUBE-SERVICES - [0:0]\n", ":KUBE-SERVICES - [0:0]\n:INPUT DROP [0:0]\n"},
		{"-A KUBE-MARK-MASQ", "-A DOCKER -j DROP\n-A KUBE-MARK-MASQ"},
		{"-A KUBE-MARK-MASQ", "-A INPUT -j DROP\n-A KUBE-MARK-MASQ"},
		{"-A KUBE-MARK-MASQ", "-D KUBE-MARK-MASQ"},
		{"*nat", "*mangle"},
		{"COMMIT\n*nat", "*nat"},
	} {
		target := &Target{Runner: newFake(t, false)}
		from, err := target.Observe(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if p, err := target.Plan(worked(t, edit[0], edit[1]), from); err == nil {
			t.Errorf("%q is planned:\n%s", edit[1], inputText(p))
		}
	}
}

func TestClosedWorldNamesTheService(t *testing.T) {
	target := &Target{Runner: newFake(t, false)}
	p, _ := mustPlan(t, target, worked(t, ":KUBE-SVC-XRY76EGRC3BSCIIJ - [0:0]\n", ":KUBE-SVC-XXXXXXXXXXXXXXXX - [0:0]\n",
		"-A KUBE-SVC-XRY76EGRC3BSCIIJ", "-A KUBE-SVC-XXXXXXXXXXXXXXXX"))
	_, err := target.Check(context.Background(), p)
	if err == nil || !strings.Contains(err.Error(), "KUBE-SVC-XRY76EGRC3BSCIIJ") || !strings.Contains(err.Error(), "demo/web:http") {
		t.Errorf("error %v", err)
	}
}

func TestCheckFindsWhatTheToolsTestLetsPass(t *testing.T) {
	both(t, func(t *testing.T, k *fake.Kernel) {
		before := k.SaveAll()
		target := &Target{Runner: k}
		rs := worked(t, "-A KUBE-MARK-MASQ", "-A KUBE-SEP-JPICTQTYOLMYNIJ7 -m comment --comment demo/web:http -m nfacct --nfacct-name none\n-A KUBE-MARK-MASQ")
		p, _ := mustPlan(t, target, rs)
		var refused *RefusedError
		_, err := target.Check(context.Background(), p)
		if !errors.As(err, &refused) || refused.Service != "demo/web:http" {
			t.Errorf("error %v", err)
		}
		if k.SaveAll() != before {
			t.Error("a check wrote something")
		}
		k.NoIsolation = true
		notes, err := target.Check(context.Background(), p)
		if err != nil || len(notes) != 2 || !strings.Contains(notes[0], "CAP_SYS_ADMIN") {
			t.Errorf("without namespaces: notes %v, error %v", notes, err)
		}
	})
}

func TestLock(t *testing.T) {
	k := newFake(t, true)
	target := &Target{Runner: k}
	p, _ := mustPlan(t, target, worked(t))
	k.Locked = true
	if err := target.Commit(context.Background(), p); !errors.Is(err, apply.ErrLocked) {
		t.Errorf("error %v", err)
	}
	var tool *apply.ToolError
	if err := target.Commit(context.Background(), p); !errors.As(err, &tool) || tool.Code != 4 {
		t.Errorf("error %v", err)
	}
}

func TestMissingFamily(t *testing.T) {
	k := newFake(t, false)
	k.Missing = []ir.Family{ir.IPv6}
	target := &Target{Runner: k}
	from, err := target.Observe(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := target.Plan(worked(t), from); err == nil || !strings.Contains(err.Error(), "ipv6") {
		t.Errorf("error %v", err)
	}
	mustApply(t, target, oneFamily(worked(t), ir.IPv4))
	k.Missing = []ir.Family{ir.IPv4, ir.IPv6}
	if _, err := (&Target{Runner: k}).Observe(context.Background()); err == nil {
		t.Error("observed without a tool")
	}
}

// hooked puts the jumps from built-in chains at the end of each table.
func hooked(text string) string {
	var out strings.Builder
	var table string
	var chains []string
	for line := range strings.Lines(text) {
		switch {
		case line[0] == '*':
			table, chains = strings.TrimSpace(line[1:]), nil
		case line[0] == ':':
			chains = append(chains, strings.Fields(line[1:])[0])
		case line == "COMMIT\n":
			for _, jump := range rules.Jumps(table, chains) {
				out.WriteString(jump + "\n")
			}
		}
		out.WriteString(line)
	}
	return out.String()
}
