package conntrack_test

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"svcc/apply/conntrack"
	"svcc/ir"
	"svcc/ir/irtest"
)

// byAddr lets cmp look into addresses.
var byAddr = cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })

func table() *fake {
	return &fake{local: nodeAddrs, entries: []conntrack.Entry{
		flow("10.96.0.10:53", podA), flow("10.96.0.10:53", podB), flow("203.0.113.2:53", podA), flow("8.8.8.8:53", "8.8.8.8:53"),
	}}
}

func TestClean(t *testing.T) {
	f := table()
	want := []conntrack.Entry{f.entries[1], f.entries[3]}
	r, err := conntrack.Clean(context.Background(), f, nil, of(program(dns(podB))), false)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, f.entries, byAddr); diff != "" {
		t.Errorf("what stays (-want +got):\n%s", diff)
	}
	if r.Listed != 4 || r.Deleted != 2 || len(r.Stale) != 2 || r.Incomplete || f.deletions != 1 {
		t.Errorf("report %+v, %d deletions", r, f.deletions)
	}
	if got, want := r.String(), "2 stale UDP flows among 4, 2 deleted: demo/dns:dns/udp 2"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestCleanSaysWhatIsGone(t *testing.T) {
	r, err := conntrack.Clean(context.Background(), table(), of(program(dns(podB))), of(program()), true)
	if err != nil || len(r.Stale) != 3 {
		t.Fatalf("%+v, %v; want 3 stale flows", r, err)
	}
	for _, s := range r.Stale {
		if !s.Gone || s.Service.Display() != "demo/dns:dns" {
			t.Errorf("%+v is not said to be of a Service that is gone", s)
		}
	}
}

func TestDryRunDeletesNothing(t *testing.T) {
	f := table()
	r, err := conntrack.Clean(context.Background(), f, nil, of(program(dns(podB))), true)
	if err != nil || len(r.Stale) != 2 || r.Deleted != 0 {
		t.Errorf("%+v, %v; want two stale flows, none deleted", r, err)
	}
	if len(f.entries) != 4 || f.deletions != 0 {
		t.Errorf("a dry run deleted: %d entries are left", len(f.entries))
	}
}

func TestTableIsNotReadForNothing(t *testing.T) {
	f := table()
	if _, err := conntrack.Clean(context.Background(), f, nil, of(program(tcp(dns(podB)))), false); err != nil || f.listings != 0 {
		t.Errorf("%d listings, %v; want none where there is no UDP", f.listings, err)
	}
}

func TestInterruptedListingIsRepeated(t *testing.T) {
	for _, c := range []struct {
		interrupted, listings, left int
		incomplete                  bool
	}{
		{1, 2, 2, false},
		{4, 5, 2, false},
		{9, 5, 3, true}, // what the last listing showed is deleted all the same
	} {
		f := table()
		f.interrupted = c.interrupted
		r, err := conntrack.Clean(context.Background(), f, nil, of(program(dns(podB))), false)
		if err != nil || r.Incomplete != c.incomplete || f.listings != c.listings || len(f.entries) != c.left {
			t.Errorf("interrupted %d times: %+v, %v, %d listings, %d entries left; want %+v", c.interrupted, r, err, f.listings, len(f.entries), c)
		}
	}
}

func TestReportStaysShort(t *testing.T) {
	f := &fake{local: nodeAddrs}
	old := program()
	for i := range 30 {
		s := only(dns(podA), ir.ClusterIP)
		s.Name = string(rune('a'+i%26)) + string(rune('a'+i/26))
		s.Frontends[0].Port = uint16(1000 + i)
		old.Services = append(old.Services, s)
		f.entries = append(f.entries, flow(netip.AddrPortFrom(s.Frontends[0].Addr, s.Frontends[0].Port).String(), podA))
	}
	r, err := conntrack.Clean(context.Background(), f, of(old), nil, false)
	if err != nil {
		t.Fatal(err)
	}
	if text := r.String(); strings.Count(text, ",") != 11 || !strings.HasSuffix(text, ", others 20") {
		t.Errorf("%s", text)
	}
}

