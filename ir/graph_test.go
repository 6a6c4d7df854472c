package ir_test

import (
	"slices"
	"testing"

	"svcc/ir"
)

// Each step comes once, however many ways lead to it, and a guard before both of
// what it leads to.
func TestSteps(t *testing.T) {
	shared := &ir.Masquerade{Next: &ir.Balance{}}
	then := &ir.Guard{Then: shared, Else: &ir.Refuse{Reason: ir.SourceRefused}}
	first := &ir.Guard{Then: then, Else: shared}
	want := []ir.Step{first, then, shared, shared.Next, then.Else}
	if got := slices.Collect(ir.Steps(first)); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	other := &ir.Masquerade{Next: shared}
	if got := slices.Collect(ir.Steps(first, other, first)); !slices.Equal(got, append(want, other)) {
		t.Errorf("of three ways: %v, want %v and %v", got, want, other)
	}
	var long ir.Step = &ir.Balance{}
	want = []ir.Step{long}
	for range 20 { // more than are kept without a map; each shared twice
		long = &ir.Guard{Then: long, Else: long}
		want = slices.Insert(want, 0, long)
	}
	if got := slices.Collect(ir.Steps(long)); !slices.Equal(got, want) {
		t.Errorf("%d steps of a long way, want %d", len(got), len(want))
	}
	for s := range ir.Steps(first) {
		if s == then.Else {
			t.Error("a step came after the end was asked for")
		}
		if s == shared {
			break
		}
	}
}

// What a way can end at: the source ranges' refusal is none of the frontend's.
func TestWaysEnd(t *testing.T) {
	refused, none := &ir.Refuse{Reason: ir.SourceRefused}, &ir.Refuse{Reason: ir.NoLocalEndpoints}
	for _, c := range []struct {
		way      ir.Step
		delivers bool
		refusal  ir.Reason
	}{
		{&ir.Deliver{}, true, 0},
		{&ir.Guard{Then: &ir.Balance{}, Else: refused}, true, 0},
		{&ir.Guard{Then: none, Else: refused}, false, ir.NoLocalEndpoints},
		{&ir.Guard{Then: refused, Else: &ir.Masquerade{Next: none}}, false, ir.NoLocalEndpoints},
		{&ir.Guard{Then: &ir.Masquerade{Next: &ir.Balance{}}, Else: none}, true, ir.NoLocalEndpoints},
		{refused, false, 0},
	} {
		if d, r := ir.Delivers(c.way), ir.Refusal(c.way); d != c.delivers || r != c.refusal {
			t.Errorf("%#v: delivers %t, refusal %v; want %t, %v", c.way, d, r, c.delivers, c.refusal)
		}
	}
}
