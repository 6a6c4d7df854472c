package main

import (
	"bytes"
	"encoding/hex"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"svcc/ir"
)

// The frame as RFC 791 and RFC 9293 spell it, byte by byte; the checksum is
// worked out by hand: 4500+0028+0000+4000+4006+0ac0+0001+0a60+0007 = da56.
func TestFrame(t *testing.T) {
	f := newFrame(nodeMAC)
	f.connect(netip.MustParseAddrPort("10.192.0.1:2000"), netip.MustParseAddrPort("10.96.0.7:80"))
	want := "020000000001" + "020000000002" + "0800" +
		"4500" + "0028" + "0000" + "4000" + "4006" + "25a9" + "0ac00001" + "0a600007" +
		"07d0" + "0050" + "00000000" + "00000000" + "5002" + "faf0" + "0000" + "0000"
	if got := hex.EncodeToString(f[:]); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	f.connect(netip.MustParseAddrPort("10.192.0.2:2001"), netip.MustParseAddrPort("10.96.0.7:80"))
	if sum := checksum(f[ethSize : ethSize+20]); sum != 0 {
		t.Errorf("the header of a frame that is used again sums up to %#x", sum)
	}
}

// Sources are pods, never endpoints, and do not come again soon.
func TestUsersDiffer(t *testing.T) {
	seen := map[netip.AddrPort]bool{}
	for i := range uint32(200000) {
		u := user(i)
		if seen[u] {
			t.Fatalf("connection %d has the source %s again", i, u)
		}
		seen[u] = true
		if !podRange.Contains(u.Addr()) {
			t.Fatalf("%s is no pod", u)
		}
	}
	end := user(60000*8000 - 1).Addr()
	if !podRange.Contains(end) || end.Less(firstUser) {
		t.Errorf("the last user is %s", end)
	}
	if lastPod := plus(firstPod, maxServices*20); !lastPod.Less(firstUser) {
		t.Errorf("with 20 endpoints a service, endpoint %s is a user", lastPod)
	}
}

func TestUniform(t *testing.T) {
	p := uniform(1000, 5, 500, 1)
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	if len(p.Services) != 1001 || p.Known != 5500 {
		t.Errorf("%d services, %d endpoints", len(p.Services), p.Known)
	}
	ts := map[string]target{}
	for _, x := range targetsOf(p) {
		ts[x.name] = x
	}
	vip := func(i int) netip.AddrPort { return netip.AddrPortFrom(p.Services[i].Frontends[0].Addr, 80) }
	if ts[toLast].to[0] != vip(1000) || ts[toLarge].to[0] != vip(0) || ts[toMiddle].to[0] != vip(501) || len(ts[toRandom].to) != 1000 {
		t.Errorf("targets %v", ts)
	}
	taken := ts[toUnused].to[0].Addr()
	if slices.ContainsFunc(p.Services, func(s *ir.ServicePort) bool { return s.Frontends[0].Addr == taken }) {
		t.Errorf("%s is not unused", taken)
	}
}

func TestLineBefore(t *testing.T) {
	text := "*filter\n:X - [0:0]\n-A X -j ACCEPT\nCOMMIT\n*nat\n:X - [0:0]\n-A X -j DROP\nCOMMIT\n"
	got := before([]byte(text), "-A X", "new\n")
	want := strings.Replace(text, "-A X -j DROP", "new\n-A X -j DROP", 1)
	if string(got) != want {
		t.Errorf("got %s", got)
	}
	for _, words := range []string{"-A Y", "*filter"} {
		if got := before([]byte(text), words, "new\n"); got != nil {
			t.Errorf("%s is found in %s", words, got)
		}
	}
}

