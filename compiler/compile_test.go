package compiler

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"svcc/emit"
	"svcc/emit/mode"
	"svcc/ir"
	"svcc/ir/diag"
)

const web = `apiVersion: v1
kind: Service
metadata: {name: web, namespace: demo}
spec:
  clusterIP: 10.96.0.10
  ports: [{name: http, port: 80}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: demo, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints: [{addresses: [10.244.1.5]}]
`

// bad is a Service with an error in one field.
const bad = `apiVersion: v1
kind: Service
metadata: {name: bad, namespace: demo}
spec:
  clusterIP: 10.96.0.11
  ports: [{name: http, port: 0}]
`

// charted is a Service that no API server has seen: warnings only.
const charted = `apiVersion: v1
kind: Service
metadata: {name: chart, namespace: demo}
spec: {ports: [{name: http, port: 80}]}
`

// input writes documents to a folder and gives options for it.
func input(t *testing.T, docs ...string) Options {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "in.yaml"), []byte(strings.Join(docs, "---\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	o := NewOptions()
	o.Level, o.Paths = 0, []string{dir}
	o.Flags.ClusterCIDR = ptr("10.244.0.0/16")
	return o
}

func names(r *Result) string {
	var s []string
	for _, u := range r.Units {
		for _, p := range u.Program.Services {
			s = append(s, u.Family.String()+" "+p.PortName.String())
		}
	}
	return strings.Join(s, ", ")
}

// What is left of faulty input, by the flags.
func TestKeepGoingAndStrict(t *testing.T) {
	keep := func(o *Options) { o.KeepGoing = true }
	strict := func(o *Options) { o.Strict = true }
	both := func(o *Options) { o.KeepGoing, o.Strict = true, true }
	asItIs := func(*Options) {}
	for _, c := range []struct {
		name   string
		docs   []string
		change func(*Options)
		want   string // the service ports; "-" for no Units
		errors int
	}{
		{"sound", []string{web}, asItIs, "ipv4 demo/web:http/tcp", 0},
		{"an error", []string{web, bad}, asItIs, "-", 1},
		{"an error, keep going", []string{web, bad}, keep, "ipv4 demo/web:http/tcp", 1},
		{"an error alone, keep going", []string{bad}, keep, "", 1},
		{"a warning", []string{web, charted}, asItIs, "ipv4 demo/web:http/tcp", 0},
		{"a warning, strict", []string{web, charted}, strict, "-", 1},
		{"a warning, strict, keep going", []string{web, charted}, both, "ipv4 demo/web:http/tcp", 1},
		{"broken YAML, keep going", []string{web, "{"}, keep, "-", 1},
		{"a bad option, keep going", []string{web}, func(o *Options) { o.KeepGoing, o.Flags.MasqueradeBit = true, ptr(99) }, "-", 1},
		{"node unknown, keep going", []string{web + "---\napiVersion: v1\nkind: Node\nmetadata: {name: other}\n"},
			func(o *Options) { o.KeepGoing, o.Flags.Node = true, ptr("node-a") }, "-", 1},
		{"no path that can be read", nil, func(o *Options) { o.Paths = []string{"/nonexistent"} }, "-", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := input(t, c.docs...)
			c.change(&o)
			r, err := Compile(o, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := len(r.Diagnostics.Errors()); got != c.errors {
				t.Errorf("%d errors: %v", got, r.Diagnostics)
			}
			if (r.Units == nil) != (c.want == "-") {
				t.Fatalf("units %v: %v", r.Units, r.Diagnostics)
			}
			if c.want != "-" && names(r) != c.want {
				t.Errorf("%q, want %q", names(r), c.want)
			}
		})
	}
}

// A build of sound input has every level, proved, and tells what it cost.
func TestCompile(t *testing.T) {
	o := input(t, web, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n")
	r, err := Compile(o, nil)
	if err != nil {
		t.Fatal(err)
	}
	u := r.Units[0]
	if len(r.Units) != 1 || u.Family != ir.IPv4 || u.Graph == nil || u.Walker == nil || len(u.Sections) != 1 {
		t.Errorf("%+v", u)
	}
	var stages []string
	for _, s := range r.Stages {
		stages = append(stages, s.Name)
		if s.Wall <= 0 {
			t.Errorf("%s took %s", s.Name, s.Wall)
		}
	}
	if got := strings.Join(stages, " "); got != "load validate resolve optimize emit proof" {
		t.Error(got)
	}
	if n := r.Skipped["v1/ConfigMap"]; n != 1 {
		t.Errorf("skipped %v", r.Skipped)
	}
	o.NoProof = true
	if r, err = Compile(o, nil); err != nil || r.Units[0].Walker != nil || r.Stages[len(r.Stages)-1].Name != "emit" {
		t.Errorf("without proof: %v, %+v", err, r.Stages)
	}
}

func TestStdinAndConfig(t *testing.T) {
	o := NewOptions()
	o.Paths, o.Stdin = []string{"-"}, strings.NewReader(web)
	o.Config = filepath.Join(t.TempDir(), "kp.yaml")
	config := "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nclusterCIDR: 10.244.0.0/16\nhostnameOverride: node-a\niptables: {masqueradeBit: 20}\n"
	if err := os.WriteFile(o.Config, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := Compile(o, nil)
	if err != nil || len(r.Diagnostics.Errors()) > 0 || names(r) != "ipv4 demo/web:http/tcp" {
		t.Fatalf("%v: %+v", err, r)
	}
	if p := r.Units[0].Program; p.Options.MasqueradeMark != 1<<20 || p.Node.Name != "node-a" {
		t.Errorf("%+v", p)
	}
	facts, err := Facts(o, ir.IPv6)
	if err != nil || facts.Family != ir.IPv6 || facts.Options.MasqueradeMark != 1<<20 || len(facts.Services) != 0 {
		t.Errorf("%v: %+v", err, facts)
	}
	o.Flags.MasqueradeBit = ptr(77)
	if _, err := Facts(o, ir.IPv4); err == nil || !strings.Contains(err.Error(), "77") {
		t.Errorf("facts of a bad option: %v", err)
	}
	o.Config = "/nonexistent"
	if _, err := Facts(o, ir.IPv4); err == nil {
		t.Error("facts of no configuration")
	}
}

// Without a hook, the text has no rule in a built-in chain; it is proved all
// the same.
func TestHooks(t *testing.T) {
	for _, hooks := range []bool{true, false} {
		o := input(t, web)
		o.Hooks = hooks
		r, err := Compile(o, nil)
		if err != nil || r.Units[0].Walker == nil {
			t.Fatal(err)
		}
		if got := strings.Contains(string(r.Units[0].Sections[0].Text), "-A PREROUTING"); got != hooks {
			t.Errorf("hooks %v: a jump from PREROUTING %v", hooks, got)
		}
	}
}

func TestObserver(t *testing.T) {
	o := input(t, web)
	var seen []string
	_, err := Compile(o, func(stage string, p *ir.Program, g *ir.Graph) error {
		if p == nil || (g != nil) != (stage == "lower") {
			t.Errorf("%s: program %v, graph %v", stage, p != nil, g != nil)
		}
		seen = append(seen, stage)
		return nil
	})
	if err != nil || strings.Join(seen, " ") != "resolve order lower" {
		t.Errorf("%v, %v", seen, err)
	}
	stop := errors.New("enough")
	for _, at := range []string{"resolve", "lower"} {
		_, err = Compile(o, func(stage string, _ *ir.Program, _ *ir.Graph) error {
			if stage == at {
				return stop
			}
			return nil
		})
		if !errors.Is(err, stop) {
			t.Errorf("stopped after %s: %v", at, err)
		}
	}
}

func TestFaultsOfOptions(t *testing.T) {
	o := input(t, web)
	o.SkipPasses = []string{"order"}
	if _, err := Compile(o, nil); err == nil || !strings.Contains(err.Error(), "required") {
		t.Errorf("required pass: %v", err)
	}
}

// broken is a backend that leaves a line out of what the real one prints.
type broken struct {
	emit.Backend
	without string
	fail    bool
}

func (b broken) Emit(g *ir.Graph, o emit.Options) ([]emit.Section, error) {
	if b.fail {
		return nil, errors.New("cannot emit")
	}
	sections, err := b.Backend.Emit(g, o)
	for i := range sections {
		var kept []string
		for _, line := range strings.SplitAfter(string(sections[i].Text), "\n") {
			if !strings.Contains(line, b.without) {
				kept = append(kept, line)
			}
		}
		sections[i].Text = []byte(strings.Join(kept, ""))
	}
	return sections, err
}

// What a backend gets wrong is an internal error, and nothing comes out.
func TestProofStandsBetween(t *testing.T) {
	real := mode.Default.Backend
	for _, c := range []struct {
		b    broken
		want string
	}{
		{broken{Backend: real, without: "-j DNAT"}, "packet demo/web:http/tcp"},
		{broken{Backend: real, without: ":KUBE-MARK-MASQ"}, "KUBE-MARK-MASQ"},
		{broken{Backend: real, fail: true}, "cannot emit"},
	} {
		o := input(t, web)
		o.Mode = &mode.Mode{Name: "broken", Facts: mode.Default.Facts, Backend: c.b}
		r, err := Compile(o, nil)
		if err == nil || !strings.Contains(err.Error(), "internal error, nothing is written: ipv4") || !strings.Contains(err.Error(), c.want) || r != nil {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

func TestRuleset(t *testing.T) {
	dual := strings.ReplaceAll(web, "clusterIP: 10.96.0.10", "clusterIP: 10.96.0.10\n  clusterIPs: [10.96.0.10, fd00::10]\n  ipFamilies: [IPv4, IPv6]")
	o := input(t, dual)
	o.Flags.Node = ptr("node-a")
	r, err := Compile(o, nil)
	if err != nil || len(r.Units) != 2 {
		t.Fatal(err, r.Diagnostics)
	}
	for _, bare := range []bool{false, true} {
		rs, err := r.Ruleset(bare)
		if err != nil {
			t.Fatal(err)
		}
		if got := rs.Head.String(); !strings.Contains(got, "mode=iptables node=node-a families=ipv4,ipv6 level=0 hooks=yes") {
			t.Error(got)
		}
		if want := 2; len(rs.Sections) != want || !bare && len(rs.Programs) != want || bare && len(rs.Programs) != 0 {
			t.Errorf("bare %v: %d sections, %d programs", bare, len(rs.Sections), len(rs.Programs))
		}
		if !bare && strings.Contains(rs.Programs[0], "in.yaml") {
			t.Error("places of the input are in the file")
		}
	}
}

// One code among the findings that is not of a single object stops all.
func TestCompilable(t *testing.T) {
	for code, want := range map[diag.Code]bool{
		diag.BadYAML: false, diag.BadPort: true, diag.ClaimedTwice: true, diag.NodeNeeded: false, diag.BadOption: false, diag.NotOurs: true,
	} {
		var list diag.List
		list.Add(code, diag.Pos{}, "", "x")
		if got := compilable(list, true); got != want {
			t.Errorf("%s, keep going: %v", code, got)
		}
		if got := compilable(list, false); got != (code == diag.NotOurs) {
			t.Errorf("%s: %v", code, got)
		}
	}
}
