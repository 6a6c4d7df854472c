package proof

import (
	"fmt"
	"net/netip"
	"slices"

	"svcc/emit"
	"svcc/ir"
	"svcc/ir/eval"
)

// older is something that kube-proxies before a minor version of Kubernetes 1 do
// otherwise than 1.37, by their rules alone.
type older struct {
	before int
	does   string
	source string // pull requests of kubernetes/kubernetes
	did    func(x *Explainer, d *Difference) bool
}

// olders is the one table of them.
var olders = []older{
	{26, "marks what is to be dropped (KUBE-MARK-DROP), and kubelet's rule in KUBE-FIREWALL drops it in INPUT and OUTPUT only: what is forwarded is not dropped, as to a load balancer's address from outside its source ranges",
		"KEP-3178: #110289, #110628", markedOnly},
	{26, "does not refuse, in IPVS mode, ports that no Service has at the addresses of kube-ipvs0", "#108460", unusedPort},
	{22, "does not know internalTrafficPolicy", "KEP-2086", internalLocal},
	{20, "leaves the node's own packets to an external IP to the network", "dumps", ownToExternal},
	{20, "does not refuse what is forwarded to an external IP without endpoints", "#95252", forwardedExternal},
	{20, "does not open health-check node ports", "dumps", closedHealthCheck},
}

// Explainer tells of differences what is as kube-proxies of an age are.
type Explainer struct {
	program *ir.Program
	age     emit.Age
	at      map[claim]*claimant
	open    map[uint16]bool // health-check node ports
}

// claim is a destination.
type claim struct {
	at    netip.AddrPort
	proto ir.Protocol
}

type claimant struct {
	port *ir.ServicePort
	kind ir.FrontendKind
}

// NewExplainer prepares for the differences of a Program.
func NewExplainer(p *ir.Program, age emit.Age) *Explainer {
	x := &Explainer{program: p, age: age, at: map[claim]*claimant{}, open: map[uint16]bool{}}
	for _, s := range p.Services {
		for _, f := range s.Frontends { // a node port's has no address: no packet goes there
			x.at[claim{netip.AddrPortFrom(f.Addr, f.Port), s.Protocol}] = &claimant{s, f.Kind}
		}
		if s.HealthCheckNodePort != 0 {
			x.open[s.HealthCheckNodePort] = true
		}
	}
	return x
}

// Explain gives one sentence, the same for all that have one reason; "" if
// nothing is known.
func (x *Explainer) Explain(d *Difference) string {
	if d.Err != nil || x.age.Before == 0 {
		return ""
	}
	for _, o := range olders {
		if x.age.From < o.before && o.did(x, d) {
			return fmt.Sprintf("kube-proxy before 1.%d does this: it %s", o.before, o.does)
		}
	}
	return ""
}

// Undelivered says that a difference is about a node port at ::1, to which
// kube-proxies before 1.26 lead as to any address (#108250): the kernel lets
// nothing leave the node from ::1, so nobody ever got there (#90236).
func (x *Explainer) Undelivered(d *Difference) bool {
	return d.Err == nil && d.Probe.Packet.Dst.Addr() == netip.IPv6Loopback() && x.age.Before != 0 && x.age.From < 26 &&
		all(d.Want, func(b eval.Branch) bool { return !b.DNAT }) && all(d.Got, func(b eval.Branch) bool { return b.DNAT })
}

// frontend is what is at a packet's destination, node ports aside; nil for nothing.
func (x *Explainer) frontend(k eval.Packet) *claimant { return x.at[claim{k.Dst, k.Protocol}] }

// markedOnly: what should be dropped came through KUBE-MARK-DROP and went on.
func markedOnly(_ *Explainer, d *Difference) bool {
	return all(d.Want, func(b eval.Branch) bool { return b.Verdict() == eval.Drop }) &&
		all(d.Got, func(b eval.Branch) bool { return !b.DNAT && !b.Verdict().Refused() }) &&
		d.metChain("KUBE-MARK-DROP")
}

// metChain says that the packet comes by a rule of a chain.
func (d *Difference) metChain(name string) bool {
	_, way, err := d.rules.Trace(d.Probe.Packet, d.Probe.Host)
	return err == nil && slices.ContainsFunc(way, func(h emit.Hop) bool { return h.Chain == name })
}

func unusedPort(x *Explainer, d *Difference) bool {
	return x.program.Options.Facts().RefusesUnknownPorts && all(d.Want, func(b eval.Branch) bool { return b.Verdict() == eval.Reject }) &&
		all(d.Got, func(b eval.Branch) bool { return !b.DNAT && !b.Verdict().Refused() }) && x.frontend(d.Probe.Packet) == nil
}

func internalLocal(x *Explainer, d *Difference) bool {
	c := x.frontend(d.Probe.Packet)
	return c != nil && c.kind == ir.ClusterIP && c.port.InternalPolicy == ir.Local && all(d.Got, func(b eval.Branch) bool { return b.DNAT })
}

func ownToExternal(x *Explainer, d *Difference) bool {
	c := x.frontend(d.Probe.Packet)
	return c != nil && c.kind == ir.ExternalIP && d.Probe.Packet.In == "" &&
		all(d.Want, func(b eval.Branch) bool { return b.DNAT }) && all(d.Got, func(b eval.Branch) bool { return !b.DNAT && !b.Verdict().Refused() })
}

func forwardedExternal(x *Explainer, d *Difference) bool {
	c := x.frontend(d.Probe.Packet)
	return c != nil && c.kind == ir.ExternalIP && all(d.Want, func(b eval.Branch) bool { return b.Forward.Refused() }) &&
		all(d.Got, func(b eval.Branch) bool { return !b.DNAT && b.Forward == eval.Policy })
}

func closedHealthCheck(x *Explainer, d *Difference) bool {
	k := d.Probe.Packet
	return x.open[k.Dst.Port()] && k.Protocol == ir.TCP && all(d.Want, func(b eval.Branch) bool { return b.Input == eval.Accept }) &&
		all(d.Got, func(b eval.Branch) bool { return !b.DNAT && b.Input == eval.Policy })
}

func all(o eval.Outcome, holds func(eval.Branch) bool) bool {
	return len(o) > 0 && !slices.ContainsFunc(o, func(b eval.Branch) bool { return !holds(b) })
}

// MarkLeft says that outcomes differ in nothing but the mark that masqueraded
// packets keep (kube-proxies up to 1.18): their source is rewritten all the same.
func (d *Difference) MarkLeft(mark uint32) bool {
	if d.Err != nil {
		return false
	}
	got := slices.Clone(d.Got)
	for i := range got {
		if got[i].Masquerade {
			got[i].Mark &^= mark
		}
	}
	got, err := eval.Normalize(got)
	return err == nil && got.Equal(d.Want)
}
