package iptables

import (
	"context"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"svcc/apply"
	"svcc/compiler"
	"svcc/emit"
	"svcc/golden/cluster"
	"svcc/golden/lab"
	"svcc/ir"
)

// namespace runs tools in a network namespace of its own, which ends with the
// test.
type namespace struct {
	lab.Thread
	runs []apply.Input
}

// newNamespace skips the test where there can be none; where CI is set it fails
// it, so that no test of the kernel can vanish unseen.
func newNamespace(t testing.TB, flavour string) *namespace {
	t.Helper()
	lab.Need(t, lab.Tools("iptables-"+flavour+"-restore"))
	return &namespace{Thread: lab.NewThread(t)}
}

// Run implements apply.Runner.
func (n *namespace) Run(ctx context.Context, in apply.Input) (out []byte, err error) {
	n.runs = append(n.runs, in)
	n.Do(func() { out, err = apply.Exec{}.Run(ctx, in) })
	return out, err
}

// flavours runs a test with each.
func flavours(t *testing.T, f func(t *testing.T, n *namespace, target *Target)) {
	for _, flavour := range []string{"legacy", "nft"} {
		t.Run(flavour, func(t *testing.T) {
			n := newNamespace(t, flavour)
			f(t, n, &Target{Runner: n, Command: Flavour(flavour), Kernel: n})
		})
	}
}

// loadKernel runs restore input over what is there.
func (n *namespace) loadKernel(t testing.TB, target *Target, f ir.Family, text string) {
	t.Helper()
	in := apply.Input{Tool: target.tool(f, "restore"), Args: []string{"--noflush", "--counters"}, Stdin: []byte(text)}
	if _, err := n.Run(context.Background(), in); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
}

// dump is what both families hold, with counters, without comments.
func (n *namespace) dump(t testing.TB, target *Target) string {
	t.Helper()
	var b strings.Builder
	for _, f := range ir.Families {
		for _, table := range []string{"filter", "nat", "mangle"} {
			out, err := n.Run(context.Background(), apply.Input{Tool: target.tool(f, "save"), Args: []string{"-c", "-t", table}})
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(out)) {
				if line[0] != '#' {
					b.WriteString(line)
				}
			}
		}
	}
	return b.String()
}

func TestKernelForeignRulesStay(t *testing.T) {
	flavours(t, func(t *testing.T, n *namespace, target *Target) {
		for f, text := range foreign {
			n.loadKernel(t, target, f, text)
		}
		clean := n.dump(t, target)
		before := foreignLines(clean)
		p := mustApply(t, target, worked(t))
		if after := foreignLines(n.dump(t, target)); after != before || !strings.Contains(before, "[8:800]") {
			t.Errorf("before:\n%s\nafter:\n%s", before, after)
		}
		runs := len(n.runs)
		again, _ := mustPlan(t, target, worked(t))
		if err := target.Commit(context.Background(), again); err != nil {
			t.Fatal(err)
		}
		for _, in := range n.runs[runs:] {
			if strings.Contains(in.Tool, "restore") {
				t.Errorf("the second apply writes: %s %v\n%s", in.Tool, in.Args, in.Stdin)
			}
		}
		target.Owns = p.Makes()
		mustApply(t, target, nil)
		if got := n.dump(t, target); got != clean {
			t.Errorf("after the removal:\n%s\nwant:\n%s", got, clean)
		}
	})
}

