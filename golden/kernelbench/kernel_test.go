package main

import (
	"context"
	"io"
	"math"
	"net/netip"
	"strings"
	"testing"
	"time"

	"svcc/golden/lab"
)

// Every layout of a small cluster loads, every packet takes its way, and every
// figure is there. No figure is judged: machines differ.
func TestKernelRun(t *testing.T) {
	lab.Require(t)
	o := options{sizes: []int{20, 1000}, endpoints: 3, large: 30, rounds: 1, loads: 2, packets: 2 * chunk, slowest: 1000, loadTimeout: 10 * time.Minute}
	dir := t.TempDir()
	layouts, err := prepare(t.Context(), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(dir)
	defer w.close()
	if err := w.build(t.Context(), layouts, o); err != nil {
		t.Fatal(err)
	}
	if err := w.traffic(t.Context(), layouts, o); err != nil {
		t.Fatal(err)
	}
	if len(layouts) != 8+2*6 {
		t.Errorf("%d layouts", len(layouts))
	}
	for _, l := range layouts {
		for _, x := range l.targets {
			if ns := l.ns(x.name); math.IsNaN(ns) || ns <= 0 {
				t.Errorf("%s: a packet to %s takes %v ns", l, x.name, ns)
			}
		}
		if l.node == nil || l.load <= 0 {
			t.Errorf("%s: loaded in %v", l, l.load)
		}
	}
	if err := report(io.Discard, layouts, o); err != nil {
		t.Error(err)
	}
}

// A packet that goes elsewhere than it is counted for ends the run.
func TestKernelWrongWay(t *testing.T) {
	lab.Require(t)
	for name, wrong := range map[string]target{
		f1: {toLast, []netip.AddrPort{only}, true},     // nothing translates it
		f2: {toNothing, []netip.AddrPort{only}, false}, // something does
	} {
		dir := t.TempDir()
		all, err := floors(dir)
		if err != nil {
			t.Fatal(err)
		}
		l := find(all, "legacy", name, 0)
		l.targets = []target{wrong}
		w := newWorld(dir)
		defer w.close()
		o := options{loadTimeout: 10 * time.Minute}
		if err := w.build(t.Context(), []*layout{l}, o); err != nil {
			t.Fatal(err)
		}
		if err := w.traffic(t.Context(), []*layout{l}, o); err == nil || !strings.Contains(err.Error(), wrong.name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A load that takes too long leaves its layout out; an end of the run ends it.
func TestKernelLoadEnds(t *testing.T) {
	lab.Require(t)
	dir := t.TempDir()
	all, err := floors(dir)
	if err != nil {
		t.Fatal(err)
	}
	l := all[:1]
	w := newWorld(dir)
	defer w.close()
	if err := w.build(t.Context(), l, options{loadTimeout: time.Nanosecond}); err != nil {
		t.Errorf("a load that takes too long is an error: %v", err)
	}
	if l[0].node != nil {
		t.Error("a load that takes too long counts")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.build(ended, l, options{loadTimeout: 10 * time.Minute}); err == nil {
		t.Error("a run that was ended goes on")
	}
}
