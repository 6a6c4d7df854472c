package golden

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"

	"svcc/golden/lab"
	"svcc/ir/eval"
)

// Judge compares an outcome with what the line wants; who computed it goes
// into the error.
func (t Trace) Judge(who string, o eval.Outcome) error {
	got := make([]Branch, 0, len(o))
	for _, b := range o {
		got = append(got, t.branch(b))
	}
	got, err := merge(got)
	if err != nil {
		return fmt.Errorf("%s: %w", who, err)
	}
	if !slices.Equal(got, t.Want) {
		return fmt.Errorf("line %d: %s\n  %s says %s\n%s", t.Line, t.Text, who, list(got), o)
	}
	return nil
}

// branch is what trace lines tell of a branch.
func (t Trace) branch(b eval.Branch) Branch {
	v := b.Verdict()
	if t.ForwardDrop && b.Forward == eval.Policy && v == eval.Accept {
		v = eval.Drop
	}
	if v != eval.Accept {
		return Branch{Share: b.Share, Verdict: v}
	}
	return Branch{Share: b.Share, Verdict: v, To: b.To, DNAT: b.DNAT, Masquerade: b.Masquerade, Sticky: b.Sticky}
}

func list(bs []Branch) string {
	var s []string
	for _, b := range bs {
		s = append(s, b.String())
	}
	return strings.Join(s, ", ")
}

// Recall gives, for a line with affinity, each packet of a client that is
// remembered at one of the alternatives, and the line that judges it.
func (t Trace) Recall(p eval.Packet) (packets []eval.Packet, lines []Trace) {
	for _, b := range t.Want {
		if b.Sticky == 0 {
			continue
		}
		p.Remembered = b.To
		line := t
		b.Share = eval.Whole
		line.Want = []Branch{b}
		packets, lines = append(packets, p), append(lines, line)
	}
	return packets, lines
}

// InKernel says whether real packets can judge the line. Flows that are
// already known, or errors about them, would need a history.
func (t Trace) InKernel() bool { return t.State == eval.New || t.State == eval.Invalid }

// Flows are the packets by which the kernel judges a line: so many that an
// alternative is missed by chance in less than one of 10^9 runs. They are sent
// from successive ports, the first of which is given. With affinity they come
// in pairs, the second of which must go where the first went.
func (t Trace) Flows(p eval.Packet, port uint16) []lab.Flow {
	n := t.tries()
	if t.Sticky() {
		n *= 2
	}
	flows := make([]lab.Flow, n)
	for i := range flows {
		flows[i] = lab.Flow{Src: netip.AddrPortFrom(p.Src.Addr(), port+uint16(i)), Dst: p.Dst, Protocol: p.Protocol,
			In: p.In, Mark: p.Mark, Invalid: p.State == eval.Invalid, Forget: t.Sticky() && i%2 == 0}
	}
	return flows
}

// Sticky says whether the line wants affinity.
func (t Trace) Sticky() bool { return t.Want[0].Sticky > 0 }

func (t Trace) tries() int {
	if len(t.Want) == 1 {
		return 2
	}
	least := 1.0
	for _, b := range t.Want {
		least = min(least, b.Share.Float())
	}
	// len(Want) * (1-least)^n < 1e-9
	return int(math.Ceil(math.Log(1e-9/float64(len(t.Want))) / math.Log(1-least)))
}

// JudgeSeen compares what the kernel did with a line's flows with what the
// line wants.
func (t Trace) JudgeSeen(flows []lab.Flow, seen []lab.Seen) error {
	met, err := t.meet(flows, seen)
	if err != nil {
		return err
	}
	for _, b := range t.Want {
		if !met[b] {
			return fmt.Errorf("line %d: %s\n  none of %d packets met %s", t.Line, t.Text, len(seen), b)
		}
	}
	return nil
}

// judgeSome is JudgeSeen where not every alternative can be met.
func (t Trace) judgeSome(flows []lab.Flow, seen []lab.Seen) error {
	_, err := t.meet(flows, seen)
	return err
}

// meet gives the branches that packets took. An error is one that no branch says.
func (t Trace) meet(flows []lab.Flow, seen []lab.Seen) (map[Branch]bool, error) {
	met := map[Branch]bool{}
	for i, s := range seen {
		b, err := t.met(flows[i], s)
		if err == nil && t.Sticky() && i%2 == 1 && s.To != seen[i-1].To {
			err = fmt.Errorf("the client went to %s and then to %s", seen[i-1].To, s.To)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %s\n  packet %d from %s: %w", t.Line, t.Text, i+1, flows[i].Src, err)
		}
		met[b] = true
	}
	return met, nil
}

// met is the wanted branch that a packet took.
func (t Trace) met(f lab.Flow, s lab.Seen) (Branch, error) {
	for _, b := range t.Want {
		if b.seenAs(s) {
			if s.To.IsValid() && !s.Masquerade && s.From != f.Src {
				return b, fmt.Errorf("its source became %s", s.From)
			}
			return b, nil
		}
	}
	return Branch{}, errors.New(s.String())
}

func (b Branch) seenAs(s lab.Seen) bool {
	switch s.Fate {
	case lab.Lost:
		return b.Verdict == eval.Drop
	case lab.Rejected:
		return b.Verdict == eval.Reject
	case lab.Sent, lab.Delivered:
		return b.Verdict == eval.Accept && b.To == s.To && b.Masquerade == s.Masquerade
	}
	return false
}
