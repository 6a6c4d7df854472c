// Package toy has a mode that exists in its tests alone: its text is the Graph. It
// is in svcc by one row of the table of modes, and shows what a new mode has to bring.
package toy

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"svcc/cmd/svcc/cli"
	"svcc/compiler"
	"svcc/emit"
	"svcc/emit/mode"
	"svcc/golden"
	"svcc/ir"
)

// run is one command line of svcc in a folder's files.
func run(t *testing.T, code int, args ...string) string {
	t.Helper()
	var out, err bytes.Buffer
	if got := cli.Run(args, strings.NewReader(""), &out, &err); got != code {
		t.Errorf("svcc %s: exit %d, want %d\n%s%s", strings.Join(args, " "), got, code, &out, &err)
	}
	return out.String()
}

// Each trace line of each golden case holds in the toy mode, in what its ruleset file
// says, and the commands work with that file as with any.
func TestCases(t *testing.T) {
	files, err := filepath.Glob("../cases/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no cases", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			c, err := golden.ReadCase(file)
			if err != nil {
				t.Fatal(err)
			}
			if len(c.Traces) > 0 {
				tried(t, c)
			}
		})
	}
}

func tried(t *testing.T, c *golden.Case) {
	dir := t.TempDir()
	if err := c.Unpack(dir); err != nil {
		t.Fatal(err)
	}
	input := inFolder(dir, append(slices.Clone(c.Flags), c.Inputs()...))
	rules := filepath.Join(dir, "rules")
	code := 0
	if slices.Contains(c.Flags, "--keep-going") {
		code = 1 // a Service is left out
	}
	run(t, code, append([]string{"build", "-q", "--mode", row.Name, "-o", rules}, input...)...)
	rs := read(t, rules)
	for _, f := range rs.Head.Families {
		judge(t, c, rs, f)
	}
	if out := run(t, 0, "diff", rules, rules); !strings.Contains(out, "nothing differs") {
		t.Errorf("diff of a file with itself:\n%s", out)
	}
	run(t, code, append([]string{"verify", rules}, input...)...)
}

// inFolder names the files among arguments by their folder.
func inFolder(dir string, args []string) []string {
	for i, a := range args {
		if _, err := os.Stat(filepath.Join(dir, a)); err == nil {
			args[i] = filepath.Join(dir, a)
		}
		if flag, file, ok := strings.Cut(a, "="); ok && flag == "--config" { // a file as well
			args[i] = flag + "=" + filepath.Join(dir, file)
		}
	}
	return args
}

func read(t *testing.T, file string) *emit.Ruleset {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	rs, err := emit.Unmarshal(text)
	if err != nil {
		t.Fatal(err)
	}
	if err := compiler.Prove(nil, rs); err != nil {
		t.Error(err)
	}
	return rs
}

// judge has the file's text of a family walked.
func judge(t *testing.T, c *golden.Case, rs *emit.Ruleset, f ir.Family) {
	programs, err := rs.ReadPrograms()
	if err != nil {
		t.Fatal(err)
	}
	p := programs[slices.IndexFunc(programs, func(p *ir.Program) bool { return p.Family == f })]
	own := slices.DeleteFunc(slices.Clone(rs.Sections), func(s emit.Section) bool { return s.Family != f })
	w, err := mode.Named(rs.Head.Mode).Backend.Parse(f, own, true)
	if err != nil {
		t.Fatal(err)
	}
	world := golden.WorldOf(p)
	for _, line := range c.Traces {
		if line.Family() != f {
			continue
		}
		o, err := w.Walk(world.Packet(line), world.Host(line))
		if err == nil {
			err = line.Judge("the toy", o)
		}
		if err != nil {
			t.Error(err)
		}
	}
}

const example = "../../docs/example"

// What people ask of rules is answered of the toy's as of any.
func TestCommands(t *testing.T) {
	dir := t.TempDir()
	rules, fewer := filepath.Join(dir, "rules"), filepath.Join(dir, "fewer")
	flags := []string{"--node", "node-0", "--cluster-cidr", "10.128.0.0/9"}
	run(t, 0, append([]string{"build", "-q", example, "--mode", row.Name, "-o", rules}, flags...)...)
	has(t, run(t, 0, append([]string{"explain", "shop/web", example, "--mode", row.Name}, flags...)...), "shop/web:http", "flows ipv4")
	has(t, run(t, 0, "trace", "--from", "pod", "--to", "shop/web", rules), "LOOKUP toy", "graph cluster-ip")
	has(t, run(t, 1, append([]string{"diff", rules, smaller(t)}, flags...)...), "kube-system/kube-dns:dns/udp")
	run(t, 0, append([]string{"build", "-q", smaller(t), "--mode", row.Name, "-o", fewer}, flags...)...)
	has(t, run(t, 1, "diff", rules, fewer), "kube-system/kube-dns:dns/udp")
	has(t, run(t, 1, append([]string{"verify", fewer, example}, flags...)...), "kube-system/kube-dns:dns/udp")
	has(t, run(t, 1, append([]string{"verify", rules, smaller(t)}, flags...)...), "kube-system/kube-dns:dns/udp")
}

// smaller is the example without its last EndpointSlice, that of kube-dns.
func smaller(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"services.yaml", "endpointslices.yaml", "nodes.yaml"} {
		text, err := os.ReadFile(filepath.Join(example, name))
		if err != nil {
			t.Fatal(err)
		}
		if name == "endpointslices.yaml" {
			text = text[:bytes.LastIndex(text, []byte("---"))]
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func has(t *testing.T, out string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(out, w) {
			t.Errorf("%q is not in\n%s", w, out)
		}
	}
}
