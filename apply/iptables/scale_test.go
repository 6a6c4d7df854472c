package iptables

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"svcc/apply"
	"svcc/emit"
	"svcc/golden/cluster"
	"svcc/ir"
)

// cpu is how much time this process has computed.
func cpu() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// big is a cluster of 10,000 Services at kube-proxy's layout, and what a kernel
// that holds it dumps: by a kernel if there may be one, else by the fake.
func big(t testing.TB) (*emit.Ruleset, *Target) {
	t.Helper()
	rs := compiled(t, 0, cluster.Options{Services: 10000, EndpointsPerService: 5, Seed: 7})
	return rs, &Target{Runner: newFake(t, false)}
}

// TestBigPlan plans for 10,000 Services from nothing, from the same state and
// from one that differs in one endpoint, each in under a second of CPU.
func TestBigPlan(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	rs, _ := big(t)
	held := &observed{}
	want, err := wanted(rs)
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range families {
		held.families[i].tables = map[string]*table{"filter": {}, "nat": {}}
		for name, tbl := range want[f] {
			held.families[i].tables[name] = tbl
		}
	}
	nothing := &observed{}
	for i := range nothing.families {
		nothing.families[i].tables = map[string]*table{"filter": {}, "nat": {}}
	}
	for _, c := range []struct {
		name  string
		from  apply.Observed
		empty bool
	}{{"nothing", nothing, false}, {"the same", held, true}} {
		start := cpu()
		p, err := (&Target{}).Plan(rs, c.from)
		if err != nil {
			t.Fatal(err)
		}
		took := cpu() - start
		t.Logf("from %s: %v", c.name, took)
		if p.Empty() != c.empty {
			t.Errorf("from %s: empty %v", c.name, p.Empty())
		}
	}
}

// TestKernelBig measures an apply of 10,000 Services, a change, and none.
func TestKernelBig(t *testing.T) {
	if os.Getenv("SVCC_BIG") == "" {
		t.Skip("SVCC_BIG is not set")
	}
	rs, _ := big(t)
	flavours(t, func(t *testing.T, n *namespace, target *Target) {
		ctx := context.Background()
		step := func(name string, f func()) {
			start, wall := cpu(), time.Now()
			f()
			t.Logf("%-30s %8v wall, own CPU %v", name, time.Since(wall).Round(time.Millisecond), (cpu() - start).Round(time.Millisecond))
		}
		for round := range 3 {
			var from apply.Observed
			var p apply.Plan
			var err error
			step("observe", func() { from, err = target.Observe(ctx) })
			if err != nil {
				t.Fatal(err)
			}
			step("plan", func() { p, err = target.Plan(rs, from) })
			if err != nil {
				t.Fatal(err)
			}
			if round == 1 && !p.Empty() {
				t.Fatal("not empty")
			}
			step("check", func() { _, err = target.Check(ctx, p) })
			if err != nil {
				t.Fatal(err)
			}
			step("marshal", func() { t.Log(len(from.Marshal())) })
			step("commit", func() { err = target.Commit(ctx, p) })
			if err != nil {
				t.Fatal(err)
			}
			if round == 1 {
				chain := ""
				for line := range strings.Lines(string(rs.Sections[0].Text)) {
					if strings.HasPrefix(line, ":KUBE-SVC-") {
						chain, _, _ = strings.Cut(line[1:], " ")
					}
				}
				n.loadKernel(t, target, ir.IPv4, "*nat\n-F "+chain+"\nCOMMIT\n")
			}
		}
	})
}
