package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"svcc/golden/lab"
)

// readmeSteps are, by the first line of a block of the README, what has to be done
// before the block is printed: what the README asks for in words, and the command
// where the block shows none.
var readmeSteps = map[string]string{
	"$ iptables-save >": "iptables-restore <rules.txt",
	"$ svcc diff ":      "cp -r docs/example new && sed -i 's/10\\.128\\.1\\.10/10.128.1.11/' new/endpointslices.yaml",
	"ipv4: packet shop/web:": `iptables -t nat -D KUBE-SVC-67NZLRHBNDSAWJRO 1
		iptables-save >changed.txt
		svcc verify changed.txt docs/example --node node-0 --cluster-cidr 10.128.0.0/9 -q`,
	"ipv4: packet shop/old:": `iptables-restore <rules.txt
		iptables -t nat -A KUBE-SERVICES -d 10.96.0.77 -p tcp --dport 80 -m comment --comment shop/old:http -j DNAT --to 10.128.1.10:8080
		iptables-save >changed.txt
		svcc verify changed.txt docs/example --node node-0 --cluster-cidr 10.128.0.0/9 -q`,
	"services.yaml:20:33: error: ": `cp docs/example/services.yaml .
		sed -i 's/{name: http, protocol: TCP, port: 80,/{name: http, protocol: TCP, port: 80800,/' services.yaml
		svcc lint services.yaml --color always`,
	"#! svcc ruleset v1 ": "cat rules.txt",
}

// What the README shows of commands is what they print, where the node is set up as
// it says.
func TestKernelReadmeOutput(t *testing.T) {
	lab.Enter(t)
	dir := t.TempDir()
	asCommand(t, dir)
	if err := os.CopyFS(filepath.Join(dir, "docs/example"), os.DirFS(filepath.Join(repository, "docs/example"))); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(repository, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	done := map[string]bool{}
	for _, block := range codeBlocks(string(text)) {
		said := ""
		for start, command := range readmeSteps {
			if strings.HasPrefix(block, start) {
				said, done[start] = shell(dir, command), true
			}
		}
		for _, part := range strings.Split("\n"+block, "\n$ ") {
			shown := part
			if strings.HasPrefix(block, "$ ") && part != "" {
				command, output, _ := strings.Cut(part, "\n")
				said, shown = shell(dir, command), output
			}
			if said != "" && !showsInOrder(said, shown) {
				t.Errorf("shown is\n%s\nprinted is\n%s", part, said)
			}
		}
	}
	for start := range readmeSteps {
		if !done[start] {
			t.Errorf("the README has no block that begins with %q", start)
		}
	}
}

// shell gives what a command prints, without colours. Its exit code is not looked at:
// a difference is one as well.
func shell(dir, command string) string {
	cmd := exec.Command("sh", "-c", command)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	said, _ := cmd.CombinedOutput()
	return regexp.MustCompile(`\x1b\[[0-9;]*m`).ReplaceAllString(string(said), "")
}

// showsInOrder says that the lines of shown are those of said, from one of them on, with
// others between them only where shown has "..."; at the end of a line that stands for
// its rest. What svcc says on standard error may stand anywhere.
func showsInOrder(said, shown string) bool {
	out, gap := withoutStderr(said), true
	for line := range strings.Lines(shown) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "svcc: ") && !strings.Contains(said, line+"\n") {
			return false
		}
	}
	for _, line := range withoutStderr(shown) {
		if line == "..." {
			gap = true
			continue
		}
		i := slices.IndexFunc(out, func(s string) bool { return sameLine(s, line) })
		if i < 0 || i > 0 && !gap {
			return false
		}
		out, gap = out[i+1:], false
	}
	return true
}

func sameLine(said, shown string) bool {
	start, cut := strings.CutSuffix(shown, "...")
	return said == shown || cut && strings.HasPrefix(said, start)
}

// withoutStderr are the lines of a text but those that svcc says on standard error.
func withoutStderr(text string) []string {
	return slices.DeleteFunc(strings.Split(strings.TrimSuffix(text, "\n"), "\n"), func(s string) bool { return s == "" || strings.HasPrefix(s, "svcc: ") })
}

// codeBlocks are the fenced blocks of a document in Markdown.
func codeBlocks(text string) (out []string) {
	for _, m := range regexp.MustCompile("(?ms)^```[a-z]*\n(.*?)^```$").FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	return out
}
