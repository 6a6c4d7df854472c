package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"svcc/golden/lab"
)

// TestKernelScripts runs testdata/node/*.txtar, as TestScripts does its own, each
// on a node: a network namespace of its own in which iptables is of one flavour.
// $S is --state-dir=state, $C what every compilation needs; [nft] and [legacy] are
// conditions.
func TestKernelScripts(t *testing.T) {
	for _, flavour := range []string{"nft", "legacy"} {
		t.Run(flavour, func(t *testing.T) {
			needFlavour(t, flavour)
			testscript.Run(t, testscript.Params{
				Dir:                 "testdata/node",
				RequireExplicitExec: true,
				RequireUniqueNames:  true,
				Condition:           func(name string) (bool, error) { return name == flavour, nil },
				Setup:               func(e *testscript.Env) error { return setupNode(e, flavour) },
				Cmds: map[string]func(*testscript.TestScript, bool, []string){
					"exits":  exits,
					"silent": silent,
					"note":   note,
					"looks":  looks,
				},
			})
		})
	}
}

// needFlavour skips a test where there are no namespaces or tools, except where
// there must be.
func needFlavour(t *testing.T, flavour string) {
	t.Helper()
	lab.Need(t, lab.Root(), lab.Tools("xtables-"+flavour+"-multi"))
}

// setupNode runs in the script's goroutine, whose thread it takes out of the
// machine's network for good.
func setupNode(e *testscript.Env, flavour string) error {
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return err
	}
	if err := os.CopyFS(e.WorkDir, os.DirFS("testdata/input")); err != nil {
		return err
	}
	multi, err := exec.LookPath("xtables-" + flavour + "-multi")
	if err != nil {
		return err
	}
	// Links to the machine's own tools: a name into which no script writes.
	bin := filepath.Join(e.WorkDir, ".tools")
	if err := os.Mkdir(bin, 0o755); err != nil {
		return err
	}
	for _, name := range []string{"iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore"} {
		if err := os.Symlink(multi, filepath.Join(bin, name)); err != nil {
			return err
		}
	}
	e.Setenv("PATH", bin+string(os.PathListSeparator)+e.Getenv("PATH"))
	e.Setenv("XTABLES_LOCKFILE", filepath.Join(e.WorkDir, "xtables.lock"))
	e.Values[notes{}] = noted{}
	e.Setenv("NODE_NAME", "node-a")
	e.Setenv("S", "--state-dir=state")
	e.Setenv("C", "--cluster-cidr=10.244.0.0/16")
	return nil
}
