package ipvs

import (
	"errors"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"svcc/apply"
	statedir "svcc/apply/state"
	"svcc/emit"
	spec "svcc/emit/ipvs"
	"svcc/ir"
)

// losses are what takes from the kernel what proves servers to be ours, and
// leaves the servers.
var losses = []struct {
	name string
	lose func(n *node)
}{
	{"entries of sets", (*node).flushSets},
	{"rules, then sets", (*node).destroySets},
	{"link", (*node).deleteLink},
	{"all", func(n *node) { n.destroySets(); n.deleteLink() }},
}

func (n *node) flushSets() {
	for name, s := range n.sets {
		if spec.OwnedSet(name) {
			clear(s.entries)
		}
	}
}

func (n *node) destroySets() {
	n.tables = newNode().tables
	for name := range n.sets {
		if spec.OwnedSet(name) {
			delete(n.sets, name)
		}
	}
}

func (n *node) deleteLink() {
	n.link = false
	clear(n.addresses)
}

// engine is a new process: the kernel and a directory are what there is.
func (n *node) engine(t *testing.T, dir string, with ...func(*Target)) *apply.Engine {
	t.Helper()
	proc := filepath.Join(dir, "root/proc/sys/net/ipv4")
	for _, name := range []string{"ip_forward", "vs/conntrack", "vs/expire_nodest_conn", "vs/expire_quiescent_template", "vs/conn_reuse_mode"} {
		file := filepath.Join(proc, name)
		if _, err := os.Stat(file); err == nil {
			continue
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte("0\n"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	tg := target(n)
	for _, f := range with {
		f(tg)
	}
	return &apply.Engine{
		Target: tg, State: statedir.At(filepath.Join(dir, "state")), Root: filepath.Join(dir, "root"),
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Options: apply.Options{Mode: "ipvs", Who: "test", AllowShrink: true},
	}
}

func takingOver(t *Target) { t.TakeOver = true }

// named is a world with services by name.
func named(t *testing.T, w *world, v *ir.Virtual) *emit.Ruleset {
	t.Helper()
	rs := w.ruleset()
	port := func(name string, f ir.Frontend) *ir.ServicePort {
		return &ir.ServicePort{PortName: ir.PortName{Namespace: "demo", Name: name, Protocol: ir.TCP}, Frontends: []ir.Frontend{f}}
	}
	rs.Programs = []string{programText(t, v,
		port("node", ir.Frontend{Kind: ir.NodePort, Port: 30080}),
		port("web", ir.Frontend{Kind: ir.ClusterIP, Addr: netip.MustParseAddr("10.96.0.1"), Port: 80}))}
	return rs
}

// Whatever is lost of sets and addresses: status says so, and of which services;
// apply, rollback and remove do what they are for, also in a new process.
func TestLostProof(t *testing.T) {
	for _, c := range losses {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			n := newNode()
			strangers(n)
			bare := n.dump()
			old, now := named(t, oldWorld(), &ir.Virtual{Scheduler: "rr"}), named(t, newerWorld(), &ir.Virtual{Scheduler: "rr"})
			dumps := map[string]string{"removed": bare}
			for _, step := range []struct {
				name string
				do   func(e *apply.Engine) (apply.Report, error)
			}{
				{"old", func(e *apply.Engine) (apply.Report, error) { return e.Apply(t.Context(), old) }},
				{"old", func(e *apply.Engine) (apply.Report, error) { return e.Apply(t.Context(), old) }},
				{"new", func(e *apply.Engine) (apply.Report, error) { return e.Apply(t.Context(), now) }},
				{"old", func(e *apply.Engine) (apply.Report, error) { return e.Rollback(t.Context()) }},
				{"removed", func(e *apply.Engine) (apply.Report, error) { return e.Remove(t.Context()) }},
			} {
				if _, err := step.do(n.engine(t, dir)); err != nil {
					t.Fatalf("%s: %v", step.name, err)
				}
				if was, again := dumps[step.name]; again && was != n.dump() {
					t.Errorf("%s, after the loss (-want +got):\n%s", step.name, cmp.Diff(was, n.dump()))
				}
				dumps[step.name] = n.dump()
				if step.name == "removed" {
					break
				}
				c.lose(n)
				s, err := n.engine(t, dir).Status(t.Context())
				if err != nil || s.Condition != apply.Drift || len(s.Services) == 0 {
					t.Errorf("%s, after the loss: %s, %q, %v", step.name, s.Condition, s.Services, err)
				}
				if c.name == "all" && step.name == "old" && !slices.Equal(s.Services, []string{"demo/node", "demo/web"}) {
					t.Errorf("after the loss of all: %q", s.Services)
				}
			}
			if s, err := n.engine(t, dir).Status(t.Context()); err != nil || s.Condition != apply.AsRecorded {
				t.Errorf("in the end: %s, %v", s.Condition, err)
			}
		})
	}
}

// killed applies a ruleset in a process that is killed at a write.
func killed(t *testing.T, n *node, dir string, rs *emit.Ruleset, at int, with ...func(*Target)) (done bool) {
	t.Helper()
	n.writes, n.failAt = nil, at
	n.dies = true
	defer func() {
		n.failAt, n.dies = 0, false
		if r := recover(); r != nil && r != any(errKilled) {
			panic(r)
		}
	}()
	e := n.engine(t, dir, with...)
	e.Options.TakeOver = len(with) > 0
	if _, err := e.Apply(t.Context(), rs); err != nil {
		t.Fatal(err)
	}
	return true
}

// A run that was killed, wherever, and the loss after it: the next command mends
// it, and finds all that is ours.
func TestLostProofOfAnInterruptedRun(t *testing.T) {
	for _, c := range losses {
		for at := 1; ; at += 3 {
			dir := t.TempDir()
			n := newNode()
			strangers(n)
			if _, err := n.engine(t, dir).Apply(t.Context(), oldWorld().ruleset()); err != nil {
				t.Fatal(err)
			}
			was := n.dump()
			if killed(t, n, dir, newerWorld().ruleset(), at) {
				break
			}
			c.lose(n)
			if s, err := n.engine(t, dir).Status(t.Context()); err != nil || s.Condition == apply.AsRecorded {
				t.Errorf("%s, killed at %d: %s, %v", c.name, at, s.Condition, err)
			}
			if err := n.engine(t, dir).Recover(t.Context()); err != nil {
				t.Fatalf("%s, killed at %d: %v", c.name, at, err)
			}
			if diff := cmp.Diff(was, n.dump()); diff != "" {
				t.Fatalf("%s, killed at %d (-want +got):\n%s", c.name, at, diff)
			}
		}
	}
}

// What is somebody else's is refused, with what to do; --take-over takes it
// over, and an undone run gives it back.
func TestTakeOver(t *testing.T) {
	for _, there := range []string{"10.96.0.1:80", "10.96.0.1:8888", "192.0.2.77:30080"} {
		dir := t.TempDir()
		n := newNode()
		strangers(n)
		k := spec.Key{Protocol: ir.TCP, Address: netip.MustParseAddrPort(there)}
		n.servers[k] = &Server{Key: k, Scheduler: "wlc", Netmask: netmask(k), Destinations: []Destination{
			{Address: netip.MustParseAddrPort("10.9.9.9:80"), Weight: 7, Method: 3, Connections: 1},
		}}
		before := n.dump()
		rs := oldWorld().ruleset()
		_, err := n.engine(t, dir).Apply(t.Context(), rs)
		if err == nil || !strings.Contains(err.Error(), "ipvsadm -D -t "+there+")") || !strings.Contains(err.Error(), "--take-over") {
			t.Errorf("%s: %v", there, err)
		}
		take := func() (*apply.Engine, error) {
			e := n.engine(t, dir, takingOver)
			e.Options.TakeOver = true
			_, err := e.Apply(t.Context(), rs)
			return e, err
		}
		n.failAt = 20
		if _, err := take(); err == nil || !strings.Contains(err.Error(), "the old state is back") {
			t.Fatalf("%s, with a fault: %v", there, err)
		}
		if diff := cmp.Diff(before, n.dump()); diff != "" {
			t.Errorf("%s, undone (-want +got):\n%s", there, diff)
		}
		n.failAt = 0
		if killed(t, n, dir, rs, 20, takingOver) || n.engine(t, dir).Recover(t.Context()) != nil || n.dump() != before {
			t.Errorf("%s, killed and mended (-want +got):\n%s", there, cmp.Diff(before, n.dump()))
		}
		n.writes = nil
		if _, err := take(); err != nil {
			t.Fatalf("%s: %v", there, err)
		}
		if v := n.servers[k]; there == "10.96.0.1:80" && v.Scheduler != "rr" || there == "10.96.0.1:8888" && v != nil {
			t.Errorf("%s was not taken over: %+v", there, v)
		}
		if s, err := n.engine(t, dir).Status(t.Context()); err != nil || s.Condition != apply.AsRecorded {
			t.Errorf("%s: %s, %v", there, s.Condition, err)
		}
	}
}

// Servers that configurations say to leave alone are left alone still.
func TestExcludedIsNotRemovedLater(t *testing.T) {
	dir := t.TempDir()
	n := newNode()
	v := &ir.Virtual{Scheduler: "rr", Exclude: []netip.Prefix{netip.MustParsePrefix("10.96.0.1/32")}}
	rs := named(t, oldWorld(), v)
	if _, err := n.engine(t, dir).Apply(t.Context(), rs); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		exclude := func(tg *Target) { tg.Exclude = v.Exclude }
		if _, err := n.engine(t, dir, exclude).Remove(t.Context()); err != nil {
			t.Fatal(err)
		}
		v.Exclude = nil // the second run has no ruleset in force to know it from
		if len(n.servers) != 1 {
			t.Errorf("left are %v", n.servers)
		}
	}
	if s, err := n.engine(t, dir).Status(t.Context()); err != nil || s.Condition != apply.AsRecorded {
		t.Errorf("after removal: %s, %v", s.Condition, err)
	}
	if _, err := n.engine(t, dir).Rollback(t.Context()); err != nil {
		t.Error(err)
	}
}
