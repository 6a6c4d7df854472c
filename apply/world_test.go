package apply_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"svcc/apply"
	"svcc/apply/fake"
	"svcc/apply/iptables"
	"svcc/apply/state"
	"svcc/compiler"
	"svcc/emit"
	"svcc/ir"
)

// service is a dual-stack Service with an endpoint a family for each number, or
// without endpoints, so that it has rules in filter instead of nat.
func service(name string, number int, endpoints ...int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `apiVersion: v1
kind: Service
metadata: {name: %[1]s, namespace: demo}
spec:
  clusterIP: 10.96.0.%[2]d
  clusterIPs: [10.96.0.%[2]d, "fd00:96::%[2]d"]
  ipFamilies: [IPv4, IPv6]
  ports: [{name: p, port: 80, targetPort: 8080}]
---
`, name, number)
	for _, f := range []struct{ family, format string }{{"IPv4", "10.244.1.%d"}, {"IPv6", "fd00:244::%d"}} {
		fmt.Fprintf(&b, `apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %[1]s-%[3]s, namespace: demo, labels: {kubernetes.io/service-name: %[1]s}}
addressType: %[2]s
ports: [{name: p, port: 8080}]
endpoints:
`, name, f.family, strings.ToLower(f.family))
		for _, n := range endpoints {
			fmt.Fprintf(&b, "- addresses: [%q]\n", fmt.Sprintf(f.format, n))
		}
		if len(endpoints) == 0 {
			b.WriteString("- addresses: [" + fmt.Sprintf("%q", fmt.Sprintf(f.format, 250)) + "]\n  conditions: {ready: false}\n")
		}
		b.WriteString("---\n")
	}
	return b.String()
}

// nodePort gives the Service a node port.
func nodePort(manifest string, port int) string {
	manifest = strings.Replace(manifest, "spec:\n", "spec:\n  type: NodePort\n", 1)
	return strings.Replace(manifest, "targetPort: 8080", fmt.Sprintf("targetPort: 8080, nodePort: %d", port), 1)
}

// build compiles manifests.
func build(t testing.TB, docs ...string) *emit.Ruleset {
	t.Helper()
	input := strings.Join(docs, "")
	if text, ok := built.Load(input); ok {
		rs, err := emit.Unmarshal(text.([]byte))
		if err != nil {
			t.Fatal(err)
		}
		return rs
	}
	o := compiler.NewOptions()
	o.Level = 0 // tests name its chains
	o.Paths, o.Stdin = []string{"-"}, strings.NewReader(input)
	cidr := "10.244.0.0/16,fd00:244::/64"
	o.Flags.ClusterCIDR = &cidr
	r, err := compiler.Compile(o, nil)
	if err != nil || r.Units == nil {
		t.Fatalf("%v, %v", err, r.Diagnostics)
	}
	rs, err := r.Ruleset(false)
	if err != nil {
		t.Fatal(err)
	}
	built.Store(input, rs.Marshal())
	return rs
}

// built are the rulesets that were built already.
var built sync.Map

// oldState and newState differ in every table of both families, by chains that
// come, go and change.
func oldState(t testing.TB) *emit.Ruleset {
	return build(t, service("web", 1, 5, 6), service("gone", 2, 7), service("empty", 3))
}

func newState(t testing.TB) *emit.Ruleset {
	return build(t, service("web", 1, 6, 8), service("empty", 3, 9), service("late", 4), service("more", 5, 10))
}

// foreign is what others have in the tables.
const foreign = `*filter
:INPUT DROP [3:180]
:FORWARD ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:MINE - [0:0]
-A INPUT -i lo -j ACCEPT
-A FORWARD -j MINE
-A MINE -p tcp --dport 22 -j ACCEPT
COMMIT
*nat
:PREROUTING ACCEPT [0:0]
:INPUT ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:POSTROUTING ACCEPT [0:0]
-A POSTROUTING -o eth9 -j MASQUERADE
COMMIT
`

