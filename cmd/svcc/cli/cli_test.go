package cli

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"svcc": func() { os.Exit(Run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
	})
}

// TestScripts runs testdata/script/*.txtar, each in a folder with the files of
// testdata/input. Beside testscript's own commands there are
//
//	exits N svcc ARGS...   svcc ends with exit code N
//	silent                 nothing was written to standard output
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup:               func(e *testscript.Env) error { return os.CopyFS(e.WorkDir, os.DirFS("testdata/input")) },
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":  exits,
			"silent": silent,
		},
	})
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits N COMMAND ARGS...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var failed *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &failed) {
		got = failed.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

func silent(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: silent")
	}
	if out := ts.ReadFile("stdout"); out != "" {
		ts.Fatalf("there is output: %q", out)
	}
}

// In the terminal's form a finding comes with its line and a caret, and with
// none of the input's control characters.
func TestExcerpt(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bad.yaml")
	text := "apiVersion: v1\nkind: Service\nmetadata: {name: bad, namespace: demo}\nspec:\n  clusterIP: 10.96.0.11\n  ports: [{name: \"a\x1b[31m\", port: 80}]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, plain strings.Builder
	if code := Run([]string{"lint", "--color", "always", file}, nil, &out, &plain); code == 0 {
		t.Errorf("exit code 0: %s", out.String())
	}
	rest := strings.NewReplacer("\x1b[31;1m", "", "\x1b[33;1m", "", "\x1b[36m", "", "\x1b[0m", "", "\x1b[0;22m", "", "\x1b[22m", "", "\x1b[0;0m", "").Replace(out.String())
	if strings.Contains(rest, "\x1b") {
		t.Errorf("the input's control characters come through: %q", rest)
	}
	if out.String() == rest {
		t.Error("no colour")
	}
}
