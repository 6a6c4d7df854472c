package proof

import (
	"fmt"
	"iter"
	"net/netip"

	"svcc/emit"
	"svcc/ir"
	"svcc/ir/eval"
)

// Sides are what is compared: a Program, and rules that should mean it.
type Sides struct {
	spec  *eval.Evaluator
	rules emit.Walker
	looks *eval.Looks
}

// NewSides is for the probes of eval.Probes; with sample for those of eval.Sample.
func NewSides(p *ir.Program, w emit.Walker, sample bool) *Sides {
	return &Sides{eval.NewProgram(p), w, eval.NewLooks(sample)}
}

// Difference is a packet that rules treat otherwise than they should. Its text
// has all that may happen to the packet and its way; it is made when asked for.
type Difference struct {
	Probe eval.Probe
	// Want and Got are what was compared: of some packets at one endpoint only.
	Want, Got eval.Outcome
	Whole     bool  // both have every endpoint
	Err       error // why the walk ended early; Got is then empty

	*Sides
}

// Compare walks every probe of a Program, and those of what the rules ask for
// beside it, and calls found for each difference until it returns false. The number
// of probes is returned.
func Compare(p *ir.Program, w emit.Walker, found func(Difference) bool) (int, error) {
	return NewSides(p, w, false).compare(bothSides(p, w, eval.Probes(p)), found)
}

// CompareBeyond is Compare with the probes of what rules ask for alone.
func CompareBeyond(p *ir.Program, w emit.Walker, found func(Difference) bool) (int, error) {
	return NewSides(p, w, false).compare(Beyond(p, w), found)
}

// Serves says that the rules send the packet to an endpoint, or refuse it.
func (d *Difference) Serves() bool {
	for i := range d.Got {
		if d.Got[i].DNAT || d.Got[i].Verdict().Refused() {
			return true
		}
	}
	return d.Err != nil
}

// bothSides are probes of a Program, and those of what rules ask for beside it.
func bothSides(p *ir.Program, w emit.Walker, probes iter.Seq[eval.Probe]) iter.Seq[eval.Probe] {
	return func(yield func(eval.Probe) bool) {
		for x := range probes {
			if !yield(x) {
				return
			}
		}
		for x := range Beyond(p, w) {
			if !yield(x) {
				return
			}
		}
	}
}

// Beyond are probes of what rules ask for and a Program's own probes do not meet:
// Services that it lacks, rules that are too wide, rules that nobody made.
func Beyond(p *ir.Program, w emit.Walker) iter.Seq[eval.Probe] {
	x := eval.NewReach(p)
	return x.Probes(w.Boxes(x.Known))
}

// compare walks probes, and gives how many.
func (s *Sides) compare(probes iter.Seq[eval.Probe], found func(Difference) bool) (int, error) {
	n := 0
	var d Difference
	for probe := range probes {
		n++
		if err := s.Look(probe, &d); err != nil {
			return n, fmt.Errorf("%s: %w", probe, err)
		}
		if d.Same() {
			continue
		}
		if !found(d) {
			break
		}
		d.Want, d.Got = nil, nil // they are the finder's now
	}
	return n, nil
}

// Look asks both sides about a probe, of one endpoint where that is enough, and fills
// in d, whose outcomes' memory it takes. An error is the specification's; the rules'
// is in d.
func (s *Sides) Look(p eval.Probe, d *Difference) (err error) {
	var to netip.AddrPort
	d.Probe, d.Sides = p, s
	if d.Want, to, err = s.spec.Look(d.Want, p, s.looks); err == nil {
		d.Got, d.Err = s.rules.WalkTo(d.Got, p.Packet, p.Host, to)
	}
	d.Whole = !to.IsValid()
	return err
}

// Same says that the rules do what they should: there is no difference.
func (d *Difference) Same() bool { return d.Err == nil && d.Got.Equal(d.Want) }

// First gives an error that tells the first difference, or nil. It is for text
// that svcc has just made: see eval.Sample.
func First(p *ir.Program, w emit.Walker) error {
	_, err := Prove(p, w)
	return err
}

// Prove is First, and gives the number of packets sent.
func Prove(p *ir.Program, w emit.Walker) (int, error) {
	return first(p, w, eval.Sample(p), true)
}

// Keeps is First for text that may have been changed since it was made: it sends
// every probe.
func Keeps(p *ir.Program, w emit.Walker) error {
	_, err := first(p, w, eval.Probes(p), false)
	return err
}

func first(p *ir.Program, w emit.Walker, probes iter.Seq[eval.Probe], sample bool) (int, error) {
	var first error
	n, err := NewSides(p, w, sample).compare(bothSides(p, w, probes), func(d Difference) bool {
		first = d
		return false
	})
	if err != nil {
		return n, err
	}
	return n, first
}
