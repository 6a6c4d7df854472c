package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// lines are a package's events: one test passes, one is skipped, one fails.
const lines = `{"Action":"start","Package":"a"}
{"Action":"output","Package":"a","Test":"TestSound","Output":"not to be seen\n"}
{"Action":"pass","Package":"a","Test":"TestSound","Elapsed":1}
{"Action":"output","Package":"a","Test":"TestSkips","Output":"    need.go:18: not root\n"}
{"Action":"output","Package":"a","Test":"TestSkips","Output":"        no ipset\n"}
{"Action":"skip","Package":"a","Test":"TestSkips"}
{"Action":"output","Package":"a","Test":"TestFails","Output":"the first line\n"}
{"Action":"output","Package":"a","Test":"TestFails","Output":"the last line\n"}
{"Action":"fail","Package":"a","Test":"TestFails"}
{"Action":"fail","Package":"a"}
{"Action":"start","Package":"b"}
{"Action":"pass","Package":"b","Elapsed":2}
`

func TestTally(t *testing.T) {
	all := newTally()
	var shown strings.Builder
	if err := follow(all, read(strings.NewReader(lines)), &shown, nil, nil); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"--- FAIL: a TestFails", "the first line\nthe last line\n", "FAIL a 0s\n", "ok   b 2s\n"} {
		if !strings.Contains(shown.String(), want) {
			t.Errorf("no %q in\n%s", want, shown.String())
		}
	}
	if strings.Contains(shown.String(), "not to be seen") {
		t.Errorf("what sound tests say is shown:\n%s", shown.String())
	}
	const want = "1 packages ok, 1 failed (1 tests), 1 tests skipped (1: not root; no ipset), in 3s\n"
	if got := all.closing(3 * time.Second); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A package that cannot be built or that panics is a failure that is shown.
func TestRealRun(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"sound":   {"package a\nimport \"testing\"\nfunc TestA(t *testing.T) {}\n", ""},
		"skips":   {"package a\nimport \"testing\"\nfunc TestA(t *testing.T) { t.Skip(\"a reason\") }\n", ""},
		"fails":   {"package a\nimport \"testing\"\nfunc TestA(t *testing.T) { t.Error(\"a fault\") }\n", "a fault"},
		"panics":  {"package a\nimport \"testing\"\nfunc TestA(t *testing.T) { panic(\"a panic\") }\n", "a panic"},
		"exits":   {"package a\nimport (\"testing\"; \"os\")\nfunc TestA(t *testing.T) { println(\"last words\"); os.Exit(3) }\n", "last words"},
		"unbuilt": {"package a\nimport \"testing\"\nfunc TestA(t *testing.T) { nothing() }\n", "undefined: nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range map[string]string{"go.mod": "module a\n", "a_test.go": c.text} {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			t.Chdir(dir)
			all := newTally()
			var shown strings.Builder
			err := run(all, []string{"./..."}, &shown)
			if (err != nil) != (c.want != "") || (len(all.failed) > 0) != (c.want != "") {
				t.Errorf("%v, failed %q", err, all.failed)
			}
			if !strings.Contains(shown.String(), c.want) {
				t.Errorf("no %q in\n%s", c.want, shown.String())
			}
			if name == "skips" && all.skipped["a reason"] != 1 {
				t.Errorf("%v", all.skipped)
			}
		})
	}
}
