package cli

import (
	"bytes"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"svcc/compiler"
)

// appliedRules are those of an apply, which knows every address of the node.
func appliedRules(t *testing.T, inputs []string) string {
	t.Helper()
	o, err := BuildOptions(append([]string{"--mode=ipvs", "--node=node-a", "--cluster-cidr=10.244.0.0/16"}, inputs...), "")
	if err != nil {
		t.Fatal(err)
	}
	o.LocalAddrs = []netip.Addr{netip.MustParseAddr("192.0.2.77"), netip.MustParseAddr("2001:db8::77")}
	r, err := compiler.Compile(o, nil)
	if err != nil || r.Units == nil {
		t.Fatal(err, r.Diagnostics)
	}
	rs, err := r.Ruleset(false)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "rules")
	if err := os.WriteFile(file, rs.Marshal(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Elsewhere, what an apply made is read for the node that it is of: node ports
// answer at addresses that no manifest tells.
func TestRulesKnowTheNode(t *testing.T) {
	inputs := []string{"testdata/input/web.yaml", "testdata/input/shop.yaml", "testdata/input/node.yaml"}
	file := appliedRules(t, inputs)
	compile := append([]string{"--node=node-a", "--cluster-cidr=10.244.0.0/16", "-q"}, inputs...)
	for _, c := range []struct {
		args []string
		want string
	}{
		{append([]string{"verify", file}, compile...), "the rules mean what the manifests say\n"},
		{[]string{"diff", file, folder(t, inputs), "-q"}, "nothing differs\n"},
		{[]string{"trace", file, "--from=outside", "--to=192.0.2.77:30443"}, "ipvs -A -t 192.0.2.77:30443 -s rr  => dnat 10.244.1.6:8443\n"},
		{[]string{"trace", file, "--from=node", "--to=192.0.2.77:30443"}, "=> 1/2 to 10.244.2.8:8443 masquerade output=policy\n"},
	} {
		var out, errs bytes.Buffer
		if code := Run(c.args, strings.NewReader(""), &out, &errs); code != exitDone || !strings.Contains(out.String(), c.want) {
			t.Errorf("svcc %s: exit %d\n%s%s", strings.Join(c.args, " "), code, out.String(), errs.String())
		}
	}
}

// folder puts files into one.
func folder(t *testing.T, files []string) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(f)), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
