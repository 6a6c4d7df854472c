package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"svcc/golden/lab"
)

const repository = "../../.."

// exampleRules builds the example cluster's rules for a node.
func exampleRules(t *testing.T, dir string) string {
	t.Helper()
	file := filepath.Join(dir, "node-0.rules")
	var said strings.Builder
	args := []string{"build", "-q", "--node", "node-0", "--cluster-cidr", "10.128.0.0/9", "-o", file, filepath.Join(repository, "docs/example")}
	if code := Run(args, nil, &said, &said); code != exitDone {
		t.Fatalf("svcc build: %d\n%s", code, said.String())
	}
	return file
}

// asCommand gives this test's binary the name by which it is svcc.
func asCommand(t *testing.T, dir string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "svcc")
	if err := os.Link(self, path); err != nil {
		text, err := os.ReadFile(self)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// inFlavour gives a folder in which iptables is of one flavour.
func inFlavour(t *testing.T, flavour string) string {
	t.Helper()
	real, err := exec.LookPath("xtables-" + flavour + "-multi")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, tool := range []string{"iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore"} {
		if err := os.Symlink(real, filepath.Join(dir, tool)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// What the manifests and the unit say of capabilities is so.
func TestKernelLeastPrivileges(t *testing.T) {
	lab.Enter(t)
	dir := t.TempDir()
	svcc, rules := asCommand(t, dir), exampleRules(t, dir)
	const rehearsal = "not tried in a network namespace"
	for _, c := range []struct {
		flavour, caps string
		code          int
		leftOut       bool // the rehearsal
	}{
		{"nft", "+net_admin,+sys_admin", exitDone, false},
		{"nft", "+net_admin", exitDone, true},
		{"nft", "+net_raw", exitRefused, false},
		{"legacy", "+net_admin,+net_raw,+sys_admin", exitDone, false},
		{"legacy", "+net_admin,+net_raw", exitDone, true},
		{"legacy", "+net_admin", exitRefused, true}, // by the first write: what has no tables yet is not read
	} {
		cmd := exec.Command("unshare", "-n", "setpriv", "--no-new-privs", "--bounding-set=-all,"+c.caps,
			svcc, "apply", "--state-dir", t.TempDir(), "--node", "node-0", rules)
		cmd.Env = append(os.Environ(), "PATH="+inFlavour(t, c.flavour)+":"+os.Getenv("PATH"))
		said, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != c.code {
			t.Errorf("iptables-%s with %s: exit code %d, want %d\n%s", c.flavour, c.caps, code, c.code, said)
		}
		if got := strings.Contains(string(said), rehearsal); got != c.leftOut {
			t.Errorf("iptables-%s with %s: the rehearsal is left out: %v, want %v\n%s", c.flavour, c.caps, got, c.leftOut, said)
		}
	}
}

// The image's script puts svcc on the host and runs it there, with no more
// capabilities than the manifests give.
func TestKernelOnHost(t *testing.T) {
	lab.Enter(t)
	dir := t.TempDir()
	svcc, rules := asCommand(t, dir), exampleRules(t, dir)
	script, err := filepath.Abs(filepath.Join(repository, "deploy/on-host.sh"))
	if err != nil {
		t.Fatal(err)
	}
	// The machine's own file system stands for the host's, read-only but for
	// what the manifests mount.
	const setUp = `set -e
mount --make-rprivate /
mkdir -p "$D/host" "$D/state" && touch "$D/lock"
mkdir -p /var/lib/svcc
mount --bind / "$D/host" && mount -o remount,bind,ro "$D/host"
mount --rbind /proc "$D/host/proc"
mount --bind "$D/state" "$D/host/var/lib/svcc"
mount --rbind /run "$D/host/run"
cd "$D" && exec setpriv --no-new-privs --bounding-set=-all,+net_admin,+net_raw,+sys_chroot sh "$SCRIPT" "$@"
`
	made := !isDir("/var/lib/svcc")
	t.Cleanup(func() {
		if made {
			os.Remove("/var/lib/svcc")
		}
	})
	if err := exec.Command("gzip", rules).Run(); err != nil { // in the form for large ones
		t.Fatal(err)
	}
	run := func(args ...string) string {
		cmd := exec.Command("unshare", append([]string{"-m", "sh", "-c", setUp, "sh"}, args...)...)
		cmd.Env = append(os.Environ(), "D="+dir, "HOST="+dir+"/host", "SVCC="+svcc, "SCRIPT="+script, "RULES="+rules, "NODE_NAME=node-0", "XTABLES_LOCKFILE=/var/lib/svcc/xtables.lock")
		said, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("on-host.sh %v: %v\n%s", args, err, said)
		}
		return string(said)
	}
	if said := run("apply", "-"); !strings.Contains(said, "done") {
		t.Errorf("apply says %q", said)
	}
	if said := run("status"); !strings.Contains(said, "as recorded") {
		t.Errorf("status says %q", said)
	}
	if save, err := exec.Command("iptables-save", "-t", "nat").Output(); err != nil || !strings.Contains(string(save), ":KUBE-SVC-") {
		t.Errorf("the rules are not in the namespace: %v\n%s", err, save)
	}
}

// commandLines finds what a document tells people to run.
var commandLines = regexp.MustCompile(`(?m)^\s*(?:(?:\$|sudo|ExecStart=\S*/|ExecReload=\S*/|RUN) ?)*svcc ((?:[^\n\\]|\\\n)*)`)

// Every svcc command line in documents and units exists, with its flags.
func TestDocumentedCommandsExist(t *testing.T) {
	var files []string
	for _, pattern := range []string{"README.md", "docs/*.md", "deploy/*"} {
		found, err := filepath.Glob(filepath.Join(repository, pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	total := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range commandsIn(file, string(text)) {
			total++
			if err := parses(line); err != nil {
				t.Errorf("%s: svcc %s: %v", file, line, err)
			}
		}
	}
	if total < 10 {
		t.Errorf("only %d command lines were found", total)
	}
	for _, wrong := range []string{"aply x", "apply --no-such-flag x", "build"} {
		if parses(wrong) == nil {
			t.Errorf("svcc %s: taken for a command that exists", wrong)
		}
	}
}

// commandsIn gives the arguments of svcc in a file: in Markdown, those in
// indented or fenced blocks only.
func commandsIn(file, text string) (out []string) {
	if filepath.Ext(file) == ".md" {
		text = strings.Join(codeBlocks(text), "\n")
	}
	for _, m := range commandLines.FindAllStringSubmatch(text, -1) {
		out = append(out, strings.ReplaceAll(m[1], "\\\n", " "))
	}
	return out
}

// parses says whether a command line is one, without running it.
func parses(line string) error {
	line, _, _ = strings.Cut(line, " #")
	for _, end := range []string{" |", " ||", " &&", " >", " <", ";"} {
		line, _, _ = strings.Cut(line, end)
	}
	cmd, rest, err := newRoot(streams{}).Find(strings.Fields(line))
	if err != nil {
		return err
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	if cmd.Args == nil {
		return nil
	}
	return cmd.Args(cmd, cmd.Flags().Args())
}
