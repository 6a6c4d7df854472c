package iptables

import (
	"bytes"
	"slices"

	"svcc/emit/iptables/rule"
	"svcc/ir"
)

// Delivery is the part of nat that sends packets to endpoints, for a mode that has
// the rest in rules of its own: rules of KUBE-SERVICES, to which comes back what
// no entry wants, and of the chains below it.
type Delivery struct {
	Chains []string // beside KUBE-SERVICES
	Rules  []byte
}

// Deliver lays out the Delivery of a Graph at a level. Its rules mark clients that
// are to be masqueraded, but not those that are the chosen endpoint themselves.
func Deliver(g *ir.Graph, level int) (Delivery, error) {
	nat, err := deliverNat(g, level)
	if err != nil {
		return Delivery{}, err
	}
	theirs := []string{ChainServices, ChainPostrouting, ChainMarkMasq}
	d := Delivery{Chains: slices.DeleteFunc(nat.chains, func(c string) bool { return slices.Contains(theirs, c) })}
	var text []byte
	for i := range nat.rules {
		if r := &nat.rules[i]; r.Chain == ChainServices || !slices.Contains(theirs, r.Chain) {
			if text, err = rule.Append(text, r); err != nil {
				return Delivery{}, err
			}
		}
	}
	d.Rules = bytes.Clone(text)
	return d, nil
}

func deliverNat(g *ir.Graph, level int) (*table, error) {
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
