package ipvs

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	spec "svcc/emit/ipvs"
	"svcc/ir"
)

func TestDrain(t *testing.T) {
	n := newNode()
	tg := target(n)
	tcp := spec.Key{Protocol: ir.TCP, Address: netip.MustParseAddrPort("10.96.0.1:80")}
	bring(t, tg, newWorld().cluster("tcp 10.96.0.1:80 rr", "10.0.0.1:80", "10.0.0.2:80").ruleset())
	n.servers[tcp].Destinations[0].Connections = 3
	rs := newWorld().cluster("tcp 10.96.0.1:80 rr", "10.0.0.2:80").ruleset()
	bring(t, tg, rs)
	if d := n.servers[tcp].Destinations; len(d) != 2 || d[0].Weight != 0 {
		t.Fatalf("%v: the first was to drain", d)
	}
	n.writes = nil
	bring(t, tg, rs)
	if len(n.writes) > 0 {
		t.Errorf("while it drains, an apply wrote %q", n.writes)
	}
	// A change elsewhere leaves it, and what was observed is put back with it.
	old, p := plans(t, tg, newWorld().cluster("tcp 10.96.0.1:80 rr", "10.0.0.1:80", "10.0.0.2:80").ruleset())
	if err := tg.Commit(context.Background(), p); err != nil {
		t.Fatal(err)
	}
	if d := n.servers[tcp].Destinations; d[0].Weight != 1 {
		t.Fatalf("%v: the first is wanted again", d)
	}
	if err := tg.Restore(context.Background(), old); err != nil {
		t.Fatal(err)
	}
	if d := n.servers[tcp].Destinations; len(d) != 2 || d[0].Weight != 0 {
		t.Fatalf("%v: the first was draining", d)
	}
	n.servers[tcp].Destinations[0].Connections = 0
	n.writes = nil
	bring(t, tg, rs)
	if want := []string{"-d -t 10.96.0.1:80 -r 10.0.0.1:80"}; !slices.Equal(n.writes, want) {
		t.Errorf("drained, an apply wrote %q, want %q", n.writes, want)
	}
}

func TestDrainTimeout(t *testing.T) {
	n := newNode()
	tg := target(n)
	tcp := spec.Key{Protocol: ir.TCP, Address: netip.MustParseAddrPort("10.96.0.1:80")}
	bring(t, tg, newWorld().cluster("tcp 10.96.0.1:80 rr", "10.0.0.1:80", "10.0.0.2:80").ruleset())
	n.servers[tcp].Destinations[0].Connections = 1
	n.servers[tcp].Destinations[1].Connections = 1
	rs := newWorld().cluster("tcp 10.96.0.1:80 rr").ruleset()
	bring(t, tg, rs)
	_, p := plans(t, tg, rs)
	n.servers[tcp].Destinations[0].Connections = 0
	tg.DrainTimeout = 2 * drainPoll
	begun := time.Now()
	did, err := tg.Tidy(context.Background(), p)
	if err != nil || len(did) != 2 || !strings.Contains(did[0], "10.0.0.1:80 of -t 10.96.0.1:80: deleted") || !strings.Contains(did[1], "10.0.0.2:80") {
		t.Errorf("%q, %v", did, err)
	}
	if time.Since(begun) < tg.DrainTimeout {
		t.Error("it did not wait for the other")
	}
}