// flows draws entries whose parts come from Programs: destinations that are
// Services', were, or only look so; answers from endpoints and others.
func flows(t *rapid.T, ps []*ir.Program) []conntrack.Entry {
	local := irtest.Addr(ir.IPv4, 1, 1)
	dsts := []netip.AddrPort{at("8.8.8.8:53"), netip.AddrPortFrom(local, 9)}
	from := []netip.AddrPort{at("172.17.0.2:80")}
	for _, p := range ps {
		for _, s := range p.Services {
			from = append(from, s.Serving...)
			for _, f := range s.Frontends {
				if f.Kind != ir.NodePort {
					dsts = append(dsts, netip.AddrPortFrom(f.Addr, f.Port))
					continue
				}
				for _, a := range []netip.Addr{irtest.Addr(p.Family, 1, 1), irtest.Addr(p.Family, 50, 2), irtest.Addr(p.Family, 50, 3), irtest.Addr(p.Family, 77, 1), p.Family.Loopback().Addr().Next()} {
					dsts = append(dsts, netip.AddrPortFrom(a, f.Port))
				}
			}
		}
	}
	one := rapid.Custom(func(t *rapid.T) conntrack.Entry {
		e := conntrack.Entry{Src: netip.AddrPortFrom(local, rapid.Uint16().Draw(t, "port"))}
		e.Protocol = rapid.SampledFrom([]ir.Protocol{ir.UDP, ir.UDP, ir.UDP, ir.TCP}).Draw(t, "protocol")
		e.Dst = rapid.SampledFrom(dsts).Draw(t, "to")
		e.ReplySrc = rapid.SampledFrom(append(from, e.Dst)).Draw(t, "from")
		return e
	})
	return rapid.SliceOfN(one, 0, 20).Draw(t, "flows")
}

// drawnLocal are the node's addresses in drawn worlds.
func drawnLocal(f ir.Family) []netip.Prefix {
	var out []netip.Prefix
	for _, a := range []netip.Addr{irtest.Addr(f, 1, 1), irtest.Addr(f, 50, 2)} {
		out = append(out, netip.PrefixFrom(a, a.BitLen()))
	}
	return append(out, f.Loopback())
}

// owners are the UDP service ports that a destination leads to, found slowly:
// addresses of their own first, node ports where none has it.
func owners(ps []*ir.Program, dst netip.AddrPort) (addressed []*ir.ServicePort) {
	var ports []*ir.ServicePort
	for _, p := range ps {
		for _, s := range p.Services {
			for _, f := range s.Frontends {
				switch {
				case s.Protocol != ir.UDP || !p.Family.Of(dst.Addr()) || f.Port != dst.Port():
				case f.Kind != ir.NodePort && f.Addr == dst.Addr():
					addressed = append(addressed, s)
				case f.Kind == ir.NodePort && nodePortAt(p, dst.Addr()):
					ports = append(ports, s)
				}
			}
		}
	}
	if len(addressed) > 0 {
		return addressed
	}
	return ports
}

func nodePortAt(p *ir.Program, a netip.Addr) bool {
	isLocal := slices.ContainsFunc(drawnLocal(p.Family), func(l netip.Prefix) bool { return l.Contains(a) })
	n := p.Options.NodePorts
	if a.IsLoopback() {
		return p.Options.LocalhostNodePorts && (n.All || slices.Contains(n.Addrs, a))
	}
	return n.All && isLocal || slices.Contains(n.Addrs, a) ||
		isLocal && slices.ContainsFunc(n.Prefixes, func(l netip.Prefix) bool { return l.Contains(a) })
}

// expect says whether an entry is stale, from the rule's words.
func expect(old, new []*ir.Program, e conntrack.Entry) bool {
	if e.Protocol != ir.UDP {
		return false
	}
	if now := owners(new, e.Dst); len(now) > 0 {
		return !slices.ContainsFunc(now, func(s *ir.ServicePort) bool { return slices.Contains(s.Serving, e.ReplySrc) })
	}
	return len(owners(old, e.Dst)) > 0 && e.ReplySrc != e.Dst
}

// Nothing healthy is ever deleted, everything stale is, and then nothing is.
func TestCleanDeletesExactlyTheStale(t *testing.T) {
	count := map[bool]int{}
	rapid.Check(t, func(t *rapid.T) {
		old := rapid.SliceOfN(irtest.Programs(), 0, 1).Draw(t, "old")
		new := rapid.SliceOfN(irtest.Programs(), 0, 1).Draw(t, "new")
		f := &fake{entries: flows(t, append(slices.Clone(old), new...))}
		f.local = append(drawnLocal(ir.IPv4), drawnLocal(ir.IPv6)...)
		before := slices.Clone(f.entries)
		if _, err := conntrack.Clean(context.Background(), f, old, new, false); err != nil {
			t.Fatal(err)
		}
		for _, e := range before {
			stale := expect(old, new, e)
			count[stale]++
			if slices.Contains(f.entries, e) == stale {
				t.Fatalf("%s: deleted %v, want %v", e, !stale, stale)
			}
		}
		if r, err := conntrack.Clean(context.Background(), f, old, new, false); err != nil || r.Deleted != 0 {
			t.Fatalf("the second time: %+v, %v", r, err)
		}
	})
	if count[true] < 3 || count[false] < 3 {
		t.Errorf("%d stale and %d healthy flows were drawn: too few to tell", count[true], count[false])
	}
}