// figures are a run with one layout that has none.
func figures() []*layout {
	of := func(flavour, name string, services, bytes int, cost map[string]float64) *layout {
		return &layout{flavour: flavour, name: name, services: services, bytes: bytes, rules: 3, chains: 2, load: 2e9, cost: cost}
	}
	out := []*layout{
		of("legacy", f1, 0, 100, map[string]float64{toNothing: 1000.4, toNobody: 500}),
		of("legacy", f1k, 0, 100, map[string]float64{toNothing: 1200}),
		of("legacy", f2k, 0, 100, map[string]float64{toNothing: 1200, toLast: 1300}),
		of("legacy", "-O0", 100, 900, map[string]float64{toNothing: 3000, toLast: 3100}),
		of("legacy", "-O1", 100, 300, map[string]float64{toNothing: 1380, toLast: 1820}),
		of("legacy", "-O0", 1000, 9000, nil),
		of("legacy", "-O1", 1000, 3000, map[string]float64{toNothing: 1380, toLast: 1690, toLarge: 1300}),
	}
	out[5].load = 0 // did not load in time
	for _, l := range out {
		if l.load > 0 {
			l.node = &node{}
		}
	}
	return out
}

func TestTable(t *testing.T) {
	want := []string{
		"services iptables layout load s bytes rules chains last middle random none unused large",
		"legacy F1 100 3 2 1000",
		"legacy sending alone 500",
		"legacy F1k 100 3 2 1200",
		"legacy F2k 100 3 2 1300 1200",
		"100 legacy -O0 2.00 900 3 2 3100 3000",
		"100 legacy -O1 2.00 300 3 2 1820 1380",
		"1000 legacy -O0 - 9000 3 2",
		"1000 legacy -O1 2.00 3000 3 2 1690 1380 1300",
	}
	rows := cells(figures())
	var plain, marked bytes.Buffer
	if err := aligned(&plain, rows); err != nil {
		t.Fatal(err)
	}
	if err := markdown(&marked, rows); err != nil {
		t.Fatal(err)
	}
	if got := words(plain.String()); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant the words\n%s", plain.String(), strings.Join(want, "\n"))
	}
	got := words(strings.ReplaceAll(marked.String(), "|", " "))
	if rule := strings.TrimSpace(strings.Repeat("---: ", 13)); got[1] != rule {
		t.Errorf("below the head stands %q", got[1])
	}
	if got = slices.Delete(got, 1, 2); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant the words\n%s", marked.String(), strings.Join(want, "\n"))
	}
	for line := range strings.Lines(marked.String()) {
		if n := strings.Count(line, "|"); n != 14 {
			t.Errorf("%d columns: %s", n-1, line)
		}
	}
}

// words gives the words of each line: columns are aligned by blanks.
func words(text string) (out []string) {
	for line := range strings.Lines(text) {
		out = append(out, strings.Join(strings.Fields(line), " "))
	}
	return out
}

func TestGoals(t *testing.T) {
	var out bytes.Buffer
	if err := printGoals(&out, goals(figures())); err != nil {
		t.Fatal(err)
	}
	want := `
goal: legacy -O1 1000, no service, over F1k: 1380 / 1200 ns = 1.15, at most 1.15: yes
goal: legacy -O1 1000, no service, 1000 over 100 services: 1380 / 1380 ns = 1.00, at most 1.10: yes
goal: legacy -O1 1000, last service, over F2k: 1690 / 1300 ns = 1.30, at most 1.30: yes
goal: legacy -O1 1000, large service, over F2k: 1300 / 1300 ns = 1.00, at most 1.45: yes
goal: legacy -O1 1000, load, over -O0: not measured
goal: legacy -O1 1000, text, over -O0: 3000 / 9000 bytes = 0.33, at most 0.33: yes
`
	if out.String() != want {
		t.Errorf("got%swant%s", out.String(), want)
	}
	if g := (goal{got: 116, of: 100, bound: 1.15}); g.met() != "no" {
		t.Errorf("116 over 100 is %q within 1.15", g.met())
	}
}

func TestFlags(t *testing.T) {
	o, err := parseFlags([]string{"-quick"})
	if err != nil || !slices.Equal(o.sizes, []int{100, 1000, 10000}) || o.loads != 1 {
		t.Errorf("-quick: %+v, %v", o, err)
	}
	for _, args := range [][]string{{"-services", "1"}, {"-services", "x"}, {"-services", "100,"}, {"-services", "100001"}} {
		if _, err := parseFlags(args); err == nil {
			t.Errorf("%v is accepted", args)
		}
	}
}
