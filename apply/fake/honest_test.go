package fake

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"svcc/apply"
	spelt "svcc/emit/iptables/rule"
	"svcc/golden/lab"
	"svcc/ir"
)

// corpus are runs of a restore tool, one after the other on the same kernel.
var corpus = []struct{ args, text string }{
	{"", "*filter\n:INPUT DROP [5:500]\n:KUBE-A - [0:0]\n[7:70] -A INPUT -i lo -j ACCEPT\n-A INPUT -j KUBE-A\n-A KUBE-A -p tcp -m tcp --dport 80 -j DROP\nCOMMIT\n"},
	{"--counters", "*filter\n:INPUT DROP [5:500]\n:FORWARD ACCEPT [6:600]\n:FOREIGN - [0:0]\n[7:70] -A INPUT -i lo -j ACCEPT\n[8:80] -A FOREIGN -j RETURN\n[1:1] -A FORWARD -j FOREIGN\nCOMMIT\n"},
	{"--noflush", "*filter\n:KUBE-A - [0:0]\n:KUBE-B - [0:0]\n-A KUBE-A -j KUBE-B\n-A KUBE-B -j ACCEPT\n-I INPUT -j KUBE-A\nCOMMIT\n"},
	{"--noflush", "*filter\n:KUBE-A - [0:0]\n-A KUBE-A -m comment --comment \"two words\" -j DROP\n-A KUBE-A -j RETURN\nCOMMIT\n"},
	{"--noflush --counters", "*filter\n:INPUT DROP [9:900]\n:KUBE-A - [0:0]\n-A KUBE-A -j RETURN\n[3:30] -A KUBE-A -j DROP\nCOMMIT\n"},
	{"--noflush", "*filter\n-I INPUT 2 -p udp -j KUBE-A\n-I INPUT 1 -p udp -j KUBE-B\nCOMMIT\n"},
	{"--noflush", "*filter\n-I INPUT 9 -j ACCEPT\nCOMMIT\n"},
	{"--noflush", "*filter\n-D INPUT -p udp -j KUBE-B\nCOMMIT\n"},
	{"--noflush", "*filter\n-D INPUT -p udp -j KUBE-B\nCOMMIT\n"},
	{"--noflush", "*filter\n-D INPUT -p sctp -j ACCEPT\nCOMMIT\n"},
	{"--noflush", "*filter\n:KUBE-A - [0:0]\n-X KUBE-A\nCOMMIT\n"},
	{"--noflush", "*filter\n-X KUBE-NONE\nCOMMIT\n"},
	{"--noflush", "*filter\n-X INPUT\nCOMMIT\n"},
	{"--noflush", "*filter\n-A KUBE-NONE -j ACCEPT\nCOMMIT\n"},
	{"--noflush", "*filter\n:KUBE-A - [0:0]\n-A KUBE-A -j KUBE-NONE\nCOMMIT\n"},
	{"--noflush", "*filter\n:KUBE-A - [0:0]\n-A KUBE-A -j KUBE-B\n:KUBE-B - [0:0]\n-A KUBE-B -j KUBE-A\nCOMMIT\n"},
	{"--noflush", "*filter\n:KUBE-NAME-THAT-IS-FAR-TOO-LONG-FOR-IT - [0:0]\nCOMMIT\n"},
	{"--noflush", "*filter\n:KUBE-A - [0:0]\n-A KUBE-A -m nfacct --nfacct-name none -j ACCEPT\nCOMMIT\n"},
	{"--noflush", "*filter\n:KUBE-C - [0:0]\nCOMMIT\n*nat\n:KUBE-C - [0:0]\n-A KUBE-C -j KUBE-NONE\nCOMMIT\n"},
	{"--noflush", "*filter\n:KUBE-D - [0:0]\nCOMMIT\n*nat\n:KUBE-D - [0:0]\n-D KUBE-D -j ACCEPT\nCOMMIT\n"},
	{"--noflush", "*nat\n:KUBE-E - [0:0]\n-A KUBE-E -p tcp -j DNAT --to-destination 10.0.0.1:80\n-A KUBE-E -j MARK --or-mark 0x4000\n-A OUTPUT -j KUBE-E\n"},
	{"--noflush", "*nat\n:KUBE-E - [0:0]\n-A KUBE-E -p tcp -j DNAT --to-destination 10.0.0.1:80\n-A KUBE-E -j MARK --or-mark 0x4000\n-A OUTPUT -j KUBE-E\nCOMMIT\n"},
	{"--noflush", "*nat\n-D KUBE-E -p tcp -m tcp -j DNAT --to-destination 10.0.0.1:80\nCOMMIT\n"},
	{"--noflush", "*nat\n-D KUBE-E -p tcp -j DNAT --to-destination 10.0.0.1:80\n-D KUBE-E -j MARK --set-xmark 0x4000/0x4000\nCOMMIT\n"},
	{"--noflush", "*nat\n-D OUTPUT -j KUBE-E\n-X KUBE-E\nCOMMIT\n"},
	{"--noflush", "*nat\n:KUBE-F - [0:0]\n:KUBE-G - [0:0]\n-A KUBE-F -j KUBE-G\n-A OUTPUT -j KUBE-F\nCOMMIT\n"},
	{"--noflush", "*nat\n:KUBE-F - [0:0]\n:KUBE-G - [0:0]\n-D OUTPUT -j KUBE-F\n-X KUBE-G\n-X KUBE-F\nCOMMIT\n"},
	{"--noflush --test", "*filter\n:KUBE-T - [0:0]\n-A KUBE-T -j ACCEPT\nCOMMIT\n"},
	{"--noflush --test", "*filter\n-D INPUT -p sctp -j ACCEPT\nCOMMIT\n"},
	{"--noflush --test", "*filter\n-A KUBE-NONE -j ACCEPT\nCOMMIT\n"},
	{"--noflush --test", "*filter\n:KUBE-T - [0:0]\n-A KUBE-T -m nfacct --nfacct-name none -j ACCEPT\nCOMMIT\n"},
	{"--noflush --test", "*filter\n:KUBE-B - [0:0]\n-X KUBE-B\nCOMMIT\n"},
	{"--noflush", "*filter\n:INPUT ACCEPT [0:0]\n-F INPUT\nCOMMIT\n"},
	{"--noflush", "*filter\n-S\n:KUBE-S - [0:0]\n-A KUBE-S -j ACCEPT\n-A INPUT -j KUBE-S\nCOMMIT\n"},
	{"--noflush", "*nosuchtable\nCOMMIT\n"},
	{"--noflush", "-A INPUT -j ACCEPT\n"},
}