// world is a node with a fake kernel.
type world struct {
	t      testing.TB
	kernel *fake.Kernel
	path   string // of the state directory
	root   string // of proc
	log    bytes.Buffer
}

func newWorld(t testing.TB) *world {
	t.Helper()
	dir := quickDir(t)
	w := &world{t: t, kernel: fake.New(), path: filepath.Join(dir, "state"), root: filepath.Join(dir, "root")}
	w.setSysctl("0")
	for _, tool := range []string{"iptables-restore", "ip6tables-restore"} {
		in := apply.Input{Tool: tool, Args: []string{"--noflush", "--counters"}, Stdin: []byte(foreign)}
		if _, err := w.kernel.Run(context.Background(), in); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// quickDir is a folder where syncing costs nothing, if there is one.
func quickDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "svcc-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func (w *world) sysctlFile() string {
	return filepath.Join(w.root, "proc/sys/net/ipv4/conf/all/route_localnet")
}

func (w *world) setSysctl(value string) {
	w.t.Helper()
	if err := os.MkdirAll(filepath.Dir(w.sysctlFile()), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(w.sysctlFile(), []byte(value+"\n"), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) sysctl() string {
	text, err := os.ReadFile(w.sysctlFile())
	if err != nil {
		w.t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// engine is a new process: nothing but the kernel and the directory is shared.
func (w *world) engine(with ...func(*apply.Engine)) *apply.Engine {
	e := &apply.Engine{
		Target:  &iptables.Target{Runner: w.kernel},
		State:   state.At(w.path),
		Log:     slog.New(slog.NewTextHandler(&w.log, nil)),
		Options: apply.Options{Mode: "iptables", Who: "tester"},
		Root:    w.root,
	}
	for _, f := range with {
		f(e)
	}
	return e
}

func takeOver(e *apply.Engine)    { e.Options.TakeOver = true }
func allowShrink(e *apply.Engine) { e.Options.AllowShrink = true }
func dryRun(e *apply.Engine)      { e.Options.DryRun = true }

// apply must work, nil stands for Remove.
func (w *world) apply(rs *emit.Ruleset, with ...func(*apply.Engine)) apply.Report {
	w.t.Helper()
	e := w.engine(append(with, allowShrink)...)
	var r apply.Report
	var err error
	if rs == nil {
		r, err = e.Remove(context.Background())
	} else {
		r, err = e.Apply(context.Background(), rs)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func (w *world) record() state.Record {
	w.t.Helper()
	r, err := state.At(w.path).Record()
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func (w *world) journal() *state.Journal {
	w.t.Helper()
	j, err := state.At(w.path).Journal()
	if err != nil {
		w.t.Fatal(err)
	}
	return j
}

var counters = regexp.MustCompile(`\[\d+:\d+\] ?`)

// tables gives each table's text, without the counters: a rule that is written
// again starts at zero. (Foreign counters: TestForeignCounters.)
func (w *world) tables() map[string]string {
	out := map[string]string{}
	for _, f := range ir.Families {
		for _, name := range []string{"filter", "nat"} {
			out[f.String()+" "+name] = counters.ReplaceAllString(w.kernel.Save(f, name), "")
		}
	}
	return out
}

// whole says which of several states the kernel holds; "" if none as a whole. In
// that case each table must be of one of them.
func (w *world) whole(states map[string]map[string]string) string {
	w.t.Helper()
	now := w.tables()
	for name, s := range states {
		if maps.Equal(now, s) {
			return name
		}
	}
	for table, text := range now {
		known := false
		for _, s := range states {
			known = known || s[table] == text
		}
		if !known {
			w.t.Errorf("%s is of no state:\n%s", table, text)
		}
	}
	return ""
}

// mustFail wants an error of one kind.
func mustFail(t testing.TB, err, kind error) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("error %v, want %v", err, kind)
	}
}
