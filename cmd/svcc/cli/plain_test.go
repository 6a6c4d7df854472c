package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNothingReachesTheTerminal holds what commands say of names, files and
// rules to printable text: none of them is svcc's own.
func TestNothingReachesTheTerminal(t *testing.T) {
	const evil = "\x1b]0;x\x07\u009b31m"
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	web := write("web.yaml", "apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: demo}\nspec: {clusterIP: 10.96.0.20, ports: [{port: 80}]}\n")
	named := write("a"+evil+".yaml", "apiVersion: \"v2\\e[31m\"\nkind: Service\n")
	dump := write("dump", "*nat\n:PREROUTING ACCEPT [0:0]\n:KUBE-SERVICES - [0:0]\n-A PREROUTING -m comment --comment \""+evil+"\" -j KUBE-SERVICES\n"+
		"-A PREROUTING -m odd --odd \""+evil+"\"\nCOMMIT\n")
	for _, args := range [][]string{
		{"lint", named},
		{"build", dir + "/" + evil},
		{"build", web, "--mode", evil},
		{"build", web, "-o", dir + "/none/" + evil},
		{"explain", "demo/" + evil, web},
		{"trace", dump, "--from", "outside", "--to", "10.96.0.20:80", "--in", evil},
		{"verify", dump, web},
		{"status", "--state-dir", web + "/" + evil},
		{"doctor", web + "/" + evil},
	} {
		var said bytes.Buffer
		Run(args, strings.NewReader(""), &said, &said)
		if said.Len() == 0 || strings.ContainsAny(said.String(), "\x1b\x07\u009b") {
			t.Errorf("%q: %q", args, said.String())
		}
	}
}
