package golden

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"svcc/ir"
	"svcc/ir/eval"
)

// Sender is who sends a packet.
type Sender string

// The senders.
const (
	Pod     Sender = "pod"     // a pod of this node, as detect-local sees it
	Node    Sender = "node"    // this node's own network: starts at OUTPUT
	Outside Sender = "outside" // anything else that arrives at the node
)

// Trace is one line: a packet, and what becomes of it.
type Trace struct {
	Line        int    // in its section, from 1
	Text        string // the line itself
	From        Sender
	Src         netip.Addr // invalid: any that suits the sender
	Dst         netip.AddrPort
	Protocol    ir.Protocol
	State       eval.State
	Mark        uint32
	Via         string // "": any interface that suits the sender
	ForwardDrop bool   // the FORWARD chain's policy is DROP
	Local       []netip.Addr
	Want        []Branch // in order
}

// Branch is one thing that may become of a packet, as far as trace lines tell.
type Branch struct {
	Share      eval.Share
	Verdict    eval.Verdict   // Accept, Drop or Reject
	To         netip.AddrPort // where an accepted packet goes
	DNAT       bool           // whether that was rewritten
	Masquerade bool
	Sticky     int
}

// String spells a branch as a trace line does.
func (b Branch) String() string {
	if b.Verdict != eval.Accept {
		return b.Verdict.String()
	}
	s := "pass"
	if b.DNAT {
		s = b.Share.String() + " " + b.To.String()
	}
	if b.Masquerade {
		s += " masq"
	}
	if b.Sticky != 0 {
		s += fmt.Sprintf(" sticky %d", b.Sticky)
	}
	return s
}

func (b Branch) compare(c Branch) int {
	return cmp.Or(cmp.Compare(b.Verdict, c.Verdict), b.To.Compare(c.To), cmp.Compare(bit(b.DNAT), bit(c.DNAT)),
		cmp.Compare(bit(b.Masquerade), bit(c.Masquerade)), cmp.Compare(b.Sticky, c.Sticky))
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// ParseTraces reads a trace section. Blank lines and lines that start with #
// are comments. The error names every line that cannot be read.
func ParseTraces(text string) ([]Trace, error) {
	var out []Trace
	var errs []error
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		t, err := parseTrace(line)
		if err != nil {
			errs = append(errs, fmt.Errorf("trace line %d: %w", i+1, err))
		}
		t.Line = i + 1
		out = append(out, t)
	}
	return out, errors.Join(errs...)
}

func parseTrace(line string) (Trace, error) {
	t := Trace{Text: line}
	packet, result, ok := strings.Cut(line, " = ")
	if !ok {
		return t, errors.New("there is no \" = \"")
	}
	from, to, ok := strings.Cut(packet, "->")
	if !ok {
		return t, errors.New("there is no \"->\"")
	}
	fields := strings.Fields(to)
	if len(fields) == 0 {
		return t, errors.New("there is no destination")
	}
	if err := errors.Join(t.parseFrom(strings.Fields(from)), t.parseDst(fields[0]), t.parseAttrs(fields[1:])); err != nil {
		return t, err
	}
	if t.Src.IsValid() && ir.FamilyOf(t.Src) != t.Family() {
		return t, fmt.Errorf("%s and %s are of different families", t.Src, t.Dst)
	}
	return t, t.parseResult(result)
}

// packet is the line's text without the result.
func (t Trace) packet() string {
	text, _, _ := strings.Cut(t.Text, " = ")
	return strings.Join(strings.Fields(text), " ")
}

// Family is the packet's.
func (t Trace) Family() ir.Family { return ir.FamilyOf(t.Dst.Addr()) }

func (t *Trace) parseFrom(words []string) (err error) {
	if len(words) == 0 || len(words) > 2 {
		return errors.New("the sender must be \"pod\", \"node\" or \"outside\", with one address at most")
	}
	t.From = Sender(words[0])
	if t.From != Pod && t.From != Node && t.From != Outside {
		return fmt.Errorf("%q is none of pod, node, outside", words[0])
	}
	if len(words) == 2 {
		t.Src, err = netip.ParseAddr(words[1])
	}
	return err
}

func (t *Trace) parseDst(s string) (err error) {
	dst, proto, ok := strings.Cut(s, "/")
	if !ok {
		proto = "tcp"
	}
	if t.Protocol, err = ir.ParseProtocol(proto); err != nil {
		return err
	}
	if t.Dst, err = netip.ParseAddrPort(dst); err != nil {
		return fmt.Errorf("%q: %w", dst, err)
	}
	return nil
}

func (t *Trace) parseAttrs(attrs []string) error {
	for _, a := range attrs {
		key, value, _ := strings.Cut(a, "=")
		if err := t.parseAttr(key, value); err != nil {
			return fmt.Errorf("%s: %w", a, err)
		}
	}
	if t.From == Node && t.Via != "" {
		return errors.New("a packet of the node arrives by no interface")
	}
	return nil
}

