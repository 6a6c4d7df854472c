package diff

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"svcc/emit"
	"svcc/golden/lab"
	"svcc/ir"
)

// lcs is the length of the longest common subsequence, by the textbook.
func lcs(a, b []string) int {
	row := make([]int, len(b)+1)
	for i := range a {
		before := 0
		for j := range b {
			old := row[j+1]
			if a[i] == b[j] {
				row[j+1] = before + 1
			} else {
				row[j+1] = max(row[j+1], row[j])
			}
			before = old
		}
	}
	return row[len(b)]
}

var someLines = rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "d"}), 0, 12)

// A script turns a into b, and no shorter one does.
func TestEdits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := someLines.Draw(t, "a"), someLines.Draw(t, "b")
		var old, new []string
		changed := 0
		for _, e := range edits(a, b) {
			if e.op != '+' {
				old = append(old, e.text)
			}
			if e.op != '-' {
				new = append(new, e.text)
			}
			if e.op != ' ' {
				changed++
			}
		}
		if !slices.Equal(old, a) || !slices.Equal(new, b) {
			t.Fatalf("%v to %v by %v to %v", a, b, old, new)
		}
		if want := len(a) + len(b) - 2*lcs(a, b); changed != want {
			t.Fatalf("%d lines changed, %d are enough", changed, want)
		}
	})
}

// Lists that have nothing in common are exchanged, however long they are.
func TestEditsOfStrangers(t *testing.T) {
	a, b := make([]string, 3000), make([]string, 3000)
	for i := range a {
		a[i], b[i] = "a", "b"
	}
	if n := len(edits(a, b)); n != 6000 {
		t.Errorf("%d edits", n)
	}
}

// patch makes the new text of the old one and the unified diff.
func TestUnifiedIsForPatch(t *testing.T) {
	lab.Need(t, lab.Tools("patch"))
	dir := t.TempDir()
	file := filepath.Join(dir, "x")
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "d"}), 1, 40)
		a, b := lines.Draw(t, "a"), lines.Draw(t, "b")
		if slices.Equal(a, b) {
			return
		}
		if err := os.WriteFile(file, []byte(strings.Join(a, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("patch", "-s", "--fuzz=0", file)
		cmd.Stdin = strings.NewReader("--- x\n+++ x\n" + strings.Join(unified(a, b), "\n") + "\n")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if got, _ := os.ReadFile(file); string(got) != strings.Join(b, "\n")+"\n" {
			t.Fatalf("patched to %q", got)
		}
	})
}

func TestCompareRules(t *testing.T) {
	section := func(text string) []emit.Section {
		return []emit.Section{{Tool: "iptables-restore", Family: ir.IPv4, Text: []byte(text)}}
	}
	a := section("*filter\n:A - [0:0]\n-A A -j B\nCOMMIT\n*nat\n:A - [0:0]\n:C - [0:0]\n-A A -j C\n-A C -j RETURN\nCOMMIT\n")
	b := section("*filter\n:A - [5:9]\n-A A -j B\nCOMMIT\n*nat\n:D - [0:0]\n:A - [0:0]\n-A A -j D\n-A D -j RETURN\nCOMMIT\n")
	var got []string
	for _, c := range CompareRules(a, b) {
		got = append(got, string(c.Kind), c.Table, c.Chain)
		got = append(got, c.Diff...)
	}
	want := []string{
		"changed", "nat", "A", "--- old/ipv4/nat/A", "+++ new/ipv4/nat/A", "@@ -1,2 +1,2 @@", " :A -", "--A A -j C", "+-A A -j D",
		"removed", "nat", "C", "--- old/ipv4/nat/C", "+++ /dev/null", "@@ -1,2 +0,0 @@", "-:C -", "--A C -j RETURN",
		"added", "nat", "D", "--- /dev/null", "+++ new/ipv4/nat/D", "@@ -0,0 +1,2 @@", "+:D -", "+-A D -j RETURN",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if c := CompareRules(a, a); c != nil {
		t.Error(c)
	}
}
