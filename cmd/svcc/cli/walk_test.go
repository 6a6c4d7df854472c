package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"svcc/golden/lab"
)

// walkSetup makes a node of which the manifests are the example's: a state directory
// that ends with the mount namespace, and no forwarding. A window is confirmed once it is
// open; an apply that ended at once, for nothing differs, has none.
const walkSetup = `mount -t tmpfs none /var/lib && mkdir -m 0755 /var/lib/svcc
ip link set lo up
echo 0 >/proc/sys/net/ipv4/ip_forward
run() { code=0; "$@" || code=$?; echo "=== $code: $*"; }
window() {
  rm -f ended; { run "$@"; touch ended; } &
  until [ -e ended ]; do svcc status >/dev/null 2>&1; [ $? != 6 ] || break; sleep 0.1; done
  [ -e ended ] || run svcc confirm
  wait
}
`

// waits marks a command that another one has to answer.
var waits = regexp.MustCompile(`^svcc .*--confirm-timeout`)

// walk is a script of the commands on svcc in a document, each in its place.
func walk(text string) string {
	var b strings.Builder
	b.WriteString(walkSetup)
	for _, block := range codeBlocks(text) {
		for line := range strings.Lines(block) {
			line, _, _ = strings.Cut(strings.TrimSpace(line), " #")
			switch {
			case !strings.HasPrefix(line, "svcc ") && !strings.HasPrefix(line, "for ") && line != "done":
			case strings.Contains(line, "..."), line == "svcc confirm": // a window confirms
			case waits.MatchString(line):
				fmt.Fprintln(&b, "window", line)
			case strings.HasPrefix(line, "svcc "):
				fmt.Fprintln(&b, "run", line)
			default:
				fmt.Fprintln(&b, line)
			}
		}
	}
	return b.String()
}

// Whoever walks through provisioning and applying from top to bottom, each command in
// its turn, meets none that fails, but for those that documents say so of.
func TestKernelDocumentsAreWalked(t *testing.T) {
	lab.Enter(t)
	for _, name := range []string{"docs/provisioning.md", "docs/apply.md"} {
		t.Run(filepath.Base(name), func(t *testing.T) {
			dir := t.TempDir()
			asCommand(t, dir)
			exampleRules(t, dir)
			if err := os.CopyFS(filepath.Join(dir, "manifests"), os.DirFS(filepath.Join(repository, "docs/example"))); err != nil {
				t.Fatal(err)
			}
			script := strings.NewReplacer("/etc/svcc/node.rules", "node-0.rules", " node.rules", " node-0.rules",
				"/usr/local/bin/svcc", "svcc", "10.244.0.0/16", "10.128.0.0/9").Replace(walk(document(t, name)))
			cmd := exec.Command("unshare", "-n", "-m", "sh", "-c", script)
			cmd.Dir, cmd.Env = dir, append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "NODE_NAME=node-0")
			said, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, said)
			}
			codes := regexp.MustCompile(`(?m)^=== (\d+): (.*)$`).FindAllStringSubmatch(string(said), -1)
			if len(codes) < 6 {
				t.Errorf("only %d commands ran", len(codes))
			}
			for _, m := range codes {
				if want := exampleCode(m[2]); m[1] != want {
					t.Errorf("%s: exit code %s, want %s\n%s", m[2], m[1], want, said)
				}
			}
		})
	}
}

// exampleCode is the exit code of a command in its place: forwarding is off, which
// doctor has to find; and before the second ruleset there is nothing to go back to.
func exampleCode(command string) string {
	switch {
	case command == "svcc doctor node-0.rules":
		return "1"
	case command == "svcc rollback":
		return "3"
	}
	return "0"
}
