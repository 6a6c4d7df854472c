package golden

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"svcc/cmd/svcc/cli"
	"svcc/golden/lab"
	"svcc/golden/uml"
)

// virtualNode is a node in IPVS mode on which svcc is run, in the calling thread's
// network namespace.
type virtualNode struct {
	*testing.T
	state string
}

// svcc runs a command line and gives its exit code and what it printed.
func (n virtualNode) svcc(args ...string) (code int, out string) {
	n.Helper()
	var stdout, stderr bytes.Buffer
	code = cli.Run(append(args, "--state-dir="+n.state), strings.NewReader(""), &stdout, &stderr)
	return code, stdout.String() + stderr.String()
}

func (n virtualNode) apply() {
	n.Helper()
	if code, out := n.svcc("apply", inputs("web.yaml"), inputs("shop.yaml"), "--mode=ipvs", "--node=node-a", "--node-ip=192.0.2.10", "--cluster-cidr=10.244.0.0/16", "-q"); code != 0 {
		n.Fatalf("apply: exit code %d\n%s", code, out)
	}
}

func inputs(name string) string { return filepath.Join("../cmd/svcc/cli/testdata/input", name) }

func (n virtualNode) tool(argv ...string) {
	n.Helper()
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		n.Fatalf("%q: %v\n%s", argv, err, out)
	}
}

// everything is what the namespace has, asked for in ways that make nothing.
func (n virtualNode) everything() map[string]string {
	n.Helper()
	out := map[string]string{}
	for _, name := range []string{"ip_tables_names", "ip6_tables_names"} {
		text, err := os.ReadFile("/proc/thread-self/net/" + name)
		out[name] = fmt.Sprint(string(text), err)
	}
	for _, tool := range [][]string{{"ipset", "save"}, {"ipvsadm", "-Sn"}, {"ip", "-o", "address"}} {
		text, err := exec.Command(tool[0], tool[1:]...).CombinedOutput()
		out[tool[0]] = fmt.Sprint(string(text), err)
	}
	return out
}

// looks runs the commands that only look, and compares what is there before and after.
func (n virtualNode) looks(when string) {
	n.Helper()
	manifests := []string{inputs("web.yaml"), "--mode=ipvs", "--node=node-a", "--node-ip=192.0.2.10", "--cluster-cidr=10.244.0.0/16"}
	before := n.everything()
	for _, args := range [][]string{
		{"status"}, {"doctor", "--mode=ipvs"}, {"remove", "--dry-run"},
		append([]string{"diff", "--live"}, manifests...), append([]string{"apply", "--dry-run"}, manifests...),
	} {
		n.svcc(args...)
		after := n.everything()
		if d := cmp.Diff(before, after); d != "" {
			n.Errorf("%s: %q changed the node: %s", when, args, d)
		}
		before = after
	}
}

var serviceLine = regexp.MustCompile(`(?m)^  service (.*)$`)

// In IPVS mode, commands that look change nothing, and status names the services
// that lose a virtual server, an address, an entry of a set or a rule.
func TestKernelVirtualStatus(t *testing.T) {
	uml.Test(t, func(t *testing.T) {
		lab.Enter(t)
		n := virtualNode{t, filepath.Join(t.TempDir(), "state")}
		n.tool("ip", "link", "add", "eth0", "type", "dummy")
		n.tool("ip", "address", "add", "192.0.2.10/24", "dev", "eth0")
		n.tool("ip", "link", "set", "eth0", "up")
		n.looks("on a node that has nothing")
		n.apply()
		n.looks("on a node that is as recorded")
		if code, out := n.svcc("status"); code != 0 || serviceLine.MatchString(out) {
			t.Errorf("as recorded: exit code %d\n%s", code, out)
		}
		for _, c := range []struct {
			change string
			names  string
		}{
			{"ipvsadm -D -t 10.96.0.20:443", "demo/shop:https"},
			{"ipvsadm -d -t 10.96.0.10:80 -r 10.244.2.7:8080", "demo/web:http"},
			{"ip address del 10.96.0.10/32 dev kube-ipvs0", "demo/web:http"},
			// demo/empty has an entry too; and it has no endpoints, but packets that
			// somebody marked are masqueraded all the same.
			{"ipset flush KUBE-CLUSTER-IP", "demo/empty:x demo/shop:https demo/web:http"},
			{"iptables -t nat -F KUBE-POSTROUTING", "demo/empty:x demo/shop:https demo/web:http"},
		} {
			n.tool(strings.Fields(c.change)...)
			code, out := n.svcc("status", "--rules")
			var got []string
			for _, m := range serviceLine.FindAllStringSubmatch(out, -1) {
				got = append(got, m[1])
			}
			if code != 1 || strings.Join(got, " ") != c.names {
				t.Errorf("%s: exit code %d, services %q, want %q\n%s", c.change, code, got, c.names, out)
			}
			n.apply()
		}
	})
}
