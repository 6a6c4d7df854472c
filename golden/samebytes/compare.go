package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// builds makes svcc of the commit and of the working tree.
func builds(dir, base string) (out [2]string, err error) {
	tree := filepath.Join(dir, "base")
	if err := command("", "git", "worktree", "add", "--quiet", "--detach", tree, base); err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, command("", "git", "worktree", "remove", "--force", tree)) }()
	for i, from := range []string{tree, ""} {
		out[i] = filepath.Join(dir, fmt.Sprintf("svcc-%d", i))
		if err := command(from, "go", "build", "-buildvcs=false", "-trimpath", "-o", out[i], "./cmd/svcc"); err != nil {
			return out, err
		}
	}
	return out, nil
}

func command(dir, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, said)
	}
	return nil
}

// tally counts what is compared and prints what differs.
type tally struct {
	sync.Mutex
	out                               io.Writer
	runs, refused, texts, differences int
}

// comparer runs both builds on inputs.
type comparer struct {
	builds   [2]string
	dir      string
	messages bool
	*tally
}

// outputs are the texts of one run by name: its files, "-" for standard output,
// "exit code", and "messages" for standard error.
type outputs map[string][]byte

// one compares all runs for an input; before is another, which diff compares it with.
func (c comparer) one(in, before input) error {
	for i, run := range buildRuns(in.number) {
		out, err := c.both(in, run, append(append([]string{"build", "--no-proof"}, in.args...), run...))
		if err != nil {
			return err
		}
		if !c.messages || i != 0 {
			continue
		}
		for _, args := range messageRuns(in, before, out) {
			if _, err := c.both(in, args[:1], args); err != nil {
				return err
			}
		}
	}
	return nil
}

// target stands for the output folder among a run's arguments.
const target = "OUT/"

// buildRuns are the flags of each build of the n-th input. Every mode and level
// writes a folder; what only chooses among the same texts takes turns.
func buildRuns(n int) (runs [][]string) {
	modes := []string{"--mode=iptables", "--mode=ipvs"}
	for _, mode := range modes {
		for level := range 3 {
			runs = append(runs, []string{mode, fmt.Sprintf("-O%d", level), "-o", target})
		}
	}
	level := fmt.Sprintf("-O%d", n%3)
	if n/3%2 == 0 {
		return append(runs, []string{modes[n/6%2], level, "--families=ipv4", "--hooks=no", "-o", target + "ipv4.rules"})
	}
	return append(runs, []string{modes[n/6%2], level, "--families=ipv6", "--bare", "-o", "-"})
}

// programLine is a service port of the Program in a ruleset file.
var programLine = regexp.MustCompile(`(?m)^#:   (\S+/\S+)/(?:tcp|udp|sctp)$`)

// messageRuns are command lines that speak about an input, and about what was built
// of it.
func messageRuns(in, before input, built outputs) [][]string {
	runs := [][]string{append([]string{"lint", "-v"}, in.args...), append([]string{"lint", "-v", "--strict", "--mode=ipvs"}, in.args...)}
	ports := programLine.FindAllSubmatch(built["svcc.rules"], -1)
	for i, p := range ports {
		if i == 0 || i == len(ports)/2 {
			runs = append(runs, append([]string{"explain", string(p[1])}, in.args...), append([]string{"explain", string(p[1]), "--mode=ipvs"}, in.args...))
		}
	}
	for _, format := range []string{"text", "markdown", "json"} {
		runs = append(runs, append([]string{"diff", before.dir, in.dir, "--rules", "--format=" + format}, in.flags...))
	}
	return runs
}

// both runs one command line with each build and compares. It gives what the first
// wrote.
func (c comparer) both(in input, name, args []string) (outputs, error) {
	var got [2]outputs
	for i, svcc := range c.builds {
		var err error
		if got[i], err = c.run(svcc, in, args); err != nil {
			return nil, err
		}
	}
	c.count(got)
	for _, file := range slices.Sorted(maps.Keys(merged(got))) {
		if a, b := got[0][file], got[1][file]; !bytes.Equal(a, b) {
			c.differ(fmt.Sprintf("%s: %s: %s: %s", in.name, strings.Join(name, " "), file, firstDifference(a, b)))
		}
	}
	return got[0], nil
}

func merged(got [2]outputs) outputs {
	all := maps.Clone(got[0])
	maps.Copy(all, got[1])
	return all
}

func (c comparer) count(got [2]outputs) {
	c.Lock()
	defer c.Unlock()
	c.runs++
	c.texts += len(merged(got))
	if got[0].nothing() {
		c.refused++
	}
}

// nothing says that a run wrote neither a file nor to standard output.
func (o outputs) nothing() bool {
	for name, text := range o {
		if name != "exit code" && name != "messages" && (name != "-" || len(text) > 0) {
			return false
		}
	}
	return true
}

func (c comparer) differ(line string) {
	c.Lock()
	defer c.Unlock()
	c.differences++
	fmt.Fprintln(c.out, line)
}

// run runs one build where the input lies, so that paths in messages are the same.
func (c comparer) run(svcc string, in input, args []string) (outputs, error) {
	dir, err := os.MkdirTemp(c.dir, "out-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	args = slices.Clone(args)
	for i, a := range args {
		if rest, ok := strings.CutPrefix(a, target); ok {
			args[i] = dir + "/" + rest
		}
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(svcc, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = in.dir, &stdout, &stderr
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1") // as many run as there are processors
	err = cmd.Run()
	if ended := (*exec.ExitError)(nil); err != nil && !errors.As(err, &ended) {
		return nil, err
	}
	out := outputs{"-": stdout.Bytes(), "exit code": fmt.Append(nil, cmd.ProcessState.ExitCode())}
	if c.messages {
		out["messages"] = bytes.ReplaceAll(stderr.Bytes(), []byte(dir), []byte(strings.TrimSuffix(target, "/")))
	}
	return out, readAll(dir, out)
}

func readAll(dir string, out outputs) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		if out[f.Name()], err = os.ReadFile(filepath.Join(dir, f.Name())); err != nil {
			return err
		}
	}
	return nil
}

// firstDifference says where two texts part.
func firstDifference(a, b []byte) string {
	old, now := bytes.SplitAfter(a, []byte("\n")), bytes.SplitAfter(b, []byte("\n"))
	i := 0
	for i < len(old) && i < len(now) && bytes.Equal(old[i], now[i]) {
		i++
	}
	at := func(lines [][]byte) string {
		if i >= len(lines) {
			return "nothing"
		}
		return fmt.Sprintf("%.120q", lines[i])
	}
	return fmt.Sprintf("line %d: %s, now %s", i+1, at(old), at(now))
}
