package proof

import (
	"fmt"
	"iter"
	"net/netip"

	"svcc/emit"
	"svcc/ir"
	"svcc/ir/eval"
)

// Difference is a packet that rules treat otherwise than they should. Its text
// has all that may happen to the packet and its way; it is made when asked for.
type Difference struct {
	Probe eval.Probe
	// Want and Got are what was compared: of some packets at one endpoint only.
	Want, Got eval.Outcome
	Err       error // why the walk ended early; Got is then empty

	spec  *eval.Evaluator
	rules emit.Walker
}

// Compare walks every probe of a Program, and those of what the rules ask for
// beside it, and calls found for each difference until it returns false. The number
// of probes is returned.
func Compare(p *ir.Program, w emit.Walker, found func(Difference) bool) (int, error) {
	return compare(p, w, bothSides(p, w, eval.Probes(p)), eval.NewLooks(false), found)
}

// CompareBeyond is Compare with the probes of what rules ask for alone.
func CompareBeyond(p *ir.Program, w emit.Walker, found func(Difference) bool) (int, error) {
	return compare(p, w, Beyond(p, w), eval.NewLooks(false), found)
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

func compare(p *ir.Program, w emit.Walker, probes iter.Seq[eval.Probe], l *eval.Looks, found func(Difference) bool) (int, error) {
	n := 0
	d := Difference{spec: eval.NewProgram(p), rules: w}
	for probe := range probes {
		n++
		d.Probe = probe
		if err := d.walk(l); err != nil {
			return n, fmt.Errorf("%s: %w", probe, err)
		}
		if d.Err == nil && d.Got.Equal(d.Want) {
			continue
		}
		if !found(d) {
			break
		}
		d.Want, d.Got = nil, nil // they are the finder's now
	}
	return n, nil
}

// walk asks both sides about the probe, of one endpoint where that is enough; it
// takes the memory of the outcomes before. An error is the specification's.
func (d *Difference) walk(l *eval.Looks) (err error) {
	var to netip.AddrPort
	if d.Want, to, err = d.spec.Look(d.Want, d.Probe, l); err == nil {
		d.Got, d.Err = d.rules.WalkTo(d.Got, d.Probe.Packet, d.Probe.Host, to)
	}
	return err
}

// First gives an error that tells the first difference, or nil. It is for text
// that svcc has just made: see eval.Sample.
func First(p *ir.Program, w emit.Walker) error {
	_, err := Prove(p, w)
	return err
}

// Prove is First, and gives the number of packets sent.
func Prove(p *ir.Program, w emit.Walker) (int, error) {
	return first(p, w, eval.Sample(p), eval.NewLooks(true))
}

// Keeps is First for text that may have been changed since it was made: it sends
// every probe.
func Keeps(p *ir.Program, w emit.Walker) error {
	_, err := first(p, w, eval.Probes(p), eval.NewLooks(false))
	return err
}

func first(p *ir.Program, w emit.Walker, probes iter.Seq[eval.Probe], l *eval.Looks) (int, error) {
	var first error
	n, err := compare(p, w, bothSides(p, w, probes), l, func(d Difference) bool {
		first = d
		return false
	})
	if err != nil {
		return n, err
	}
	return n, first
}
