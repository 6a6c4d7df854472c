package eval_test

import (
	"net/netip"
	"testing"

	"svcc/ir"
	"svcc/ir/eval"
)

// TestStrangersBesideWidePodRanges chooses senders where the pods' range holds
// the usual ones: to step through it address by address would not end.
func TestStrangersBesideWidePodRanges(t *testing.T) {
	for _, text := range []string{
		"0.0.0.0/0", "0.0.0.0/1", "128.0.0.0/1", "192.0.0.0/3", "198.0.0.0/7", "203.0.113.200/29",
		"::/0", "::/1", "2000::/3", "2001:db8::/32", "2001:db8:77::/64",
	} {
		t.Run(text, func(t *testing.T) {
			pods := netip.MustParsePrefix(text)
			p := &ir.Program{Family: ir.FamilyOf(pods.Addr())}
			p.Options.Pods = ir.Detector{Kind: ir.DetectCIDR, Prefix: pods}
			c := eval.NewClients(p)
			if c.Node == c.Outside || c.Outside == c.Nowhere || c.Nowhere == c.Node {
				t.Errorf("not apart: %s, %s, %s", c.Node, c.Outside, c.Nowhere)
			}
			for _, a := range []netip.Addr{c.Node, c.Outside, c.Nowhere} {
				if !a.IsValid() || a.IsMulticast() || pods.Bits() > 0 && pods.Contains(a) {
					t.Errorf("%s is no stranger's address", a)
				}
			}
		})
	}
}
