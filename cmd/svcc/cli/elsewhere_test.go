package cli

import (
	"slices"
	"strings"
	"testing"
)

// What does not work elsewhere says so, whatever follows its name.
func TestElsewhere(t *testing.T) {
	for _, args := range []string{
		"apply", "apply web.yaml", "apply --mode ipvs -O 0 web.yaml", "apply --confirmed", "rollback --confirm-timeout=1m",
		"status --json --state-dir /tmp/x", "remove --dry-run", "confirm", "doctor --list", "doctor -v --strict node.rules",
	} {
		var said strings.Builder
		root := newRoot(streams{err: &said})
		root.RemoveCommand(root.Commands()...)
		root.AddCommand(elsewhere()...)
		root.SetArgs(strings.Fields(args))
		err := root.Execute()
		name, _, _ := strings.Cut(args, " ")
		if want := "svcc " + name + " works on the kernel of a Linux node: run it there"; err == nil || err.Error() != want {
			t.Errorf("svcc %s: %v, want %q", args, err, want)
		}
		if codeOf(err) != exitUsage {
			t.Errorf("svcc %s: exit code %d, want %d", args, codeOf(err), exitUsage)
		}
	}
}

func TestElsewhereHelp(t *testing.T) {
	var out strings.Builder
	root := newRoot(streams{out: &out})
	root.RemoveCommand(root.Commands()...)
	root.AddCommand(elsewhere()...)
	root.SetArgs([]string{"apply", "--help"})
	if err := root.Execute(); err != nil || !strings.Contains(out.String(), "run it there") {
		t.Errorf("%v: %s", err, out.String())
	}
}

// The same commands are there on all systems, those for people at least.
func TestElsewhereHasEveryCommand(t *testing.T) {
	var names []string
	for _, c := range elsewhere() {
		names = append(names, c.Name())
	}
	var want []string
	for _, c := range nodeCommands(streams{}) {
		if !c.Hidden {
			want = append(want, c.Name())
		}
	}
	if !slices.Equal(names, want) {
		t.Errorf("%q, but on Linux %q", names, want)
	}
}