func TestKernelDriftIsRepaired(t *testing.T) {
	flavours(t, func(t *testing.T, n *namespace, target *Target) {
		for f, text := range foreign {
			n.loadKernel(t, target, f, text)
		}
		mustApply(t, target, worked(t))
		good, err := target.Observe(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range drifts {
			n.loadKernel(t, target, ir.IPv4, d.text)
			foreign := foreignLines(n.dump(t, target))
			bad, _ := target.Observe(context.Background())
			if bad.Equal(good) {
				t.Errorf("%s: not seen", d.name)
			}
			mustApply(t, target, worked(t))
			if now, _ := target.Observe(context.Background()); !now.Equal(good) {
				t.Errorf("%s: not repaired", d.name)
			}
			if got := foreignLines(n.dump(t, target)); got != foreign {
				t.Errorf("%s: foreign rules changed\n%s\n%s", d.name, foreign, got)
			}
		}
	})
}

// TestKernelRestore goes back from a family that was written, and from a table
// that was.
func TestKernelRestore(t *testing.T) {
	flavours(t, func(t *testing.T, n *namespace, target *Target) {
		for f, text := range foreign {
			n.loadKernel(t, target, f, text)
		}
		for _, start := range []*emit.Ruleset{nil, movedEndpoint(t)} {
			mustApply(t, target, start)
			before := withoutCounters(n.dump(t, target))
			p, from := mustPlan(t, target, worked(t))
			first := p.Inputs()[0]
			filter, _, _ := strings.Cut(string(first.Stdin), "*nat")
			for _, text := range []string{string(first.Stdin), filter} {
				if err := target.write(context.Background(), ir.IPv4, target.restore(ir.IPv4, text)); err != nil {
					t.Fatal(err)
				}
				to, err := target.Load(from.Marshal())
				if err != nil {
					t.Fatal(err)
				}
				if err := target.Restore(context.Background(), to); err != nil {
					t.Fatal(err)
				}
				if after := withoutCounters(n.dump(t, target)); after != before {
					t.Errorf("before:\n%s\nafter:\n%s", before, after)
				}
			}
		}
	})
}

func TestKernelRefusalNamesTheService(t *testing.T) {
	flavours(t, func(t *testing.T, n *namespace, target *Target) {
		before := n.dump(t, target)
		// An option that does not exist, which no tool's test lets pass.
		rs := worked(t, "--rcheck --seconds 10800 --reap -j KUBE-SEP-4ODRXJ4VAIBV3S4H", "--rcheck --seconds 10800 --bogus -j KUBE-SEP-4ODRXJ4VAIBV3S4H")
		p, _ := mustPlan(t, target, rs)
		_, err := target.Check(context.Background(), p)
		if err == nil || !strings.Contains(err.Error(), "demo/dns:dns") {
			t.Errorf("error %v", err)
		}
		// A counter that does not exist, which the tools' tests let pass.
		rs = worked(t, "-A KUBE-MARK-MASQ", "-A KUBE-SEP-JPICTQTYOLMYNIJ7 -m comment --comment demo/web:http -m nfacct --nfacct-name none\n-A KUBE-MARK-MASQ")
		p, _ = mustPlan(t, target, rs)
		_, err = target.Check(context.Background(), p)
		if err == nil || !strings.Contains(err.Error(), "namespace") || !strings.Contains(err.Error(), "demo/web:http") {
			t.Errorf("error %v", err)
		}
		if after := n.dump(t, target); after != before {
			t.Error("a check wrote something")
		}
	})
}

// TestKernelClusters applies generated clusters of every level, one over the
// other, each with one plan: what is dumped is what was meant.
func TestKernelClusters(t *testing.T) {
	flavours(t, func(t *testing.T, n *namespace, target *Target) {
		for level := range 3 {
			for seed := range uint64(2) {
				mustApply(t, target, compiled(t, level, cluster.Options{Services: 30, EndpointsPerService: 3, DualStack: 0.5, Seed: seed + 1}))
			}
		}
	})
}

// compiled builds a generated cluster for its first node.
func compiled(t testing.TB, level int, o cluster.Options) *emit.Ruleset {
	t.Helper()
	dir := t.TempDir()
	if err := cluster.Generate(o).WriteJSON(dir); err != nil {
		t.Fatal(err)
	}
	c := compiler.NewOptions()
	node, pods := "node-0", cluster.PodCIDR+","+cluster.PodCIDR6
	c.Paths, c.Level, c.Flags.Node, c.Flags.ClusterCIDR = []string{dir}, level, &node, &pods
	c.NoProof = true
	r, err := compiler.Compile(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	rs, err := r.Ruleset(true)
	if err != nil || len(rs.Sections) == 0 {
		t.Fatalf("%v: %v", err, r.Diagnostics)
	}
	return rs
}

func TestKernelLock(t *testing.T) {
	n := newNamespace(t, "legacy")
	target := &Target{Runner: n, Command: Flavour("legacy")}
	p, _ := mustPlan(t, target, worked(t))
	lock, err := os.OpenFile(os.Getenv("XTABLES_LOCKFILE"), os.O_CREATE|os.O_RDONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	err = target.Commit(context.Background(), p)
	if err == nil || !strings.Contains(err.Error(), apply.ErrLocked.Error()) {
		t.Errorf("error %v", err)
	}
}
