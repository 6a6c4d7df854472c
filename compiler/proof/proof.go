package proof

import (
	"cmp"
	"fmt"
	"iter"
	"net/netip"
	"strings"

	"svcc/emit"
	"svcc/ir"
	"svcc/ir/eval"
)

// Difference is a packet that rules treat otherwise than they should.
type Difference struct {
	Probe eval.Probe
	Want  eval.Outcome
	Got   eval.Outcome
	Err   error      // why the walk ended early; Got is then empty
	Way   []emit.Hop // the rules that the packet met
}

// Compare walks every probe of a Program and calls found for each difference
// until it returns false. The number of probes is returned.
func Compare(p *ir.Program, w emit.Walker, found func(Difference) bool) (int, error) {
	return compare(p, w, eval.Probes(p), found)
}

func compare(p *ir.Program, w emit.Walker, probes iter.Seq[eval.Probe], found func(Difference) bool) (int, error) {
	spec := eval.NewProgram(p)
	n := 0
	var d Difference
	for probe := range probes {
		n++
		d.Probe = probe
		if err := d.walk(spec, w); err != nil {
			return n, fmt.Errorf("%s: %w", probe, err)
		}
		if d.Err == nil && d.Got.Equal(d.Want) {
			continue
		}
		if err := d.tell(spec, w); err != nil {
			return n, fmt.Errorf("%s: %w", probe, err)
		}
		if !found(d) {
			break
		}
		d = Difference{} // its outcomes are the finder's now
	}
	return n, nil
}

// walk asks both sides about the probe, of one endpoint where that is enough and
// the walker can; it takes the memory of the outcomes before. An error is the
// specification's.
func (d *Difference) walk(spec *eval.Evaluator, w emit.Walker) (err error) {
	p, h := d.Probe.Packet, d.Probe.Host
	narrow, ok := w.(emit.NarrowWalker)
	var to netip.AddrPort
	if d.Want, to, err = spec.Into(d.Want, p, h, ok && d.Probe.One); err != nil {
		return err
	}
	if ok {
		d.Got, d.Err = narrow.WalkTo(d.Got, p, h, to)
	} else {
		d.Got, d.Err = w.Walk(p, h)
	}
	return nil
}

// tell completes a difference for who reads it: both outcomes whole, and the way.
func (d *Difference) tell(spec *eval.Evaluator, w emit.Walker) (err error) {
	d.Probe.One = false
	walked := d.Err
	if err := d.walk(spec, w); err != nil {
		return err
	}
	_, d.Way, err = w.Trace(d.Probe.Packet, d.Probe.Host)
	d.Err = cmp.Or(walked, d.Err, err)
	return nil
}

// First gives an error that tells the first difference, or nil. It is for text
// that svcc has just made: see eval.Sample.
func First(p *ir.Program, w emit.Walker) error {
	var first error
	_, err := compare(p, w, eval.Sample(p), func(d Difference) bool {
		first = d
		return false
	})
	if err != nil {
		return err
	}
	return first
}

// Error tells the packet, what should happen to it, what would, and its way.
func (d Difference) Error() string {
	var s strings.Builder
	fmt.Fprintf(&s, "packet %s\n", d.Probe)
	fmt.Fprintf(&s, "  should: %s", indent(d.Want.String()))
	if d.Err != nil {
		fmt.Fprintf(&s, "  cannot be followed: %v\n", d.Err)
	} else {
		fmt.Fprintf(&s, "  would:  %s", indent(d.Got.String()))
	}
	for _, h := range d.Way {
		fmt.Fprintf(&s, "  %s\n", h)
	}
	return strings.TrimSuffix(s.String(), "\n")
}

func indent(lines string) string {
	return strings.ReplaceAll(strings.TrimSuffix(lines, "\n"), "\n", "\n          ") + "\n"
}
