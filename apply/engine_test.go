package apply_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"svcc/apply"
	"svcc/apply/state"
	"svcc/emit"
	"svcc/ir"
)

var background = context.Background()

// What is applied is there, recorded, and applying it again writes nothing,
// neither to the kernel nor to the directory.
func TestApplyTwice(t *testing.T) {
	w := newWorld(t)
	r := w.apply(oldState(t))
	if !r.Wrote || !r.Recorded || r.Plan.Empty() {
		t.Errorf("first: %+v", r)
	}
	rec := w.record()
	if rec.Current != state.Sum(oldState(t).Marshal()) || rec.Previous != "" || rec.Who != "tester" || rec.Mode != "iptables" || rec.Flavour != "iptables 1.8.9 (nf_tables)" {
		t.Errorf("%+v", rec)
	}
	if got := strings.Join(rec.Made, ","); got != "ipv4 filter KUBE-FIREWALL,ipv6 filter KUBE-FIREWALL" {
		t.Errorf("made %q", got)
	}
	before, writes := dirTimes(t, w.path), w.kernel.Writes()
	r = w.apply(oldState(t))
	if r.Wrote || r.Recorded || !r.Plan.Empty() || w.kernel.Writes() != writes {
		t.Errorf("second: %+v, %d tables written", r, w.kernel.Writes()-writes)
	}
	if after := dirTimes(t, w.path); after != before {
		t.Errorf("the directory was written to:\n%s\n%s", before, after)
	}
}

// dirTimes shows when each file but the lock was written.
func dirTimes(t *testing.T, path string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(path, "*"))
	if err != nil || len(files) < 2 {
		t.Fatalf("%v, %v", files, err)
	}
	var b strings.Builder
	for _, f := range files {
		i, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Base(f) != "lock" {
			b.WriteString(i.Name() + " " + i.ModTime().String() + "\n")
		}
	}
	return b.String()
}

func TestPreviousAndRollback(t *testing.T) {
	w := newWorld(t)
	if _, err := w.engine().Rollback(background); true {
		mustFail(t, err, apply.ErrNoPrevious)
	}
	w.apply(oldState(t))
	old := w.tables()
	if _, err := w.engine().Rollback(background); true {
		mustFail(t, err, apply.ErrNoPrevious)
	}
	w.apply(newState(t))
	fresh := w.tables()
	w.apply(newState(t)) // no reason to forget what was before
	states := map[string]map[string]string{"old": old, "new": fresh}
	for _, want := range []string{"old", "new", "old"} {
		if _, err := w.engine().Rollback(background); err != nil {
			t.Fatal(err)
		}
		if got := w.whole(states); got != want {
			t.Errorf("rolled back to %q, want %q", got, want)
		}
	}
	w.apply(nil)
	if r := w.record(); r.Current != "" || r.Previous != state.Sum(oldState(t).Marshal()) || len(r.Made) != 0 {
		t.Errorf("after remove: %+v", r)
	}
	if _, err := w.engine().Rollback(background); err != nil || w.whole(states) != "old" {
		t.Errorf("rolled back from nothing: %v, %q", err, w.whole(states))
	}
}

// After remove, the tables are what they were before the first apply.
func TestRemove(t *testing.T) {
	w := newWorld(t)
	clean := w.tables()
	w.apply(oldState(t))
	w.apply(nil)
	if w.whole(map[string]map[string]string{"clean": clean}) != "clean" {
		t.Errorf("%s", w.kernel.SaveAll())
	}
	if r := w.apply(nil); r.Wrote || r.Recorded {
		t.Errorf("a second time: %+v", r)
	}
	// Without a record too.
	w.apply(newState(t))
	if err := os.RemoveAll(w.path); err != nil {
		t.Fatal(err)
	}
	w.apply(nil)
	for table, text := range w.tables() {
		if strings.Contains(strings.ReplaceAll(text, "KUBE-FIREWALL", ""), "KUBE") {
			t.Errorf("%s:\n%s", table, text)
		}
	}
}