// TestHonest runs the corpus with the fake and with the real tools: they fail
// at the same runs with the same codes, and what is there after each is equal.
func TestHonest(t *testing.T) {
	for _, flavour := range []string{"legacy", "nft"} {
		t.Run(flavour, func(t *testing.T) {
			real := newNamespace(t)
			k := New()
			k.Legacy = flavour == "legacy"
			for i, c := range corpus {
				what := fmt.Sprintf("%d: %s\n%s", i, c.args, c.text)
				args := append([]string{"-w", "1"}, strings.Fields(c.args)...)
				in := apply.Input{Tool: "iptables-" + flavour + "-restore", Args: args, Stdin: []byte(c.text)}
				_, want := real.run(in)
				if _, got := k.Run(context.Background(), in); code(got) != code(want) {
					t.Errorf("%sthe fake says: %v\nthe tool says: %v", what, got, want)
				}
				sameTables(t, what, flavour, real, k)
			}
		})
	}
}

func sameTables(t *testing.T, what, flavour string, real namespace, k *Kernel) {
	t.Helper()
	for _, table := range []string{"filter", "nat"} {
		out, err := real.run(apply.Input{Tool: "iptables-" + flavour + "-save", Args: []string{"-c", "-t", table}})
		if err != nil {
			t.Fatal(err)
		}
		if want, got := canonical(string(out)), canonical(k.Save(ir.IPv4, table)); got != want {
			t.Fatalf("%safter it the fake has\n%s\nthe tool has\n%s", what, got, want)
		}
	}
}

func code(err error) int {
	var tool *apply.ToolError
	if errors.As(err, &tool) {
		return tool.Code
	}
	return 0
}

// canonical is a dump without comments and in canonical form.
func canonical(dump string) string {
	var out []string
	for line := range strings.Lines(dump) {
		line = strings.TrimSpace(line)
		count, text, isRule := strings.Cut(line, " ")
		switch {
		case line == "" || line[0] == '#':
		case isRule && line[0] == '[':
			out = append(out, count+" "+spelt.Canonical(ir.IPv4, text))
		default:
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n")
}

// namespace is a network namespace for the real tools.
type namespace struct{ lab.Thread }

func newNamespace(t *testing.T) namespace {
	t.Helper()
	lab.Need(t, lab.Tools("iptables-legacy-restore"))
	return namespace{lab.NewThread(t)}
}

func (n namespace) run(in apply.Input) (out []byte, err error) {
	n.Do(func() { out, err = apply.Exec{}.Run(context.Background(), in) })
	return out, err
}
