package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"sigs.k8s.io/yaml"
)

// The parts of pipelines that the tests need.
type githubWorkflow struct {
	On   map[string]any `json:"true"` // what YAML 1.1 takes "on" for
	Jobs map[string]struct {
		RunsOn string            `json:"runs-on"`
		Env    map[string]string `json:"env"`
		Steps  []struct{ Name, Uses, Run string }
	}
}

type gitlabJob struct {
	Image        string
	Variables    map[string]string
	BeforeScript []string `json:"before_script"`
	Script       []string
	Artifacts    struct{ Paths []string }
}

// pipelines reads the two of docs/ci.md.
func pipelines(t *testing.T) (w githubWorkflow, jobs map[string]gitlabJob) {
	t.Helper()
	text, err := os.ReadFile("../../../docs/ci.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$").FindAllSubmatch(text, -1)
	if len(blocks) != 2 {
		t.Fatalf("%d blocks of YAML, want 2", len(blocks))
	}
	for i, into := range []any{&w, &jobs} {
		var strict any
		if err := yaml.UnmarshalStrict(blocks[i][1], &strict); err != nil { // no key twice
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(blocks[i][1], into); err != nil {
			t.Fatal(err)
		}
	}
	return w, jobs
}

// githubSteps are the workflow's own commands on svcc, in their order.
func githubSteps(t *testing.T, w githubWorkflow) string {
	t.Helper()
	var run []string
	for _, s := range w.Jobs["svcc"].Steps {
		if strings.Contains(s.Run, "svcc ") && s.Name != "install svcc" {
			run = append(run, s.Run)
		}
	}
	if len(run) != 3 || w.Jobs["svcc"].RunsOn == "" || w.On["pull_request"] == nil {
		t.Fatalf("lint, build and diff of a pull request are expected: %q", run)
	}
	return strings.Join(run, "\n")
}

// TestPipelines runs what docs/ci.md has to paste, in a repository with a branch:
// testdata/ci/*.txtar.
func TestPipelines(t *testing.T) {
	w, jobs := pipelines(t)
	job := jobs["services"]
	if job.Image == "" || len(job.BeforeScript) == 0 || len(job.Artifacts.Paths) == 0 {
		t.Fatalf("%+v", job)
	}
	scripts := map[string]string{"github.sh": githubSteps(t, w), "gitlab.sh": strings.Join(job.Script, "\n")}
	env := map[string]string{"MANIFESTS": w.Jobs["svcc"].Env["MANIFESTS"], "SVCC_FLAGS": w.Jobs["svcc"].Env["SVCC_FLAGS"]}
	if env["MANIFESTS"] != job.Variables["MANIFESTS"] || env["SVCC_FLAGS"] != job.Variables["SVCC_FLAGS"] {
		t.Error("the two pipelines have other flags")
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/ci",
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			for name, text := range scripts {
				if err := os.WriteFile(filepath.Join(e.WorkDir, name), []byte("set -eo pipefail\n"+text), 0o600); err != nil {
					return err
				}
			}
			for k, v := range env {
				e.Setenv(k, v)
			}
			e.Setenv("HOME", e.WorkDir)
			return os.CopyFS(e.WorkDir, os.DirFS("testdata/input"))
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "silent": silent},
	})
}
