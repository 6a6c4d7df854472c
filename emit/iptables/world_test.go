package iptables_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"svcc/compiler/passes"
	"svcc/compiler/proof"
	"svcc/emit"
	"svcc/emit/iptables"
	"svcc/ir/irtest"
)

var (
	builtInTargets = []string{"ACCEPT", "DROP", "REJECT", "RETURN", "DNAT", "MARK", "MASQUERADE"}
	builtInChains  = map[string][]string{"*filter": {"INPUT", "FORWARD", "OUTPUT"}, "*nat": {"PREROUTING", "OUTPUT", "POSTROUTING"}}
)

// closed says what in a restore text is not of its own world: a target or a
// chain that is not declared, one declared twice or with too long a name, a
// table not committed, a line that is none of restore's.
func closed(text string, hooks bool) error {
	var table string
	var chains map[string]bool
	open := false
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		switch {
		case builtInChains[f[0]] != nil:
			table, chains, open = f[0], map[string]bool{}, true
		case f[0] == "COMMIT":
			open = false
		case f[0][0] == ':':
			name := f[0][1:]
			if chains[name] || len(name) > 28 || len(f) < 2 || len(f) > 3 || f[1] != "-" {
				return fmt.Errorf("%s: %q", table, line)
			}
			chains[name] = true
		case f[0] == "-A":
			own := chains[f[1]]
			if !own && !(hooks && slices.Contains(builtInChains[table], f[1])) {
				return fmt.Errorf("%s: a rule of no chain: %s", table, line)
			}
			for i, w := range f {
				if (w == "-j" || w == "-g") && !chains[f[i+1]] && !slices.Contains(builtInTargets, f[i+1]) {
					return fmt.Errorf("%s: no target: %s", table, line)
				}
			}
		default:
			return fmt.Errorf("%s: %q", table, line)
		}
	}
	if open || table == "" {
		return fmt.Errorf("%s is not committed", table)
	}
	return nil
}

// Whatever the Program, at every level the text is a world of its own,
// parses, and means the Program.
func TestRandomPrograms(t *testing.T) {
	for level := 0; level <= 2; level++ {
		rows, err := passes.Select(passes.Table, level, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(fmt.Sprintf("O%d", level), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { checkProgram(t, rows, level) })
		})
	}
}

func checkProgram(t *rapid.T, rows []passes.Pass, level int) {
	p := irtest.Programs().Draw(t, "program")
	g, err := passes.Run(rows, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	var b iptables.Backend
	hooks := rapid.Bool().Draw(t, "hooks")
	sections, err := b.Emit(g, emit.Options{Level: level, Hooks: hooks})
	if err != nil || len(sections) != 1 {
		t.Fatalf("%d sections, %v", len(sections), err)
	}
	if err := closed(string(sections[0].Text), hooks); err != nil {
		t.Fatal(err)
	}
	w, err := b.Parse(p.Family, sections, hooks)
	if err != nil {
		t.Fatal(err)
	}
	if err := proof.First(p, w); err != nil {
		t.Fatal(err)
	}
}

// The check itself can fail.
func TestClosed(t *testing.T) {
	const good = "*nat\n:A - [0:0]\n:B - [0:0]\n-A A -j B\n-A B -j MARK --or-mark 0x1\nCOMMIT\n"
	if err := closed(good, false); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{
		strings.Replace(good, ":B - [0:0]\n", "", 1),
		strings.Replace(good, "COMMIT\n", "", 1),
		strings.Replace(good, "-A A", "-A PREROUTING", 1),
		strings.Replace(good, ":B", ":A", 1),
		strings.Replace(good, "-A A -j B", "-A A -g C", 1),
		strings.Replace(good, ":A - [0:0]", ":"+strings.Repeat("A", 29)+" - [0:0]", 1),
		good + "-I A -j B\n",
		"",
	} {
		if err := closed(bad, false); err == nil {
			t.Errorf("%q is a world of its own", bad)
		}
	}
}
