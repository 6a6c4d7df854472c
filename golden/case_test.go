package golden

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func writeCase(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

const smallCase = "A pod's packet goes on\nWhy it does.\n-- flags --\n--node a\n--config c.yaml\n-- in.yaml --\n{}\n-- c.yaml --\n{}\n-- trace --\npod -> 1.2.3.4:5 = pass\n"

func TestReadCase(t *testing.T) {
	c, err := ReadCase(writeCase(t, "pods-packet-goes-on.txtar", smallCase))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(c.Flags, "|"); got != "--node|a|--config|c.yaml" {
		t.Errorf("flags %s", got)
	}
	if got := c.Inputs(); len(got) != 1 || got[0] != "in.yaml" {
		t.Errorf("inputs %q", got)
	}
	if c.Name != "A pod's packet goes on" || len(c.Traces) != 1 {
		t.Errorf("%+v", c)
	}
	dir := t.TempDir()
	if err := c.Unpack(dir); err != nil {
		t.Fatal(err)
	}
	if files, _ := filepath.Glob(dir + "/*"); len(files) != 2 {
		t.Errorf("unpacked %q", files)
	}
}

func TestReadCaseErrors(t *testing.T) {
	for want, text := range map[string]string{
		"pods-packet-goes-on.txtar": "Another\n-- in.yaml --\n-- trace --\npod -> 1.2.3.4:5 = pass\n",
		"no input":                  "A pod's packet goes on\n-- trace --\npod -> 1.2.3.4:5 = pass\n",
		"neither":                   "A pod's packet goes on\n-- in.yaml --\n{}\n-- trace --\n# later\n",
		"none that is read":         smallCase + "-- trase --\npod -> 1.2.3.4:5 = drop\n",
		"two sections":              smallCase + "-- trace --\npod -> 1.2.3.4:5 = drop\n",
		"trace line 2":              smallCase + "pod -> 1.2.3.4 = drop\n",
	} {
		_, err := ReadCase(writeCase(t, "pods-packet-goes-on.txtar", text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

// Updating touches the sections that it names and no other byte.
func TestSet(t *testing.T) {
	c, err := ReadCase(writeCase(t, "pods-packet-goes-on.txtar", smallCase+"-- iptables --\n"))
	if err != nil {
		t.Fatal(err)
	}
	c.Set(secIPTables, "*nat\n")
	c.Set(secDiagnostics, "in.yaml:1: note\n")
	c.Set(secIR, "")
	if err := c.Write(); err != nil {
		t.Fatal(err)
	}
	got, _ := os.ReadFile(c.File)
	if want := smallCase + "-- iptables --\n*nat\n-- diagnostics --\nin.yaml:1: note\n"; string(got) != want {
		t.Errorf("got:\n%s", got)
	}
	defer func() {
		if recover() == nil {
			t.Error("the trace could be set")
		}
	}()
	c.Set(secTrace, "pod -> 1.2.3.4:5 = drop\n")
}
