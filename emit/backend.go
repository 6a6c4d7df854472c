package emit

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"strings"

	"svcc/ir"
	"svcc/ir/eval"
)

// Options are what a user may choose about the text, not about its meaning.
type Options struct {
	Level int  // -O
	Hooks bool // whether the jumps from built-in chains are part of the text
}

// Backend is one way to program the kernel.
type Backend interface {
	// Emit lowers a Graph and prints it.
	Emit(g *ir.Graph, o Options) ([]Section, error)
	// Parse reads the sections of one family back: its own text, or the
	// tool's dump of a node. hooked says that the jumps from built-in chains are
	// in the text, as in a dump; where they are not, they are as Emit would give
	// them. Errors name section and line.
	Parse(f ir.Family, sections []Section, hooked bool) (Walker, error)
}

// ErrUnreadable is in the error of a walk that met a rule of a node's dump which
// is of a chain of ours and could not be read. Other packets are none the worse.
var ErrUnreadable = errors.New("a rule cannot be read")

// Walker sends packets through parsed rules. It is safe for use by several
// goroutines.
type Walker interface {
	// Walk gives the packet's outcome. An error means that the rules cannot
	// be followed: an unknown target, a loop, a match that has no model.
	Walk(p eval.Packet, h eval.Host) (eval.Outcome, error)
	// Trace is Walk with the way told: the rules met, hook by hook.
	Trace(p eval.Packet, h eval.Host) (eval.Outcome, []Hop, error)
	// WalkTo is Walk without the branches whose destination is rewritten to
	// another endpoint, for less. Where to is not valid, it is Walk. The outcome may
	// take the memory of into, which its caller has no more use for.
	WalkTo(into eval.Outcome, p eval.Packet, h eval.Host, to netip.AddrPort) (eval.Outcome, error)
	// TraceTo is Trace of what WalkTo walks.
	TraceTo(p eval.Packet, h eval.Host, to netip.AddrPort) (eval.Outcome, []Hop, error)
	// Met is how many rules the kernel holds a packet against, on average.
	Met(p eval.Packet, h eval.Host) (float64, error)
	// Own walks the same rules, but passes over those of other programs.
	Own() Walker
	// Foreign lists rules of other programs that packets meet and that the
	// walker has no model for; it takes them not to match.
	Foreign() []string
	// Boxes are the packets that rules, and what is around them, ask for, so that
	// what they decide beyond a Program is met as well. Those for which known holds
	// are left out; so are rules of other programs.
	Boxes(known func(*eval.Box) bool) iter.Seq[*eval.Box]
}

// Comparer is a Walker that knows whom its rules treat otherwise than others do.
type Comparer interface {
	Walker
	// Differs gives, sorted, the destinations of the packets that may meet a rule in
	// which the two differ; false if that may be any packet.
	Differs(before Walker) ([]Destination, bool)
}

// Destination is what rules ask of packets that they treat one by one. A port with
// no address is that port at any.
type Destination struct {
	Addr     netip.Addr
	Port     uint16
	Protocol ir.Protocol
}

// Compare orders destinations by address, port and protocol.
func (d Destination) Compare(e Destination) int {
	return cmp.Or(d.Addr.Compare(e.Addr), cmp.Compare(d.Port, e.Port), cmp.Compare(d.Protocol, e.Protocol))
}

// Hop is one rule that a packet met and that did something.
type Hop struct {
	Hook  string // "PREROUTING", "INPUT", ...
	Table string
	Chain string
	Depth int    // of jumps, from 0 in the built-in chain
	Rule  string // as written in the parsed text
	Share eval.Share
	Note  string // what it did: "jump", "mark 0x4000", "dnat 10.0.0.1:80", ...
}

// String gives "PREROUTING nat   -A KUBE-SERVICES ...  => dnat 10.0.0.1:80",
// indented by the depth of jumps.
func (h Hop) String() string {
	s := fmt.Sprintf("%s %s %s%s", h.Hook, h.Table, strings.Repeat("  ", h.Depth), h.Rule)
	if h.Share != eval.Whole && !h.Share.IsZero() {
		s += " (" + h.Share.String() + ")"
	}
	if h.Note != "" {
		s += "  => " + h.Note
	}
	return s
}
