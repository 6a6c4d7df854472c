package iptables

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"svcc/emit/iptables/rule"
	"svcc/ir"
)

// leafAt is a destination "10.0.0.1:80/tcp", or a node port ":80/udp".
func leafAt(s string) leaf {
	at, proto, _ := strings.Cut(s, "/")
	p, err := ir.ParseProtocol(proto)
	if err != nil {
		panic(err)
	}
	var f ir.Frontend
	if strings.HasPrefix(at, ":") {
		f.Kind = ir.NodePort
		at = "0.0.0.0" + at
	}
	a := netip.MustParseAddrPort(at)
	f.Port = a.Port()
	if f.Kind != ir.NodePort {
		f.Addr = a.Addr()
	}
	return leaf{newKey(f, p), &ir.Entry{Frontend: f, Service: ir.PortName{Protocol: p}}}
}

func leavesAt(list ...string) (out []leaf) {
	for _, s := range list {
		out = append(out, leafAt(s))
	}
	return out
}

func TestKeys(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"10.0.0.1:80/tcp", "10.0.0.1:80/tcp", 56},
		{"10.0.0.1:80/tcp", "10.0.0.0:80/tcp", 31},
		{"10.0.0.1:80/tcp", "138.0.0.1:80/tcp", 0},
		{"10.0.0.1:80/tcp", "10.0.0.1:81/tcp", 55},
		{"10.0.0.1:80/tcp", "10.0.0.1:80/udp", 35}, // 6 and 17 differ from their fourth bit on
		{"[fd00::1]:80/tcp", "[fd00::3]:80/tcp", 126},
		{":30000/tcp", ":30001/tcp", 23},
	} {
		a, b := leafAt(c.a).key, leafAt(c.b).key
		if a.common(b) != c.want || b.common(a) != c.want {
			t.Errorf("%s and %s share %d bits, want %d", c.a, c.b, a.common(b), c.want)
		}
	}
	k := leafAt("10.1.2.3:8080/sctp").key
	if k.addr() != netip.MustParseAddr("10.1.2.3") || k.protocol() != ir.SCTP || k.addrBits() != 32 || leafAt(":80/tcp").key.addrBits() != 0 {
		t.Errorf("%v %v %d", k.addr(), k.protocol(), k.addrBits())
	}
	for n, want := range map[int]string{40: "0-65535", 41: "0-32767", 53: "8080-8087", 55: "8080-8081", 56: "8080-8080"} {
		if low, high := k.ports(n); fmt.Sprintf("%d-%d", low, high) != want {
			t.Errorf("ports of the first %d bits: %d-%d, want %s", n, low, high, want)
		}
	}
}

// Borders are multiples of three within the address and within the port; a
// protocol is one block.
func TestBorders(t *testing.T) {
	v4, v6, port := leafAt("10.0.0.1:80/tcp").key, leafAt("[fd00::1]:80/tcp").key, leafAt(":80/tcp").key
	for _, c := range []struct {
		k           key
		shared, end int
	}{
		{v4, 0, 3}, {v4, 2, 3}, {v4, 3, 6}, {v4, 29, 30}, {v4, 30, 32}, {v4, 31, 32},
		{v4, 32, 40}, {v4, 35, 40}, {v4, 40, 43}, {v4, 42, 43}, {v4, 43, 46}, {v4, 55, 56},
		{v6, 0, 3}, {v6, 126, 128}, {v6, 130, 136}, {v6, 136, 139},
		{port, 0, 8}, {port, 4, 8}, {port, 8, 11}, {port, 23, 24},
	} {
		if got := c.k.border(c.shared); got != c.end {
			t.Errorf("of %d bits with %d shared: border at %d, want %d", 8*len(c.k), c.shared, got, c.end)
		}
	}
}

func matchText(ms []rule.Match) string {
	b, _ := rule.Append(nil, &rule.Rule{Matches: ms})
	return strings.TrimSpace(strings.TrimPrefix(string(b), "-A "))
}

