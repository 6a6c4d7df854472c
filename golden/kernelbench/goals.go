package main

import (
	"fmt"
	"io"
	"math"
)

// goal is a ratio that must not be above a bound.
type goal struct {
	who, what string
	got, of   float64 // the ratio is got/of
	unit      string
	bound     float64
}

const missing = "not measured"

// met says yes or no, or that a figure is missing.
func (g goal) met() string {
	r := g.got / g.of
	switch {
	case math.IsNaN(r) || math.IsInf(r, 0):
		return missing
	case r <= g.bound:
		return "yes"
	}
	return "no"
}

// find gives the layout, or nil.
func find(layouts []*layout, flavour, name string, services int) *layout {
	for _, l := range layouts {
		if l.flavour == flavour && l.name == name && l.services == services {
			return l
		}
	}
	return nil
}

// goals are what the levels above 0 are held to: at goalSize, or the largest
// size below it that was measured.
func goals(layouts []*layout) []goal {
	least, at, most := sizes(layouts)
	var out []goal
	for _, level := range []string{"-O1", "-O2"} {
		for _, f := range flavours {
			get := func(name string, n int) *layout { return find(layouts, f, name, n) }
			l := get(level, at)
			if l == nil {
				continue
			}
			add := func(what string, got, of float64, unit string, bound float64) {
				out = append(out, goal{l.String(), what, got, of, unit, bound})
			}
			add("no service, over F1k", l.ns(toNothing), get(f1k, 0).ns(toNothing), "ns", 1.15)
			add(fmt.Sprintf("no service, %d over %d services", most, least), get(level, most).ns(toNothing), get(level, least).ns(toNothing), "ns", flat)
			add("last service, over F2k", l.ns(toLast), get(f2k, 0).ns(toLast), "ns", 1.30)
			add("large service, over F2k", l.ns(toLarge), get(f2k, 0).ns(toLast), "ns", 1.45)
			if f == "legacy" {
				zero := get("-O0", at)
				add("load, over -O0", cpu(l), cpu(zero), "s", 1.0/5)
				add("text, over -O0", size(l), size(zero), "bytes", 1.0/3)
			} else {
				add("load, over iptables-legacy", cpu(l), cpu(find(layouts, "legacy", level, at)), "s", 4)
			}
		}
	}
	return out
}

// flat is what noise may make of no growth.
const flat = 1.10

// sizes gives the least, the one that goals speak of, and the most services.
func sizes(layouts []*layout) (least, at, most int) {
	for _, l := range layouts {
		n := l.services
		if n == 0 {
			continue
		}
		if least == 0 || n < least {
			least = n
		}
		most = max(most, n)
		if n <= goalSize {
			at = max(at, n)
		}
	}
	return least, at, most
}

func cpu(l *layout) float64 {
	if l == nil || l.load == 0 {
		return math.NaN()
	}
	return l.load.Seconds()
}

func size(l *layout) float64 {
	if l == nil {
		return math.NaN()
	}
	return float64(l.bytes)
}

func printGoals(out io.Writer, all []goal) error {
	fmt.Fprintln(out)
	for _, g := range all {
		if _, err := fmt.Fprintf(out, "goal: %s\n", g); err != nil {
			return err
		}
	}
	return nil
}

// String gives "legacy -O1 10000, text, over -O0: 3000 / 9000 bytes = 0.33, at
// most 0.33: yes".
func (g goal) String() string {
	what := g.who + ", " + g.what + ": "
	if g.met() == missing {
		return what + missing
	}
	format := "%.0f / %.0f"
	if g.unit == "s" {
		format = "%.2f / %.2f"
	}
	return what + fmt.Sprintf(format+" %s = %.2f, at most %.2f: %s", g.got, g.of, g.unit, g.got/g.of, g.bound, g.met())
}
