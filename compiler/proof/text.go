package proof

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"svcc/emit"
	"svcc/ir/eval"
)

// What a text has of a service with many endpoints.
const (
	manyBranches = 24
	manyShown    = 6
	manyHops     = 60
)

// Error shows the packet, what should happen to it, what would, and its way. Of
// many endpoints it shows some that differ.
func (d Difference) Error() string {
	want, got, err := d.All(d.Probe)
	err = cmp.Or(d.Err, err)
	var s strings.Builder
	fmt.Fprintf(&s, "packet %s\n", d.Probe)
	fmt.Fprintf(&s, "  should: %s", indent(branches(want, got)))
	if err != nil {
		fmt.Fprintf(&s, "  cannot be followed: %v\n", err)
	} else {
		fmt.Fprintf(&s, "  would:  %s", indent(branches(got, want)))
	}
	for _, h := range d.way(want, got) {
		fmt.Fprintf(&s, "  %s\n", h)
	}
	return strings.TrimSuffix(s.String(), "\n")
}

// All gives both outcomes of a probe with every endpoint.
func (s *Sides) All(p eval.Probe) (want, got eval.Outcome, err error) {
	want, specErr := s.spec.Outcome(p.Packet, p.Host)
	got, err = s.rules.Walk(p.Packet, p.Host)
	return want, got, cmp.Or(err, specErr)
}

// way is the packet's way; if that leads to many endpoints, the part to one that
// differs.
func (d *Difference) way(want, got eval.Outcome) []emit.Hop {
	if max(len(want), len(got)) > manyBranches {
		for _, b := range append(lacking(want, got), lacking(got, want)...) {
			if b.DNAT {
				_, way, _ := d.rules.TraceTo(d.Probe.Packet, d.Probe.Host, b.To)
				return way
			}
		}
	}
	_, way, _ := d.rules.Trace(d.Probe.Packet, d.Probe.Host)
	return way[:min(len(way), manyHops)]
}

// branches has a line for each branch; of many, for a few that the other outcome
// does not have.
func branches(o, other eval.Outcome) string {
	if len(o) <= manyBranches {
		return o.String()
	}
	shown := lacking(o, other)
	shown = shown[:min(len(shown), manyShown)]
	return fmt.Sprintf("%sand %d more endpoints\n", shown, len(o)-len(shown))
}

// lacking are the branches that the other outcome does not have.
func lacking(o, other eval.Outcome) eval.Outcome {
	have := map[netip.AddrPort][]eval.Branch{}
	for _, b := range other {
		have[b.To] = append(have[b.To], b)
	}
	return slices.DeleteFunc(slices.Clone(o), func(b eval.Branch) bool { return slices.Contains(have[b.To], b) })
}

func indent(lines string) string {
	return strings.ReplaceAll(strings.TrimSuffix(lines, "\n"), "\n", "\n          ") + "\n"
}
