package iptables

import (
	"slices"

	"svcc/emit/iptables/rule"
	"svcc/ir"
)

// Delivery is the part of nat that sends packets to endpoints, for a mode that has
// the rest in rules of its own: rules of KUBE-SERVICES, to which comes back what
// no entry wants, and of the chains below it.
type Delivery struct {
	Chains []string // beside KUBE-SERVICES
	Rules  []rule.Rule
}

// Deliver lays out the Delivery of a Graph at a level. Its rules mark clients that
// are to be masqueraded, but not those that are the chosen endpoint themselves.
func Deliver(g *ir.Graph, level int) (Delivery, error) {
	nat, err := deliverNat(g, level)
	if err != nil {
		return Delivery{}, err
	}
	theirs := []string{ChainServices, ChainPostrouting, ChainMarkMasq}
	d := Delivery{Chains: slices.DeleteFunc(nat.Chains, func(c string) bool { return slices.Contains(theirs, c) })}
	for _, r := range nat.Rules {
		if r.Chain == ChainServices || !slices.Contains(theirs, r.Chain) {
			d.Rules = append(d.Rules, r)
		}
	}
	return d, nil
}

func deliverNat(g *ir.Graph, level int) (*rule.Table, error) {
	if level > 0 {
		_, nat, err := layoutFast(g, level, false)
		return nat, err
	}
	l := newLowering(g)
	l.part = true
	for _, s := range services(g) {
		if err := l.service(s); err != nil {
			return nil, err
		}
	}
	l.nodePorts()
	return l.nat, nil
}
