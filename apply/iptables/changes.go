package iptables

import (
	"slices"

	"svcc/apply"
	rules "svcc/emit/iptables"
	"svcc/emit/iptables/rule"
)

// changes lists what a delta adds and removes.
func (d *delta) changes() []apply.Change {
	l := &lister{
		delta: d, canon: rule.Canonicalizer{Family: d.family},
		was: servicesOf(d.have.rules), is: servicesOf(d.want.rules),
	}
	for _, i := range d.write {
		w := &d.want.chains[i]
		h := d.have.chain(w.name)
		if h == nil {
			l.chain(w.name, true)
			h = &chain{}
		}
		l.differ(w.name, d.have.rulesOf(h), d.want.rulesOf(w))
	}
	for _, name := range append(append([]string(nil), d.empty...), d.remove...) {
		if h := d.have.chain(name); h != nil {
			l.each(name, d.have.rulesOf(h), false)
		}
	}
	for _, name := range d.remove {
		l.chain(name, false)
	}
	l.each(rules.SharedChain, d.unshare, false)
	l.each(rules.SharedChain, d.share, true)
	for i := range d.hooks {
		l.hooks(&d.hooks[i])
	}
	return l.out
}

// lister turns a delta into changes.
type lister struct {
	*delta
	canon   rule.Canonicalizer
	was, is map[string]string // services by chain
	out     []apply.Change
}

func (l *lister) add(chain, rule string, add bool) {
	owners := l.was
	if add {
		owners = l.is
	}
	service := owners[chain]
	if service == "" {
		service = serviceOf(rule, owners)
	}
	l.out = append(l.out, apply.Change{
		Family: l.family.String(), Table: l.name, Chain: chain, Add: add, Rule: rule, Service: service,
	})
}

func (l *lister) chain(name string, add bool) { l.add(name, "", add) }

func (l *lister) each(chain string, lines []string, add bool) {
	for _, line := range lines {
		l.add(chain, string(l.canon.Append(nil, line)), add)
	}
}

// differ lists the rules that one side has more often than the other. Where
// only their order differs, all between the first and the last that is out of
// place go and come.
func (l *lister) differ(chain string, old, new []string) {
	was, is := l.trim(l.canonical(old), l.canonical(new))
	more := map[string]int{}
	for _, r := range is {
		more[r]++
	}
	for _, r := range was {
		more[r]--
	}
	moved := true
	for _, n := range more {
		moved = moved && n == 0
	}
	l.side(chain, was, more, -1, moved)
	l.side(chain, is, more, 1, moved)
}

func (l *lister) side(chain string, list []string, more map[string]int, sign int, moved bool) {
	for _, r := range list {
		if moved || more[r]*sign > 0 {
			more[r] -= sign
			l.add(chain, r, sign > 0)
		}
	}
}

func (l *lister) canonical(lines []string) []string {
	out := make([]string, len(lines))
	for i, line := range lines {
		out[i] = string(l.canon.Append(nil, line))
	}
	return out
}

// trim cuts off what both begin and end with.
func (l *lister) trim(a, b []string) ([]string, []string) {
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return a, b
}

// hooks lists a hook only if it is not simply put to another place, or if
// nothing but places change: all of them where a rule of somebody else's keeps
// packets from them.
func (l *lister) hooks(h *hookChange) {
	was, is := make([]string, 0, len(h.remove)), make([]string, 0, len(h.insert))
	for _, r := range h.remove {
		was = append(was, "-A "+h.chain+" "+r)
	}
	for i := range h.insert {
		r := h.insert[i]
		if r.at == 0 {
			r = h.insert[len(h.insert)-1-i] // they are inserted from the last on
		}
		is = append(is, "-A "+h.chain+" "+r.rule)
	}
	if slices.Equal(l.canonical(was), l.canonical(is)) {
		l.each(h.chain, was, false)
		l.each(h.chain, is, true)
		return
	}
	l.differ(h.chain, was, is)
}