func (t *Trace) parseAttr(key, value string) error {
	switch key {
	case "state":
		for _, s := range []eval.State{eval.New, eval.Established, eval.Related, eval.Invalid} {
			if s.String() == value {
				t.State = s
				return nil
			}
		}
		return errors.New("no such state")
	case "mark":
		mark, err := strconv.ParseUint(value, 0, 32)
		t.Mark = uint32(mark)
		return err
	case "via":
		t.Via = value
		return nil
	case "forward-policy":
		t.ForwardDrop = value == "drop"
		if !t.ForwardDrop && value != "accept" {
			return errors.New("no such policy")
		}
		return nil
	case "local":
		for _, s := range strings.Split(value, ",") {
			a, err := netip.ParseAddr(s)
			if err != nil {
				return err
			}
			t.Local = append(t.Local, a)
		}
		return nil
	}
	return errors.New("no such attribute")
}

func (t *Trace) parseResult(s string) error {
	sticky := 0
	if i := strings.LastIndex(s, " sticky "); i >= 0 {
		n, err := strconv.Atoi(strings.TrimSpace(s[i+len(" sticky "):]))
		if err != nil || n == 0 {
			return fmt.Errorf("%q is no number of seconds", s[i+len(" sticky "):])
		}
		s, sticky = s[:i], n
	}
	parts := strings.Split(s, ",")
	for _, part := range parts {
		b, err := t.parseBranch(strings.Fields(part))
		if err != nil {
			return err
		}
		if len(parts) > 1 && !b.DNAT {
			return fmt.Errorf("%q is not one of several alternatives", strings.TrimSpace(part))
		}
		if b.Sticky = sticky; sticky != 0 && !b.DNAT {
			return fmt.Errorf("%q keeps no endpoint", strings.TrimSpace(part))
		}
		t.Want = append(t.Want, b)
	}
	return t.shareOut()
}

func (t *Trace) parseBranch(words []string) (b Branch, err error) {
	switch strings.Join(words, " ") {
	case "drop":
		return Branch{Verdict: eval.Drop}, nil
	case "reject":
		return Branch{Verdict: eval.Reject}, nil
	case "pass":
		return Branch{Verdict: eval.Accept, To: t.Dst}, nil
	case "pass masq":
		return Branch{Verdict: eval.Accept, To: t.Dst, Masquerade: true}, nil
	}
	b = Branch{Verdict: eval.Accept, DNAT: true}
	rest := words
	if len(rest) > 1 && rest[1] != "masq" {
		if b.Share, err = parseShare(rest[0]); err != nil {
			return b, err
		}
		rest = rest[1:]
	}
	if len(rest) == 2 && rest[1] == "masq" {
		b.Masquerade, rest = true, rest[:1]
	}
	if len(rest) != 1 {
		return b, fmt.Errorf("%q is no result", strings.Join(words, " "))
	}
	if b.To, err = netip.ParseAddrPort(rest[0]); err != nil {
		return b, fmt.Errorf("%q: %w", rest[0], err)
	}
	if ir.FamilyOf(b.To.Addr()) != t.Family() {
		return b, fmt.Errorf("%s and %s are of different families", b.To, t.Dst)
	}
	return b, nil
}

func parseShare(s string) (eval.Share, error) {
	num, den, ok := strings.Cut(s, "/")
	if !ok {
		den = "1"
	}
	n, err := strconv.ParseUint(num, 10, 32)
	d, err2 := strconv.ParseUint(den, 10, 32)
	if err != nil || err2 != nil || n == 0 || n > d {
		return eval.Share{}, fmt.Errorf("%q is no share", s)
	}
	return eval.Of(n, d), nil
}

// shareOut gives shares to alternatives without, and sorts them.
func (t *Trace) shareOut() (err error) {
	given := 0
	var sum eval.Share
	for i := range t.Want {
		b := &t.Want[i]
		if b.Share.IsZero() {
			b.Share = eval.OneIn(uint64(len(t.Want)))
		} else {
			given++
		}
		if sum, err = sum.Add(b.Share); err != nil {
			return err
		}
	}
	if given != 0 && given != len(t.Want) {
		return errors.New("either all alternatives have a share or none")
	}
	if sum != eval.Whole {
		return fmt.Errorf("shares add up to %s", sum)
	}
	t.Want, err = merge(t.Want)
	return err
}

// merge sorts branches and adds the shares of those that are alike.
func merge(list []Branch) ([]Branch, error) {
	slices.SortFunc(list, Branch.compare)
	out := list[:0]
	for _, b := range list {
		if n := len(out); n > 0 && out[n-1].compare(b) == 0 {
			sum, err := out[n-1].Share.Add(b.Share)
			if err != nil {
				return nil, err
			}
			out[n-1].Share = sum
			continue
		}
		out = append(out, b)
	}
	return out, nil
}
