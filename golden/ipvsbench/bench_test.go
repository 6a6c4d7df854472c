package ipvsbench

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"svcc/apply"
	"svcc/apply/iptables"
	"svcc/apply/ipvs"
	"svcc/apply/sums"
	"svcc/emit"
	spec "svcc/emit/ipvs"
	"svcc/golden/lab"
	"svcc/golden/uml"
	"svcc/ir"
)

func TestMain(m *testing.M) { uml.Main(m) }

// asked is set by "make bench-ipvs".
const asked = "SVCC_BENCH_IPVS"

func TestTable(t *testing.T) {
	if os.Getenv(asked) == "" {
		t.Skip("make bench-ipvs")
	}
	uml.Test(t, func(t *testing.T) {
		out := "services  apply         operations  tool runs  set entries  read s  plan s  check s  write s  read back s  total s\n"
		changes := map[string]bool{}
		for _, n := range []int{1000, 5000} {
			for _, r := range measure(t, n) {
				out += r.line()
				if r.name == "one endpoint" {
					changes[fmt.Sprint(r.operations, r.runs, r.entries)] = true
				}
			}
		}
		t.Log("\n" + out)
		if len(changes) != 1 {
			t.Errorf("the operations of a change grow with the services: %v", changes)
		}
	}, uml.Silence(20*time.Minute), uml.Memory(3072))
}

// result is one apply.
type result struct {
	services                  int
	name                      string
	operations, runs, entries int
	took                      [5]time.Duration // read, plan, check, write, read back
}

func (r result) line() string {
	total := time.Duration(0)
	for _, d := range r.took {
		total += d
	}
	return fmt.Sprintf("%8d  %-12s  %10d  %9d  %11d  %6.2f  %6.2f  %7.2f  %7.2f  %11.2f  %7.2f\n", r.services, r.name, r.operations, r.runs, r.entries,
		r.took[0].Seconds(), r.took[1].Seconds(), r.took[2].Seconds(), r.took[3].Seconds(), r.took[4].Seconds(), total.Seconds())
}

// node counts what is written.
type node struct {
	ipvs.Kernel
	apply.Exec
	writes bool // whether what is run now writes
	result
}

func (n *node) Do(o ipvs.Op) error { n.operations++; return n.Kernel.Do(o) }

func (n *node) Run(ctx context.Context, in apply.Input) ([]byte, error) {
	if n.writes {
		n.runs++
		n.entries += bytes.Count(in.Stdin, []byte("add ")) + bytes.Count(in.Stdin, []byte("del "))
	}
	return n.Exec.Run(ctx, in)
}

func measure(t *testing.T, services int) (out []result) {
	lab.Enter(t)
	k := &ipvs.Netlink{}
	defer k.Close()
	n := &node{Kernel: k}
	tg := &ipvs.Target{
		Glue:   &iptables.Target{Runner: n, LockTimeout: 5 * time.Second, Kernel: sums.Kernel{}},
		Runner: n, Kernel: n,
	}
	first, second := cluster(services, 0), cluster(services, 1)
	for _, c := range []struct {
		name string
		to   *emit.Ruleset
	}{{"first", first}, {"one endpoint", second}, {"nothing", cluster(services, 1)}} {
		n.result = result{services: services, name: c.name}
		n.apply(t, tg, c.to)
		out = append(out, n.result)
	}
	return out
}

// apply does what an engine does.
func (n *node) apply(t *testing.T, tg *ipvs.Target, rs *emit.Ruleset) {
	ctx := context.Background()
	var now apply.Observed
	var p apply.Plan
	step := func(i int, do func() error) {
		begun := time.Now()
		if err := do(); err != nil {
			t.Fatal(err)
		}
		n.took[i] += time.Since(begun)
	}
	read := func() (err error) { now, err = tg.Observe(ctx); return err }
	plan := func() (err error) { p, err = tg.Plan(rs, now); return err }
	step(0, read)
	step(1, plan)
	if p.Empty() {
		return
	}
	step(2, func() error { _, err := tg.Check(ctx, p); return err })
	n.writes = true
	n.operations = 0
	step(3, func() error { return tg.Commit(ctx, p) })
	n.writes = false
	step(4, read)
	step(4, plan)
	if !p.Empty() {
		t.Fatalf("left to do: %v", p.Rules()[0])
	}
}

const endpoints = 5 // of each service; the first is on this node

// cluster is a node's ruleset. Another version has another endpoint in the
// middle service.
func cluster(services, version int) *emit.Ruleset {
	s := &spec.State{Family: ir.IPv4, Glue: []byte(glue)}
	size := 1024
	for size < 2*services {
		size *= 2
	}
	set := func(name, kind string) *spec.Set {
		x := &spec.Set{Name: name, Type: kind, HashSize: 1024, MaxElem: size}
		s.Sets = append(s.Sets, x)
		return x
	}
	loop, ips, borne := set("KUBE-LOOP-BACK", "hash:ip,port,ip"), set("KUBE-CLUSTER-IP", "hash:ip,port"), set("KUBE-IPVS-IPS", "hash:ip")
	for i := range services {
		a := netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)})
		v := &spec.Server{Key: spec.Key{Protocol: ir.TCP, Address: netip.AddrPortFrom(a, 80)}, Scheduler: "rr"}
		for e := range endpoints {
			if e == 0 && i == services/2 {
				e += version * endpoints
			}
			d := netip.AddrFrom4([4]byte{10, byte(128 + e), byte(i >> 8), byte(i)})
			v.Destinations = append(v.Destinations, spec.Destination{Address: netip.AddrPortFrom(d, 8080), Weight: 1})
			if e%endpoints == 0 {
				loop.Entries = append(loop.Entries, fmt.Sprintf("%s,tcp:8080,%s", d, d))
			}
		}
		s.Servers = append(s.Servers, v)
		s.Addresses = append(s.Addresses, a)
		ips.Entries = append(ips.Entries, fmt.Sprintf("%s,tcp:80", a))
		borne.Entries = append(borne.Entries, a.String())
	}
	for _, x := range s.Sets {
		slices.Sort(x.Entries)
	}
	return &emit.Ruleset{Head: emit.Head{Mode: "ipvs", Families: []ir.Family{ir.IPv4}}, Sections: s.Sections()}
}

var glue = strings.TrimLeft(`
*nat
:KUBE-MARK-MASQ - [0:0]
:KUBE-POSTROUTING - [0:0]
:KUBE-SERVICES - [0:0]
-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000
-A KUBE-POSTROUTING -m set --match-set KUBE-LOOP-BACK dst,dst,src -j MASQUERADE
-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN
-A KUBE-POSTROUTING -j MARK --set-xmark 0x4000/0x0
-A KUBE-POSTROUTING -j MASQUERADE --random-fully
-A KUBE-SERVICES -m set --match-set KUBE-CLUSTER-IP src,dst -j KUBE-MARK-MASQ
COMMIT
`, "\n")