func TestBranchMatches(t *testing.T) {
	to := func(s string) *trie { return &trie{first: leafAt(s).key} }
	for _, c := range []struct {
		b    branch
		want string
	}{
		{branch{n: 21, to: to("10.96.9.1:80/tcp")}, "-d 10.96.8.0/21"},
		{branch{n: 32, to: to("10.96.9.1:80/tcp")}, "-d 10.96.9.1/32"},
		{branch{n: 126, to: to("[fd00::7]:80/tcp")}, "-d fd00::4/126"},
		{branch{n: 40, to: to("10.96.9.1:80/udp")}, "-p udp"},
		{branch{n: 43, to: to("10.96.9.1:80/udp")}, "-p udp --dport 0:8191"},
		{branch{n: 56, to: to("10.96.9.1:80/tcp")}, "-p tcp --dport 80"},
		{branch{n: 8, to: to(":30000/sctp")}, "-p sctp"},
		{branch{n: 20, to: to(":30001/tcp")}, "-p tcp --dport 30000:30015"},
		// A carved branch stands among others of other addresses.
		{branch{n: 13, to: to("10.96.9.1:80/tcp"), tier: 3}, "-d 10.96.0.0/13"},
		{branch{n: 40, to: to("10.96.9.1:80/udp"), tier: 3}, "-d 10.96.9.1/32 -p udp"},
		{branch{n: 55, to: to("10.96.9.1:80/tcp"), tier: 3}, "-d 10.96.9.1/32 -p tcp --dport 80:81"},
		{branch{n: 23, to: to(":30001/tcp"), tier: 3}, "-p tcp --dport 30000:30001"},
	} {
		if got := matchText(c.b.match()); got != c.want {
			t.Errorf("%d bits: %s, want %s", c.b.n, got, c.want)
		}
	}
}

// holds says whether a branch's matches hold for a key.
func (b branch) holds(k key) bool {
	a := k.addrBits()
	first := b.to.first
	low, high := first.ports(max(b.n, a+protoBits))
	port, _ := k.ports(8 * len(k))
	for _, m := range b.match() {
		switch m := m.(type) {
		case rule.Address:
			if !m.Prefix.Contains(k.addr()) {
				return false
			}
		case rule.ProtocolOnly:
			if k.protocol() != ir.Protocol(m) {
				return false
			}
		case rule.Ports:
			if m.Low != low || m.High != high || port < m.Low || port > m.High {
				return false
			}
		}
	}
	return true
}

// find follows a key as a packet goes: into the first branch that matches. It
// gives the chains below the root and the leaves where the way ends.
func (t *trie) find(k key) (depth int, leaves []leaf) {
	for _, b := range t.branches {
		if b.holds(k) {
			depth, leaves = b.to.find(k)
			return depth + 1, leaves
		}
	}
	return 0, t.leaves
}

// crowd makes n destinations without order; skewed ones differ from one key in
// a few bits each, as no blocks of bits divide them.
func crowd(r *rand.Rand, n, bytes int, skewed bool) []leaf {
	seen := map[key]bool{}
	base := make([]byte, bytes)
	var out []leaf
	for len(out) < n {
		b := slices.Clone(base)
		b = append(b, byte([]ir.Protocol{ir.TCP, ir.UDP, ir.SCTP}[r.IntN(3)]), byte(r.IntN(256)), byte(r.IntN(256)))
		for i := range bytes {
			if !skewed {
				b[i] = byte(r.IntN(256))
			}
		}
		for range r.IntN(4) {
			if skewed && bytes > 0 {
				i := r.IntN(8 * bytes)
				b[i/8] ^= 0x80 >> (i % 8)
			}
		}
		if k := key(b); !seen[k] {
			seen[k] = true
			out = append(out, leaf{key: k, entry: &ir.Entry{}})
		}
	}
	return out
}

// Whatever the keys: each is found where it belongs, within the levels, among
// few others, by short chains.
func TestTrieFinds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bytes := rapid.SampledFrom([]int{0, 4, 16}).Draw(t, "address bytes")
		n := rapid.SampledFrom([]int{1, 4, 5, 40, 1000, 5000}).Draw(t, "keys")
		skewed := rapid.Bool().Draw(t, "skewed")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		keys := crowd(r, n, bytes, skewed)
		root := newTrie(keys)
		if root.depth > levels {
			t.Errorf("%d levels", root.depth)
		}
		for _, x := range keys {
			depth, leaves := root.find(x.key)
			if depth > levels || !slices.ContainsFunc(leaves, func(y leaf) bool { return y.key == x.key }) {
				t.Fatalf("%x: %d chains deep, %d leaves", x.key, depth, len(leaves))
			}
		}
		root.walk(func(c *trie) {
			if len(c.leaves) > 2*leafSize || len(c.branches) > pieces+1 || (len(c.leaves) > 0) == (len(c.branches) > 0) {
				t.Errorf("a chain of %d leaves and %d branches", len(c.leaves), len(c.branches))
			}
		})
	})
}

func (t *trie) walk(f func(*trie)) {
	f(t)
	for _, b := range t.branches {
		b.to.walk(f)
	}
}

// Chains of one table's tree have names of their own.
func TestTreeChainsAreDistinct(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 0))
		names := map[string]bool{}
		for _, p := range parts(crowd(r, 3000, []int{4, 16}[seed%2], seed%4 < 2)) {
			root := newTrie(p.leaves)
			all := []branch{{n: p.prefix.Bits() / splitBits * splitBits, to: root}}
			root.walk(func(c *trie) { all = append(all, c.branches...) })
			for _, b := range all {
				name := treeChain("T", b)
				if names[name] {
					t.Errorf("seed %d: two chains are named %s", seed, name)
				}
				names[name] = true
			}
		}
	}
}

