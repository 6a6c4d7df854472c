package golden

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"svcc/golden/lab"
	"svcc/ir"
)

// oneFamily and twoFamilies are clusters, with the flags to build them.
var (
	oneFamily   = []string{"../docs/example", "--node=node-0", "--cluster-cidr=10.128.0.0/9"}
	twoFamilies = references[0].flags
)

// build runs svcc build into a new place and gives it: a file, or a folder if
// the name ends with a slash.
func build(t *testing.T, name string, args ...string) string {
	t.Helper()
	to := t.TempDir() + "/" + name
	if code, _, stderr := run(append([]string{"build", "-o", to}, args...)...); code != 0 {
		t.Fatalf("exit %d\n%s", code, stderr)
	}
	return to
}

func readAll(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var passing = regexp.MustCompile(`(?m)^#.*\n|\[\d+:\d+\] ?`)

// state is what a flavour's save tools print for both families, without the
// time of day and without counters.
func state(t *testing.T, l *lab.Lab, fl lab.Flavour) string {
	t.Helper()
	var s string
	for _, f := range ir.Families {
		s += f.String() + "\n" + passing.ReplaceAllString(save(t, l, fl, f), "")
	}
	return s
}

// flavours runs f in a new namespace with each flavour.
func flavours(t *testing.T, f func(t *testing.T, l *lab.Lab, fl lab.Flavour)) {
	lab.Require(t)
	for _, fl := range lab.Flavours {
		t.Run(string(fl), func(t *testing.T) { f(t, lab.New(t, lab.Config{}), fl) })
	}
}

func restorer(fl lab.Flavour, f ir.Family) string {
	return strings.TrimSuffix(saver(fl, f), "save") + "restore"
}

// wantRules says how many rules of a text must be in the kernel: all.
func wantRules(t *testing.T, state, text string) {
	t.Helper()
	want, got := strings.Count(text, "\n-A "), strings.Count(state, "\n-A ")
	if want < 20 || got != want {
		t.Errorf("%d rules are in the kernel, of %d", got, want)
	}
}

// The file of a one-family cluster is loaded by the tool as it is, and again
// without a change.
func TestKernelLoadFile(t *testing.T) {
	flavours(t, func(t *testing.T, l *lab.Lab, fl lab.Flavour) {
		text := readAll(t, build(t, "rules.txt", oneFamily...))
		var states []string
		for range 2 {
			if err := l.Run(text, restorer(fl, ir.IPv4)); err != nil {
				t.Fatal(err)
			}
			states = append(states, state(t, l, fl))
		}
		wantRules(t, states[0], text)
		if states[0] != states[1] {
			t.Errorf("after the first time:\n%safter the second:\n%s", states[0], states[1])
		}
	})
}

// A file of two families is refused at its first line, and nothing is written:
// else rules for IPv6 would be loaded over those for IPv4.
func TestKernelRefusesTwoFamilies(t *testing.T) {
	flavours(t, func(t *testing.T, l *lab.Lab, fl lab.Flavour) {
		const own = "*filter\n:OWN - [0:0]\n-A OWN -j ACCEPT\nCOMMIT\n*nat\n:OWN - [0:0]\nCOMMIT\n"
		text := readAll(t, build(t, "rules.txt", twoFamilies...))
		for _, f := range ir.Families {
			if err := l.Run(own, restorer(fl, f)); err != nil {
				t.Fatal(err)
			}
		}
		before := state(t, l, fl)
		for _, f := range ir.Families {
			for _, flags := range [][]string{nil, {"--noflush"}, {"--test"}} {
				err := l.Run(text, append([]string{restorer(fl, f)}, flags...)...)
				if err == nil || !regexp.MustCompile(`line:? 1\b`).MatchString(err.Error()) {
					t.Errorf("%s %q: %v", restorer(fl, f), flags, err)
				}
			}
		}
		if after := state(t, l, fl); after != before || !strings.Contains(before, "-A OWN") {
			t.Errorf("before:\n%safter:\n%s", before, after)
		}
	})
}

// A folder has a file for each tool, which loads it, twice with one result.
func TestKernelLoadFolder(t *testing.T) {
	flavours(t, func(t *testing.T, l *lab.Lab, fl lab.Flavour) {
		dir := build(t, "r/", twoFamilies...)
		four, six := readAll(t, dir+"iptables.rules"), readAll(t, dir+"ip6tables.rules")
		var states []string
		for range 2 {
			for f, text := range map[ir.Family]string{ir.IPv4: four, ir.IPv6: six} {
				if err := l.Run(text, restorer(fl, f)); err != nil {
					t.Fatal(err)
				}
			}
			states = append(states, state(t, l, fl))
		}
		wantRules(t, states[0], four+six)
		if states[0] != states[1] {
			t.Errorf("after the first time:\n%safter the second:\n%s", states[0], states[1])
		}
	})
}

// A folder has the whole as well, and nothing of an earlier build.
func TestFolder(t *testing.T) {
	dir := build(t, "r/", twoFamilies...)
	names := func() (out []string) {
		files, _ := filepath.Glob(dir + "*")
		for _, f := range files {
			out = append(out, filepath.Base(f))
		}
		return out
	}
	if got := names(); !slices.Equal(got, []string{"ip6tables.rules", "iptables.rules", "svcc.rules"}) {
		t.Errorf("files %q", got)
	}
	if whole := readAll(t, build(t, "rules.txt", twoFamilies...)); readAll(t, dir+"svcc.rules") != whole {
		t.Error("the whole is not what -o FILE writes")
	}
	if code, _, stderr := run(append([]string{"build", "-o", dir}, oneFamily...)...); code != 0 {
		t.Fatal(stderr)
	}
	if got := names(); !slices.Equal(got, []string{"iptables.rules", "svcc.rules"}) {
		t.Errorf("after a build of one family: files %q", got)
	}
}

// Without the jumps, a file changes nothing but the chains in it, however
// often it is loaded.
func TestKernelLoadWithoutHooks(t *testing.T) {
	flavours(t, func(t *testing.T, l *lab.Lab, fl lab.Flavour) {
		text := readAll(t, build(t, "rules.txt", append(slices.Clone(oneFamily), "--hooks=no")...))
		tool := restorer(fl, ir.IPv4)
		if err := l.Run(foreign, tool); err != nil {
			t.Fatal(err)
		}
		before := state(t, l, fl)
		var states []string
		for range 2 {
			if err := l.Run(text, tool, "--noflush"); err != nil {
				t.Fatal(err)
			}
			states = append(states, state(t, l, fl))
		}
		if states[0] != states[1] {
			t.Errorf("after the first time:\n%safter the second:\n%s", states[0], states[1])
		}
		ours := regexp.MustCompile(`(?m)^(:|-A )KUBE-.*\n`)
		wantRules(t, "\n"+strings.Join(ours.FindAllString(states[1], -1), ""), text)
		if rest := ours.ReplaceAllString(states[1], ""); rest != before || !strings.Contains(before, "-A DOCKER") {
			t.Errorf("foreign rules before:\n%safter:\n%s", before, rest)
		}
	})
}
