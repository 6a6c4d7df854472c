package doctor_test

import (
	"context"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"svcc/apply"
	"svcc/apply/doctor"
	"svcc/apply/sysctl"
	"svcc/golden/lab"
)

func feed(t *testing.T, stdin, tool string, args ...string) {
	t.Helper()
	cmd := exec.Command(tool, args...)
	cmd.Stdin = strings.NewReader(stdin)
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", tool, err, said)
	}
}

// A real kernel: all that svcc writes can be loaded here, and what is put in
// the way is found, named, and where a setting does it, mended.
func TestKernel(t *testing.T) {
	lab.Enter(t)
	d := &doctor.Doctor{Root: "/", Runner: apply.Exec{}, StateDir: filepath.Join(t.TempDir(), "none"), Programs: both()}
	if _, err := sysctl.Set("/", []sysctl.Sysctl{{Name: "net/ipv4/ip_forward", Value: "0"}, {Name: "net/ipv6/conf/all/forwarding", Value: "0"}}); err != nil {
		t.Fatal(err)
	}
	before := d.Examine(context.Background())
	ignore := []string{"affinity warn", "sysctl.rp_filter warn", "sysctl.bridge.ipv4 warn", "sysctl.bridge.ipv6 warn"} // the machine's
	want := []string{"sysctl.forwarding.ipv4 fail", "sysctl.forwarding.ipv6 fail"}
	compare := func(when string, findings []doctor.Finding, want []string) {
		t.Helper()
		got := slices.DeleteFunc(amiss(findings), func(s string) bool { return slices.Contains(ignore, s) })
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v\n%+v", when, got, want, findings)
		}
	}
	compare("a new namespace", before, want)
	if n := count(before, "kernel."); n != 20 {
		t.Errorf("%d kinds of rules were tried, want 10 a family", n)
	}
	if _, err := d.Fix(before); err != nil {
		t.Fatal(err)
	}
	compare("mended", d.Examine(context.Background()), nil)

	feed(t, "*filter\n:FORWARD DROP\nCOMMIT\n", "iptables-restore")
	feed(t, "table inet other { chain f { type filter hook forward priority 0; policy drop; }\n}\n", "nft", "-f", "-")
	feed(t, "*nat\n:KUBE-SERVICES - [0:0]\n-A KUBE-SERVICES -j RETURN\nCOMMIT\n", otherFlavour(t)+"-restore")
	compare("with others in the way", d.Examine(context.Background()), []string{"flavours.ipv4 fail", "policies.ipv4 warn", "policies.nftables warn"})
}

// otherFlavour is the flavour that iptables is not.
func otherFlavour(t *testing.T) string {
	t.Helper()
	text, err := exec.Command("iptables", "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "nf_tables") {
		return "iptables-legacy"
	}
	return "iptables-nft"
}

func count(findings []doctor.Finding, prefix string) (n int) {
	for _, f := range findings {
		if strings.HasPrefix(f.ID, prefix) {
			n++
		}
	}
	return n
}
