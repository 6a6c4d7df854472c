package diff

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"svcc/compiler/proof"
	"svcc/emit"
	"svcc/ir"
	"svcc/ir/eval"
)

// Affected gives the service ports, "ns/name:port", that differences between a
// node's rules and those of a Program concern, sorted: those that the rules that
// differ name, and those of which packets show it. It costs less than CompareLive,
// which says how they are handled: a service port that is known to be affected is
// not looked at further, and the packets are those of eval.Sample. All of
// eval.Probes are sent to service ports only whose addresses stand in rules that
// name none: what else differs is shared, and any packet shows it.
//
// Rules of other programs are passed over, unless a jump to our chains is out of
// place: then what they do above it counts as well, to packets that our rules would
// send to an endpoint, masquerade or refuse. Where some packets cannot be followed
// it gives what it found before, with the error.
func Affected(p *ir.Program, live emit.Walker, rules []Rule) ([]string, error) {
	rules = slices.DeleteFunc(slices.Clone(rules), func(x Rule) bool { return x.Family != p.Family.String() })
	a := affected{sides: proof.NewSides(p, live.Own(), true), own: live.Own(), found: map[string]bool{}, display: map[string]string{}}
	if slices.ContainsFunc(rules, Rule.outOfPlace) {
		a.whole = live
	}
	for _, x := range rules {
		if x.Service != "" {
			a.found[x.Service] = true
		}
	}
	for _, s := range p.Services {
		a.display[s.PortName.String()] = s.Display()
	}
	err := a.sendAll(eval.Sample(p))
	if a.suspect(p, rules); err == nil && len(a.display) > 0 {
		err = a.sendAll(eval.Probes(p))
	}
	out := make([]string, 0, len(a.found))
	for name := range a.found {
		out = append(out, name)
	}
	slices.Sort(out)
	return out, err
}

// affected collects the service ports of which a packet differs.
type affected struct {
	sides      *proof.Sides
	own, whole emit.Walker // whole is nil where others' rules do not matter
	found      map[string]bool
	display    map[string]string // of whom packets are sent: a probe's name to Affected's
	broken     int               // packets that could not be followed
	last       proof.Difference  // its memory is used again
}

// mostBroken is how many packets that cannot be followed are enough: each may
// take seconds in rules that part without end.
const mostBroken = 3

func (a *affected) sendAll(probes func(func(eval.Probe) bool)) error {
	for probe := range probes {
		name := a.display[probe.Service]
		if name == "" || a.found[name] {
			continue
		}
		same, err := a.same(probe)
		if !same {
			a.found[name] = true
		}
		if err != nil {
			a.broken++
		}
		if a.broken == mostBroken {
			return fmt.Errorf("%s: %w", probe, err)
		}
	}
	return nil
}

// same says that a packet is handled as the Program says.
func (a *affected) same(probe eval.Probe) (bool, error) {
	if err := a.sides.Look(probe, &a.last); err != nil {
		return false, err
	}
	return a.last.Same() && !a.stopped(probe.Packet, probe.Host), a.last.Err
}

// stopped says that rules of other programs change where a packet ends. Those that
// cannot be followed say nothing.
func (a *affected) stopped(p eval.Packet, h eval.Host) bool {
	if a.whole == nil {
		return false
	}
	own, err := a.own.Walk(p, h)
	all, more := a.whole.Walk(p, h)
	concerned := slices.ContainsFunc(own, func(b eval.Branch) bool { return b.Masquerade || branchVerdict(b) != pass })
	return concerned && errors.Join(err, more) == nil && !sameFate(own, all)
}

// manySuspects is to how many service ports all probes are sent at most. Where the
// addresses of more stand in rules, whole tables differ, and samples show that.
const manySuspects = 1000

// suspect leaves those service ports to send packets to that rules which name none
// may concern alone.
func (a *affected) suspect(p *ir.Program, rules []Rule) {
	named, everyone := map[netip.Addr]bool{}, false
	for _, x := range rules {
		if x.Service == "" {
			x.addresses(named)
			everyone = everyone || knownFlows.MatchString(x.Rule)
		}
	}
	clear(a.display)
	for _, s := range p.Services {
		if !a.found[s.Display()] && (everyone || len(a.display) < manySuspects && concerns(s, named)) {
			a.display[s.PortName.String()] = s.Display()
		}
	}
}

// knownFlows finds in a rule that it asks for flows that are not new: samples have
// such packets for few service ports.
var knownFlows = regexp.MustCompile(`! --ctstate|--ctstate \S*(ESTABLISHED|RELATED|INVALID)`)

func concerns(s *ir.ServicePort, named map[netip.Addr]bool) bool {
	return len(named) > 0 && (slices.ContainsFunc(s.Frontends, func(f ir.Frontend) bool { return named[f.Addr] }) ||
		slices.ContainsFunc(s.SourceRanges, func(r netip.Prefix) bool { return named[r.Addr()] }) ||
		slices.ContainsFunc(s.Reachable(), func(e ir.Endpoint) bool { return named[e.Addr] }))
}

// outOfPlace says of a jump to our chains from a built-in one that it is to go,
// perhaps to come again above others' rules.
func (x Rule) outOfPlace() bool {
	return !x.Add && (x.Table == "filter" || x.Table == "nat") && !strings.HasPrefix(x.Chain, "KUBE-")
}

// addresses adds those that stand in a rule, whatever is around them.
func (x Rule) addresses(to map[netip.Addr]bool) {
	for word := range strings.FieldsFuncSeq(x.Rule, func(r rune) bool { return strings.ContainsRune(" ,/[]", r) }) {
		if a, err := netip.ParseAddr(word); err == nil {
			to[a] = true
		} else if a, err := netip.ParseAddrPort(word); err == nil {
			to[a.Addr()] = true
		}
	}
}