func TestDryRun(t *testing.T) {
	w := newWorld(t)
	r := w.apply(oldState(t), dryRun)
	if r.Wrote || r.Plan.Empty() || len(w.kernel.SaveAll()) == 0 || strings.Contains(w.kernel.SaveAll(), "KUBE") {
		t.Errorf("%+v", r)
	}
	if _, err := os.Stat(w.path); err == nil {
		t.Error("a dry run made the state directory")
	}
	w.apply(oldState(t))
	rec, before := w.record(), w.tables()
	w.apply(newState(t), dryRun)
	w.apply(nil, dryRun)
	if _, err := w.engine(dryRun).Rollback(background); true {
		mustFail(t, err, apply.ErrNoPrevious)
	}
	if w.record().ID != rec.ID || w.whole(map[string]map[string]string{"before": before}) != "before" {
		t.Error("a dry run changed something")
	}
}

// kubeProxyRuns puts a process into the world's proc.
func kubeProxyRuns(t *testing.T, w *world, ns string) {
	t.Helper()
	for path, link := range map[string]string{"thread-self/ns/net": "net:[1]", "77/ns/net": ns} {
		path = filepath.Join(w.root, "proc", path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(link, path); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(w.root, "proc/77/comm"), []byte("kube-proxy\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestKubeProxyRuns(t *testing.T) {
	for name, c := range map[string]struct {
		ns      string
		with    func(*apply.Engine)
		refused bool
	}{
		"here":             {"net:[1]", func(*apply.Engine) {}, true},
		"taken over":       {"net:[1]", takeOver, false},
		"only looked at":   {"net:[1]", dryRun, false},
		"in a node's own":  {"net:[2]", func(*apply.Engine) {}, false},
		"cannot be looked": {"", func(*apply.Engine) {}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.apply(oldState(t))
			before := w.tables()
			ns := c.ns
			if ns == "" {
				ns = "net:[1]"
			}
			kubeProxyRuns(t, w, ns)
			if c.ns == "" {
				if err := os.Remove(filepath.Join(w.root, "proc/77/ns/net")); err != nil {
					t.Fatal(err)
				}
			}
			_, err := w.engine(c.with, allowShrink).Apply(background, newState(t))
			if errors.Is(err, apply.ErrKubeProxy) != c.refused || err != nil && !c.refused {
				t.Errorf("apply: %v", err)
			}
			if !c.refused {
				return
			}
			if !strings.Contains(err.Error(), "process 77") || !strings.Contains(err.Error(), "--take-over") {
				t.Errorf("it does not explain: %v", err)
			}
			if _, err := w.engine(c.with).Remove(background); true {
				mustFail(t, err, apply.ErrKubeProxy)
			}
			if w.whole(map[string]map[string]string{"before": before}) != "before" {
				t.Error("refused, and written")
			}
		})
	}
}

// Rules by kube-proxy's names without a record are somebody's; those that are
// right already are nobody's loss.
func TestRulesWithoutARecord(t *testing.T) {
	w := newWorld(t)
	w.apply(oldState(t))
	if err := os.RemoveAll(w.path); err != nil {
		t.Fatal(err)
	}
	before := w.tables()
	_, err := w.engine().Apply(background, newState(t))
	mustFail(t, err, apply.ErrKubeProxy)
	if w.whole(map[string]map[string]string{"before": before}) != "before" || w.record().ID != "" {
		t.Error("refused, and written")
	}
	if r := w.apply(oldState(t)); r.Wrote || !r.Recorded {
		t.Errorf("the same rules are not taken for ours: %+v", r)
	}
	w.apply(newState(t))

	w.apply(nil)
	other := newWorld(t)
	other.apply(oldState(t))
	other.apply(nil)
	loadSections(t, other, oldState(t))
	_, err = other.engine().Apply(background, newState(t))
	mustFail(t, err, apply.ErrKubeProxy)
	other.apply(newState(t), takeOver)
}

// loadSections loads rules as any tool would.
func loadSections(t *testing.T, w *world, rs *emit.Ruleset) {
	t.Helper()
	for _, s := range rs.Sections {
		if _, err := w.kernel.Run(background, apply.Input{Tool: s.Command(), Args: []string{"--noflush"}, Stdin: s.Text}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestForAnotherNodeOrMode(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		node, mode, here string
		want             error
	}{
		{"node-b", "iptables", "node-a", apply.ErrNode},
		{"node-a", "iptables", "node-a", nil},
		{"node-b", "iptables", "", nil},
		{"", "iptables", "node-a", nil},
		{"node-a", "nftables", "node-a", apply.ErrMode},
	} {
		rs := oldState(t)
		rs.Head.Node, rs.Head.Mode = c.node, c.mode
		e := w.engine(func(e *apply.Engine) { e.Options.Node = c.here })
		_, err := e.Apply(background, rs)
		if !errors.Is(err, c.want) {
			t.Errorf("%+v: %v", c, err)
		}
		if c.want != nil && strings.Contains(w.kernel.SaveAll(), "KUBE") {
			t.Fatalf("%+v: refused, and written", c)
		}
		w.apply(nil)
	}
}

func TestShrink(t *testing.T) {
	a, b, c := service("a", 1, 5), service("b", 2, 6), service("c", 3, 7)
	for _, x := range []struct {
		name string
		to   []string
		want error
	}{
		{"one of three", []string{a, b}, nil},
		{"two of three", []string{a}, apply.ErrShrink},
		{"two lose their endpoints", []string{a, service("b", 2), service("c", 3)}, apply.ErrShrink},
		{"other endpoints", []string{service("a", 1, 15), service("b", 2, 16), service("c", 3, 17)}, nil},
	} {
		t.Run(x.name, func(t *testing.T) {
			w := newWorld(t)
			w.apply(build(t, a, b, c))
			before := w.tables()
			_, err := w.engine().Apply(background, build(t, x.to...))
			if !errors.Is(err, x.want) {
				t.Fatalf("%v, want %v", err, x.want)
			}
			if x.want == nil {
				return
			}
			if !strings.Contains(err.Error(), "2 of 3 (demo/b, demo/c)") || !strings.Contains(err.Error(), "--allow-shrink") {
				t.Errorf("it does not explain: %v", err)
			}
			if w.whole(map[string]map[string]string{"before": before}) != "before" {
				t.Error("refused, and written")
			}
			w.apply(build(t, x.to...), dryRun)
			w.apply(build(t, x.to...), allowShrink)
		})
	}
}

// Exactly half is not more than half.
func TestShrinkByHalf(t *testing.T) {
	w := newWorld(t)
	w.apply(build(t, service("a", 1, 5), service("b", 2, 6)))
	if _, err := w.engine().Apply(background, build(t, service("a", 1, 5))); err != nil {
		t.Error(err)
	}
}

// A node port needs a sysctl, which is set with the rules, recorded, watched and
// put back.
func TestSysctls(t *testing.T) {
	w := newWorld(t)
	with := build(t, nodePort(service("web", 1, 5), 30080))
	r := w.apply(with)
	if got := strings.Join(r.Sysctls, ","); w.sysctl() != "1" || got != "net/ipv4/conf/all/route_localnet: 0 -> 1" {
		t.Errorf("it is %s; %q", w.sysctl(), got)
	}
	if s := w.record().Sysctls; len(s) != 1 || s[0].Value != "0" {
		t.Errorf("recorded: %+v", s)
	}
	w.setSysctl("0")
	if s, err := w.engine().Status(background); err != nil || s.Condition != apply.Drift || len(s.Sysctls) != 1 || len(s.Changes) != 0 {
		t.Errorf("%v, %+v", err, s)
	}
	writes := w.kernel.Writes()
	if r := w.apply(with); !r.Wrote || w.sysctl() != "1" || w.kernel.Writes() != writes {
		t.Errorf("drift of a sysctl: %+v", r)
	}
	if s := w.record().Sysctls; len(s) != 1 || s[0].Value != "0" {
		t.Errorf("recorded after drift: %+v", s)
	}
	w.apply(build(t, service("web", 1, 5)))
	if w.sysctl() != "0" || len(w.record().Sysctls) != 0 {
		t.Errorf("not needed any more, and %s", w.sysctl())
	}
	w.setSysctl("1")
	w.apply(with)
	w.apply(nil)
	if w.sysctl() != "1" {
		t.Error("what another set was taken back")
	}
}

// Flows follow the rules, knowing both states; their failure is told only.
func TestFlows(t *testing.T) {
	w := newWorld(t)
	var calls []string
	names := func(list []*ir.Program) string {
		var out []string
		for _, p := range list {
			for _, s := range p.Services {
				out = append(out, s.Name)
			}
		}
		slices.Sort(out)
		return strings.Join(slices.Compact(out), " ")
	}
	flows := func(e *apply.Engine) {
		e.Flows = func(_ context.Context, before, after []*ir.Program) error {
			if strings.Contains(w.kernel.SaveAll(), "KUBE-SERVICES") != (len(after) > 0) {
				t.Error("called before the rules are there")
			}
			calls = append(calls, names(before)+" > "+names(after))
			return errors.New("no conntrack here")
		}
	}
	w.apply(oldState(t), flows)
	w.apply(newState(t), flows)
	w.apply(newState(t), flows)
	w.apply(oldState(t), flows, dryRun)
	w.apply(nil, flows)
	want := []string{" > empty gone web", "empty gone web > empty late more web", "empty late more web > empty late more web", "empty late more web > "}
	if !slices.Equal(calls, want) {
		t.Errorf("%q", calls)
	}
	if !strings.Contains(w.log.String(), "no conntrack here") {
		t.Error("the failure is not told")
	}
}

// A file without its Program is applied; what needs the Program is left alone.
func TestBare(t *testing.T) {
	w := newWorld(t)
	w.apply(build(t, nodePort(service("web", 1, 5), 30080)))
	bare := build(t, service("other", 2, 6))
	bare.Programs = nil
	if _, err := w.engine().Apply(background, bare); err != nil {
		t.Fatal(err)
	}
	if w.sysctl() != "1" || len(w.record().Sysctls) != 1 || !strings.Contains(w.log.String(), "--bare") {
		t.Errorf("sysctl %s, %+v", w.sysctl(), w.record())
	}
	if s, err := w.engine().Status(background); err != nil || s.Condition != apply.AsRecorded {
		t.Errorf("%v, %+v", err, s)
	}
}

func TestDrift(t *testing.T) {
	w := newWorld(t)
	if s, err := w.engine().Status(background); err != nil || s.Condition != apply.AsRecorded || s.Record.ID != "" {
		t.Errorf("at first: %v, %+v", err, s)
	}
	w.apply(oldState(t))
	before := w.tables()
	in := apply.Input{Tool: "iptables-restore", Args: []string{"--noflush"}, Stdin: []byte("*nat\n:KUBE-SERVICES - [0:0]\nCOMMIT\n")}
	if _, err := w.kernel.Run(background, in); err != nil {
		t.Fatal(err)
	}
	s, err := w.engine().Status(background)
	if err != nil || s.Condition != apply.Drift || !slices.Equal(s.Services, []string{"demo/gone:p", "demo/web:p"}) || s.Record.ID != w.record().ID {
		t.Errorf("%v, %+v", err, s)
	}
	if len(s.Changes) != 3 || !s.Changes[0].Add || s.Changes[0].Table != "nat" {
		t.Errorf("%v", s.Changes)
	}
	w.apply(oldState(t))
	if w.whole(map[string]map[string]string{"before": before}) != "before" {
		t.Error("drift is not repaired")
	}
}
