package eval

import (
	"net/netip"
	"testing"

	"pgregory.net/rapid"
)

func branches() *rapid.Generator[[]Branch] {
	one := rapid.Custom(func(t *rapid.T) Branch {
		return Branch{
			Share:      OneIn(rapid.Uint64Range(1, 6).Draw(t, "share")),
			To:         netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, rapid.ByteRange(1, 2).Draw(t, "to")}), 80),
			DNAT:       rapid.Bool().Draw(t, "dnat"),
			Masquerade: rapid.Bool().Draw(t, "masquerade"),
			Forward:    rapid.SampledFrom([]Verdict{Policy, Accept, Drop}).Draw(t, "forward"),
			Sticky:     rapid.SampledFrom([]int{0, 10}).Draw(t, "sticky"),
		}
	})
	return rapid.SliceOfN(one, 0, 8)
}

// Normal form does not depend on the order, holds each kind of branch once and
// keeps each kind's whole share.
func TestNormalize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := branches().Draw(t, "branches")
		want := map[Branch]Share{}
		for _, b := range in {
			k := b
			k.Share = Share{}
			sum, err := want[k].Add(b.Share)
			if err != nil {
				t.Fatal(err)
			}
			want[k] = sum
		}
		other := rapid.Permutation(in).Draw(t, "order")
		got, err := Normalize(append([]Branch(nil), in...))
		if err != nil {
			t.Fatal(err)
		}
		again, err := Normalize(append([]Branch(nil), other...))
		if err != nil {
			t.Fatal(err)
		}
		if !got.Equal(again) {
			t.Errorf("two orders, two forms:\n%s\n%s", got, again)
		}
		if len(got) != len(want) {
			t.Errorf("%d branches, want %d", len(got), len(want))
		}
		for _, b := range got {
			k := b
			k.Share = Share{}
			if want[k] != b.Share {
				t.Errorf("%s, want a share of %s", b, want[k])
			}
		}
	})
}

func TestNormalizeInexact(t *testing.T) {
	b := Branch{Share: OneIn(1<<63 + 1)}
	c := Branch{Share: OneIn(1<<63 - 1)}
	if _, err := Normalize([]Branch{b, c}); err != ErrInexact {
		t.Errorf("error %v, want %v", err, ErrInexact)
	}
}

func TestBranchTexts(t *testing.T) {
	b := Branch{Share: OneIn(2), To: netip.MustParseAddrPort("10.0.0.1:80"), DNAT: true, Masquerade: true, Mark: 0x10, Output: Policy, Input: Accept, Sticky: 60}
	if got := b.String(); got != "1/2 to 10.0.0.1:80 masquerade mark 0x10 output=policy input=accept sticky 60s" {
		t.Error(got)
	}
	r := Branch{Share: Whole, To: netip.MustParseAddrPort("[fd00::1]:80"), Forward: Reject}
	if got := (Outcome{r}).String(); got != "1 reject as it is to [fd00::1]:80 forward=reject\n" {
		t.Error(got)
	}
	for _, c := range []struct {
		b    Branch
		want Verdict
	}{
		{Branch{}, Accept},
		{Branch{Output: Policy, Input: Drop}, Drop},
		{Branch{Output: Reject}, Reject},
		{Branch{Forward: Accept}, Accept},
	} {
		if got := c.b.Verdict(); got != c.want {
			t.Errorf("%s: %s, want %s", c.b, got, c.want)
		}
	}
}

func TestPacketTexts(t *testing.T) {
	p := Packet{Src: netip.MustParseAddrPort("10.0.0.1:40000"), Dst: netip.MustParseAddrPort("10.96.0.1:80"), Protocol: 6, In: "eth0"}
	if got := p.String(); got != "new tcp 10.0.0.1:40000 -> 10.96.0.1:80 in eth0" {
		t.Error(got)
	}
	p.In, p.State, p.Mark, p.Remembered = "", Invalid, 0x4000, netip.MustParseAddrPort("10.0.0.2:80")
	if got := p.String(); got != "invalid tcp 10.0.0.1:40000 -> 10.96.0.1:80 from the node mark 0x4000 remembered at 10.0.0.2:80" {
		t.Error(got)
	}
	if got := (Probe{Service: "a/b", Packet: Packet{}}).String(); got[:5] != "a/b: " {
		t.Error(got)
	}
}
