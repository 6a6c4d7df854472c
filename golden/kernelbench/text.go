package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"svcc/compiler/passes"
	"svcc/emit"
	"svcc/emit/iptables"
	"svcc/ir"
)

// flavours of iptables, by the names of their tools.
var flavours = []string{"legacy", "nft"}

// layout is one text in one flavour, and what was measured of it.
type layout struct {
	flavour  string
	name     string // "-O1", or a floor's
	services int    // 0 for floors
	file     string
	targets  []target

	bytes, rules, chains int
	load                 time.Duration // CPU time of the loading process
	node                 *node         // nil if it did not load
	cost                 map[string]float64
}

// target is a kind of connection, with the destinations that it is sent to in
// turn.
type target struct {
	name string
	to   []netip.AddrPort
	// translated says that the destination must have become a pod's.
	translated bool
}

// The names of targets, in the order of columns.
const (
	toLast    = "last"
	toMiddle  = "middle"
	toRandom  = "random"
	toNothing = "none"
	toUnused  = "unused"
	toLarge   = "large"
	toNobody  = "sink" // frames for somebody else: what sending alone costs
)

var columns = []string{toLast, toMiddle, toRandom, toNothing, toUnused, toLarge}

// String gives "legacy -O1 10000".
func (l *layout) String() string {
	if l.services == 0 {
		return l.flavour + " " + l.name
	}
	return fmt.Sprint(l.flavour, " ", l.name, " ", l.services)
}

// ns is what a new connection costs; not a number if it was not measured.
func (l *layout) ns(target string) float64 {
	if l == nil {
		return math.NaN()
	}
	if v, ok := l.cost[target]; ok {
		return v
	}
	return math.NaN()
}

// prepare writes every text to a file and gives the layouts: floors first, then
// by size.
func prepare(ctx context.Context, dir string, o options) ([]*layout, error) {
	out, err := floors(dir)
	if err != nil {
		return nil, err
	}
	for _, n := range o.sizes {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		progress("compile %d services", n)
		more, err := levels(dir, n, o)
		if err != nil {
			return nil, fmt.Errorf("%d services: %w", n, err)
		}
		out = append(out, more...)
	}
	return out, nil
}

// levels compiles one cluster at each level.
func levels(dir string, n int, o options) ([]*layout, error) {
	p, err := program(dir, n, o)
	if err != nil {
		return nil, err
	}
	if len(plain(p)) == 0 {
		return nil, errors.New("there is none to send connections to")
	}
	ts := targetsOf(p)
	var out []*layout
	for level := range 3 {
		if level == 0 && n > goalSize {
			continue
		}
		text, err := compile(p, level)
		if err != nil {
			return nil, err
		}
		name := fmt.Sprint("-O", level)
		for _, f := range flavours {
			if level == 0 && f == "nft" && n > o.slowest {
				continue
			}
			l, err := newLayout(dir, f, name, n, text)
			if err != nil {
				return nil, err
			}
			l.targets = ts
			out = append(out, l)
		}
	}
	return out, nil
}

func program(dir string, n int, o options) (*ir.Program, error) {
	if o.mix {
		return mixed(dir, n, o.endpoints, o.seed)
	}
	large := o.large
	if n < withLarge {
		large = 0
	}
	p := uniform(n, o.endpoints, large, o.seed)
	return p, p.Check()
}

func targetsOf(p *ir.Program) []target {
	all := plain(p)
	middle := all[len(all)/2]
	out := []target{
		{toLast, all[len(all)-1:], true},
		{toMiddle, []netip.AddrPort{middle}, true},
		{toRandom, all, true},
		{toNothing, []netip.AddrPort{elsewhere}, false},
		{toUnused, []netip.AddrPort{unused(p, middle.Addr())}, false},
	}
	if s := p.Services[0]; s.Name == largeName {
		out = append(out, target{toLarge, []netip.AddrPort{netip.AddrPortFrom(s.Frontends[0].Addr, s.Frontends[0].Port)}, true})
	}
	return out
}

// compile gives a Program's text at a level, with the jumps from the built-in
// chains.
func compile(p *ir.Program, level int) ([]byte, error) {
	g, err := passes.Graph(p, level)
	if err != nil {
		return nil, err
	}
	sections, err := iptables.Backend{}.Emit(g, emit.Options{Level: level, Hooks: true})
	if err != nil {
		return nil, err
	}
	return sections[0].Text, nil
}

func newLayout(dir, flavour, name string, services int, text []byte) (*layout, error) {
	l := &layout{flavour: flavour, name: name, services: services, cost: map[string]float64{}}
	l.bytes = len(text)
	l.rules = bytes.Count(text, []byte("\n-A "))
	l.chains = bytes.Count(text, []byte("\n:"))
	l.file = filepath.Join(dir, fmt.Sprint(flavour, name, "-", services))
	return l, os.WriteFile(l.file, text, 0o600)
}

// The floors.
const (
	f1  = "F1"  // an empty nat table, with conntrack at work
	f2  = "F2"  // F1 and one DNAT rule
	f1k = "F1k" // -O0 of a cluster without Services: kube-proxy's own chains
	f2k = "F2k" // F1k and one DNAT rule, first in KUBE-SERVICES
)

// empty is a nat table in which forwarded packets meet no rule. Without one
// that asks for a state, conntrack would not run.
const empty = `*nat
:PREROUTING ACCEPT [0:0]
:INPUT ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:POSTROUTING ACCEPT [0:0]
-A OUTPUT -m conntrack --ctstate INVALID -j RETURN
COMMIT
`

// only is the one Service of the floors that have one.
var only = netip.AddrPortFrom(plus(firstVIP, 0x1234), 80)

// floors gives what would be paid without Services, and with one.
func floors(dir string) ([]*layout, error) {
	none, err := compile(uniform(0, 0, 0, 0), 0)
	if err != nil {
		return nil, err
	}
	texts := []struct {
		name string
		text []byte
	}{
		{f1, []byte(empty)},
		{f2, before([]byte(empty), "COMMIT", dnat("PREROUTING"))},
		{f1k, none},
		{f2k, before(none, "-A KUBE-SERVICES", dnat("KUBE-SERVICES"))},
	}
	nowhere := target{toNothing, []netip.AddrPort{elsewhere}, false}
	last := target{toLast, []netip.AddrPort{only}, true}
	var out []*layout
	for _, x := range texts {
		if x.text == nil {
			return nil, errors.New("floor " + x.name + ": the text has no place for a rule")
		}
		for _, f := range flavours {
			l, err := newLayout(dir, f, x.name, 0, x.text)
			if err != nil {
				return nil, err
			}
			l.targets = []target{nowhere}
			switch x.name {
			case f1:
				l.targets = append(l.targets, target{toNobody, []netip.AddrPort{elsewhere}, false})
			case f2, f2k:
				l.targets = append(l.targets, last)
			}
			out = append(out, l)
		}
	}
	return out, nil
}

func dnat(chain string) string {
	return fmt.Sprintf("-A %s -d %s/32 -p tcp -m tcp --dport %d -j DNAT --to-destination %s:8080\n", chain, only.Addr(), only.Port(), firstPod)
}

// before puts a line before the first in the nat table that starts with the
// words; nil if there is none.
func before(text []byte, words, line string) []byte {
	nat := bytes.Index(text, []byte("*nat\n"))
	if nat < 0 {
		return nil
	}
	at := bytes.Index(text[nat:], []byte("\n"+words))
	if at < 0 {
		return nil
	}
	at += nat + 1
	return bytes.Join([][]byte{text[:at], []byte(line), text[at:]}, nil)
}
