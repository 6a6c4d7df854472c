package ipvs

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	spec "svcc/emit/ipvs"
	"svcc/ir"
)

func hash(name string, size int, entries ...string) *spec.Set {
	slices.Sort(entries)
	return &spec.Set{Name: name, Type: "hash:ip,port", HashSize: 1024, MaxElem: size, Entries: entries}
}

func keys(from, n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf("10.96.%d.%d,tcp:80", (from+i)/256, (from+i)%256))
	}
	return out
}

func edits(have, want []*spec.Set, l *leaving) []*setEdit {
	return editSets(ir.IPv4, &familyState{Sets: have}, &familyState{Sets: want}, l)
}

var nobody = &leaving{}

// What makes an exception comes before what it is an exception of, and goes
// after it.
func TestSetsInOrder(t *testing.T) {
	const main, local = "KUBE-LOAD-BALANCER", "KUBE-LOAD-BALANCER-LOCAL"
	without := []*spec.Set{hash(main, 65536), hash(local, 65536)}
	with := []*spec.Set{hash(main, 65536, "a,tcp:1"), hash(local, 65536, "a,tcp:1")}
	for _, c := range []struct {
		have, want []*spec.Set
		text       string
	}{
		{without, with, "add KUBE-LOAD-BALANCER-LOCAL a,tcp:1\nadd KUBE-LOAD-BALANCER a,tcp:1\n"},
		{with, without, "del KUBE-LOAD-BALANCER a,tcp:1\ndel KUBE-LOAD-BALANCER-LOCAL a,tcp:1\n"},
	} {
		if diff := cmp.Diff(c.text, setsFirst(edits(c.have, c.want, nobody), nil)); diff != "" {
			t.Error(diff)
		}
	}
}

// A few entries are edited; a set that is new is made, and one of which much
// changes, or the size, is swapped in.
func TestSetsSwapped(t *testing.T) {
	const name = "KUBE-CLUSTER-IP"
	for _, c := range []struct {
		what       string
		have, want *spec.Set
		swapped    bool
		lines      int
	}{
		{"one of many", hash(name, 65536, keys(0, 4000)...), hash(name, 65536, keys(1, 4000)...), false, 2},
		{"a quarter", hash(name, 65536, keys(0, 4000)...), hash(name, 65536, keys(500, 4000)...), false, 1000},
		{"more", hash(name, 65536, keys(0, 4000)...), hash(name, 65536, keys(501, 4000)...), true, 4003},
		{"few in all", hash(name, 65536, keys(0, 8)...), hash(name, 65536, keys(100, 8)...), false, 16},
		{"not so few", hash(name, 65536, keys(0, 9)...), hash(name, 65536, keys(100, 9)...), true, 12},
		{"size", hash(name, 1024, keys(0, 8)...), hash(name, 65536, keys(0, 8)...), true, 11},
	} {
		text := setsFirst(edits([]*spec.Set{c.have}, []*spec.Set{c.want}, nobody), nil)
		if got := strings.Contains(text, "\nswap SVCC-CLUSTER-IP KUBE-CLUSTER-IP\ndestroy SVCC-CLUSTER-IP\n"); got != c.swapped {
			t.Errorf("%s: swapped %v", c.what, got)
		}
		if got := strings.Count(text, "\n"); got != c.lines {
			t.Errorf("%s: %d lines, want %d", c.what, got, c.lines)
		}
	}
	if text := setsFirst(edits(nil, []*spec.Set{hash(name, 1024, "a,tcp:1")}, nobody), []string{"SVCC-X"}); text !=
		"destroy SVCC-X\ncreate KUBE-CLUSTER-IP hash:ip,port family inet hashsize 1024 maxelem 1024\nadd KUBE-CLUSTER-IP a,tcp:1\n" {
		t.Errorf("a new set: %s", text)
	}
}

// What proves a virtual server to be ours stays until it has gone, even if the
// set is too small for both.
func TestSetsKeepProof(t *testing.T) {
	const name = "KUBE-CLUSTER-IP"
	have, want := hash(name, 2, "10.0.0.1,tcp:1", "10.0.0.2,tcp:1"), hash(name, 2, "10.0.0.3,tcp:1", "10.0.0.4,tcp:1")
	l := &leaving{keys: map[string]bool{"10.0.0.1,tcp:1": true}}
	e := edits([]*spec.Set{have}, []*spec.Set{want}, l)
	first := setsFirst(e, nil)
	if !strings.Contains(first, "maxelem 3\n") || !strings.Contains(first, "add SVCC-CLUSTER-IP 10.0.0.1,tcp:1\n") || strings.Contains(first, "10.0.0.2") {
		t.Errorf("first:\n%s", first)
	}
	last := setsLast(e)
	if !strings.Contains(last, "maxelem 2\n") || !strings.Contains(last, "swap SVCC-CLUSTER-IP KUBE-CLUSTER-IP") || strings.Contains(last, "10.0.0.1") {
		t.Errorf("last:\n%s", last)
	}
}

// Only TCP drains; what does not is deleted, whatever its weight.
func TestOnlyTCPDrains(t *testing.T) {
	a := netip.MustParseAddrPort("10.0.0.1:53")
	for protocol, want := range map[ir.Protocol]string{ir.TCP: "", ir.UDP: "-d -u 10.96.0.2:53 -r 10.0.0.1:53", ir.SCTP: "-d --sctp-service 10.96.0.2:53 -r 10.0.0.1:53"} {
		s := Server{Key: spec.Key{Protocol: protocol, Address: netip.MustParseAddrPort("10.96.0.2:53")}, Scheduler: "rr"}
		had := s
		had.Destinations = []Destination{{Address: a}}
		got := ""
		for _, o := range compareServers([]*Server{&had}, []*Server{&s}).goes {
			got += o.String()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", protocol, got, want)
		}
	}
}

// One that is wanted again in the meantime is not deleted.
func TestTidyLooksAgain(t *testing.T) {
	n := newNode()
	tg := target(n)
	bring(t, tg, newWorld().cluster("tcp 10.96.0.1:80 rr", "10.0.0.1:80").ruleset())
	k := spec.Key{Protocol: ir.TCP, Address: netip.MustParseAddrPort("10.96.0.1:80")}
	p := &plan{draining: []drainage{{k, Destination{Address: netip.MustParseAddrPort("10.0.0.1:80")}}}}
	if did, err := tg.Tidy(t.Context(), p); err != nil || len(did) > 0 || len(n.servers[k].Destinations) != 1 {
		t.Errorf("%q, %v", did, err)
	}
}
