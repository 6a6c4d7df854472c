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
	"svcc/emit/iptables/rule"
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

// big is a cluster of 10,000 Services in kube-proxy's layout.
func big(t testing.TB) *emit.Ruleset {
	t.Helper()
	if testing.Short() {
		t.Skip("takes seconds")
	}
	return compiled(t, 0, cluster.Options{Services: 10000, EndpointsPerService: 5, Seed: 7})
}

// holding is a kernel that holds a ruleset, each rule as a save tool would print
// it: in another form than the emitter's.
func holding(t testing.TB, rs *emit.Ruleset) *observed {
	t.Helper()
	want, err := wanted(rs)
	if err != nil {
		t.Fatal(err)
	}
	o := &observed{}
	for i, f := range ir.Families {
		o.families[i].tables = map[string]*table{"filter": {}, "nat": {}}
		for name, tbl := range want[f] {
			for j, line := range tbl.rules {
				tbl.rules[j] = rule.Canonical(f, line)
			}
			o.families[i].tables[name] = tbl
		}
	}
	return o
}

// TestBigPlan plans for many Services from nothing and from the same state; what it
// costs is measured by make bench-apply.
func TestBigPlan(t *testing.T) {
	rs := compiled(t, 0, cluster.Options{Services: 2000, EndpointsPerService: 5, Seed: 7})
	for _, c := range []struct {
		name  string
		from  *observed
		empty bool
	}{{"nothing", holding(t, nil), false}, {"the same", holding(t, rs), true}} {
		p, err := (&Target{}).Plan(rs, c.from)
		if err != nil {
			t.Fatal(err)
		}
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
	rs := big(t)
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
