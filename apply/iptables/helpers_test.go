package iptables

import (
	"context"
	"os"
	"strings"
	"testing"

	"svcc/apply"
	"svcc/apply/fake"
	"svcc/emit"
	"svcc/ir"
)

// worked is the worked example of kube-proxy's semantics, both families, with
// edits of the text of either: "old", "new", ...
func worked(t testing.TB, edits ...string) *emit.Ruleset {
	t.Helper()
	rs := &emit.Ruleset{Head: emit.Head{Mode: "iptables", Families: ir.Families}}
	used := make([]bool, len(edits))
	for i, name := range []string{"worked.rules", "worked6.rules"} {
		b, err := os.ReadFile("../../emit/iptables/testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		text := withoutHookLines(string(b))
		for j := 0; j < len(edits); j += 2 {
			used[j] = used[j] || strings.Contains(text, edits[j])
			text = strings.ReplaceAll(text, edits[j], edits[j+1])
		}
		rs.Sections = append(rs.Sections, emit.Section{Tool: "iptables-restore", Family: ir.Families[i], Text: []byte(text)})
	}
	for j := 0; j < len(edits); j += 2 {
		if !used[j] {
			t.Fatalf("the worked example has no %q", edits[j])
		}
	}
	return rs
}

// withoutHookLines drops the jumps from built-in chains.
func withoutHookLines(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "-A ") || strings.HasPrefix(line, "-A KUBE-") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// oneFamily leaves out the other family's sections.
func oneFamily(rs *emit.Ruleset, f ir.Family) *emit.Ruleset {
	out := &emit.Ruleset{Head: rs.Head}
	for _, s := range rs.Sections {
		if s.Family == f {
			out.Sections = append(out.Sections, s)
		}
	}
	return out
}

// foreign is what other programs have on a node: policies, counters, rules
// before, between and after ours, chains of a CNI plugin, Docker and kubelet.
var foreign = map[ir.Family]string{
	ir.IPv4: `*filter
:INPUT DROP [11:1111]
:FORWARD DROP [22:2222]
:OUTPUT ACCEPT [33:3333]
:DOCKER-USER - [0:0]
:KUBE-KUBELET-CANARY - [0:0]
:KUBE-ROUTER-INPUT - [0:0]
:cali-FORWARD - [0:0]
[7:700] -A INPUT -i lo -j ACCEPT
[8:800] -A INPUT -p tcp -m tcp --dport 22 -m comment --comment "let me in; \"really\"" -j ACCEPT
[1:100] -A INPUT -j KUBE-ROUTER-INPUT
[9:900] -A FORWARD -j DOCKER-USER
[5:500] -A FORWARD -j cali-FORWARD
[3:300] -A FORWARD -o docker0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
[2:200] -A DOCKER-USER -j RETURN
[6:600] -A cali-FORWARD -m mark --mark 0x10000/0x10000 -j ACCEPT
COMMIT
*nat
:PREROUTING ACCEPT [1:60]
:INPUT ACCEPT [2:120]
:OUTPUT ACCEPT [3:180]
:POSTROUTING ACCEPT [4:240]
:CNI-HOSTPORT-DNAT - [0:0]
:DOCKER - [0:0]
[4:400] -A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER
[5:500] -A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
[6:600] -A POSTROUTING -s 172.17.0.0/16 ! -o docker0 -j MASQUERADE
[7:700] -A DOCKER -i docker0 -j RETURN
COMMIT
`,
	ir.IPv6: `*filter
:INPUT ACCEPT [1:1]
:FORWARD DROP [2:2]
:OUTPUT ACCEPT [3:3]
[7:700] -A INPUT -p ipv6-icmp -j ACCEPT
COMMIT
`,
}

// newFake is a fake kernel with foreign rules.
func newFake(t testing.TB, legacy bool) *fake.Kernel {
	t.Helper()
	k := fake.New()
	k.Legacy = legacy
	for f, text := range foreign {
		load(t, k, f, text)
	}
	return k
}

// load runs restore input, with counters and over what is there.
func load(t testing.TB, r apply.Runner, f ir.Family, text string) {
	t.Helper()
	in := apply.Input{Tool: Flavour("")(f, "restore"), Args: []string{"--noflush", "--counters"}, Stdin: []byte(text)}
	if _, err := r.Run(context.Background(), in); err != nil {
		t.Fatalf("loading %s: %v\n%s", f, err, text)
	}
}

// both runs a test with a fake of each flavour.
func both(t *testing.T, f func(t *testing.T, k *fake.Kernel)) {
	for _, legacy := range []bool{false, true} {
		name := "nft"
		if legacy {
			name = "legacy"
		}
		t.Run(name, func(t *testing.T) { f(t, newFake(t, legacy)) })
	}
}

// mustPlan observes and plans.
func mustPlan(t testing.TB, target *Target, rs *emit.Ruleset) (apply.Plan, apply.Observed) {
	t.Helper()
	from, err := target.Observe(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	p, err := target.Plan(rs, from)
	if err != nil {
		t.Fatal(err)
	}
	return p, from
}

// mustApply plans, checks and commits; what is left to do after it must be
// nothing.
func mustApply(t testing.TB, target *Target, rs *emit.Ruleset) apply.Plan {
	t.Helper()
	p, _ := mustPlan(t, target, rs)
	ctx := context.Background()
	if _, err := target.Check(ctx, p); err != nil {
		t.Fatalf("check: %v", err)
	}
	if err := target.Commit(ctx, p); err != nil {
		t.Fatalf("commit: %v", err)
	}
	if again, _ := mustPlan(t, target, rs); !again.Empty() {
		t.Fatalf("something is left to do:\n%s", inputText(again))
	}
	return p
}

func inputText(p apply.Plan) string {
	var b strings.Builder
	for _, in := range p.Inputs() {
		b.WriteString(in.Tool + " " + strings.Join(in.Args, " ") + "\n" + string(in.Stdin))
	}
	return b.String()
}

// foreignLines are a dump's lines that are not ours: not of a chain of ours, and
// no hook.
func foreignLines(dump string) string {
	var b strings.Builder
	for line := range strings.Lines(dump) {
		if !strings.Contains(line, "KUBE-") || strings.Contains(line, "KUBE-ROUTER") || strings.Contains(line, "KUBELET") {
			b.WriteString(line)
		}
	}
	return b.String()
}