// Blocks divide what is spread evenly; division by number comes only where
// blocks would need too many levels, and as late as can be.
func TestTrieCarvesLate(t *testing.T) {
	carved := func(keys []leaf) (n int) {
		newTrie(keys).walk(func(c *trie) {
			for _, b := range c.branches {
				if b.tier > 0 {
					n++
				}
			}
		})
		return n
	}
	r := rand.New(rand.NewPCG(1, 0))
	if n := carved(crowd(r, 5000, 4, false)); n > 0 {
		t.Errorf("%d carved branches among random addresses", n)
	}
	if n := carved(crowd(r, 5000, 0, false)); n > 0 {
		t.Errorf("%d carved branches among node ports", n)
	}
	if n := carved(crowd(r, 5000, 16, true)); n == 0 {
		t.Error("skewed keys are not carved")
	}
	// A hundred neighbours of one address below a wide trie.
	keys := crowd(r, 1000, 4, false)
	for i := range 20 {
		keys = append(keys, leafAt(fmt.Sprintf("10.96.0.1:%d/tcp", 1+i*i*i)), leafAt(fmt.Sprintf("10.96.0.1:%d/udp", 1+i*i*i)))
	}
	root := newTrie(keys)
	for _, b := range root.branches {
		if b.tier > 0 {
			t.Error("the root is divided by number")
		}
	}
}

func TestParts(t *testing.T) {
	for _, c := range []struct {
		name string
		list []string
		want string
	}{
		{"one", []string{"10.96.0.1:80/tcp"}, "10.96.0.1/32"},
		{"ports of one address", []string{"10.96.0.1:80/tcp", "10.96.0.1:81/udp"}, "10.96.0.1/32"},
		{"neighbours", []string{"10.96.0.1:80/tcp", "10.96.0.2:80/tcp"}, "10.96.0.0/30"},
		{"far from each other", []string{"10.96.0.1:80/tcp", "10.96.3.1:80/tcp", "203.0.113.1:80/tcp"}, "10.96.0.1/32 10.96.3.1/32 203.0.113.1/32"},
		{"too near for a guard more", []string{"10.96.0.0:80/tcp", "10.96.0.4:80/tcp"}, "10.96.0.0/29"},
		{"just far enough", []string{"10.96.0.0:80/tcp", "10.96.0.8:80/tcp"}, "10.96.0.0/32 10.96.0.8/32"},
		{"IPv6", []string{"[fd00::1]:80/tcp", "[fd00::2]:80/tcp", "[2001:db8::1]:80/tcp"}, "2001:db8::1/128 fd00::/126"},
	} {
		var got []string
		for _, p := range parts(leavesAt(c.list...)) {
			got = append(got, p.prefix.String())
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, want %s", c.name, got, c.want)
		}
	}
}

// Parts hold every destination once, apart from each other, eight at most.
func TestPartsHoldAll(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 0))
		keys := crowd(r, 1+r.IntN(200), []int{4, 16}[seed%2], seed%4 < 2)
		all := parts(keys)
		n := 0
		for i, p := range all {
			n += len(p.leaves)
			for _, x := range p.leaves {
				if !p.prefix.Contains(x.key.addr()) {
					t.Errorf("%s is not in %s", x.key.addr(), p.prefix)
				}
			}
			if i > 0 && all[i-1].prefix.Overlaps(p.prefix) {
				t.Errorf("%s and %s overlap", all[i-1].prefix, p.prefix)
			}
		}
		if n != len(keys) || len(all) > maxGuards {
			t.Errorf("%d of %d in %d parts", n, len(keys), len(all))
		}
	}
}

// Three levels share any number of endpoints.
func TestSplitWidth(t *testing.T) {
	for n, want := range map[int]int{1: 6, 6: 6, 7: 6, 216: 6, 217: 7, 343: 7, 500: 8, 512: 8, 513: 9, 1000: 10, 1001: 11} {
		if w := splitWidth(n); w != want || w*w*w < n {
			t.Errorf("%d endpoints: %d, want %d", n, w, want)
		}
	}
}

// Numbers sort as text, and have no name that is a hash.
func TestNumbers(t *testing.T) {
	last := ""
	for _, n := range []int{0, 1, 9, 10, 31, 32, 1023, 1024, 1 << 24} {
		s := number(n)
		if s <= last || len(s) != 5 {
			t.Errorf("%d is %q after %q", n, s, last)
		}
		last = s
	}
}
