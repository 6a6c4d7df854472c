package iptables

import (
	"slices"
	"strconv"
	"strings"

	rules "svcc/emit/iptables"
	"svcc/emit/iptables/rule"
)

// hookDelta brings the hooks to the top of their chains in the order wanted,
// unless they are all there in that order, once each, and packets reach them:
// then foreign rules may stand between and above, as they would with
// kube-proxy, which only looks whether a hook is there.
func (d *delta) hookDelta() {
	for _, name := range builtins[d.name] {
		have := d.mayTouch(d.have.hooksOf(name).hooks)
		want := d.want.hooksOf(name).hooks
		if d.hooksInPlace(name, have, want) {
			continue
		}
		change := hookChange{chain: name}
		for _, h := range have {
			change.remove = append(change.remove, h.rule)
		}
		// The last one first, each on top: no position is said, which some
		// versions of the tools got wrong.
		for _, h := range slices.Backward(want) {
			change.insert = append(change.insert, hook{rule: h.rule, to: h.to})
		}
		d.hooks = append(d.hooks, change)
	}
}

// mayTouch leaves out the jumps to the shared chain where nothing is wanted of
// it: they are kubelet's.
func (d *delta) mayTouch(hooks []hook) []hook {
	if d.want.chain(rules.SharedChain) != nil || slices.Contains(d.remove, rules.SharedChain) {
		return hooks
	}
	return slices.DeleteFunc(slices.Clone(hooks), func(h hook) bool { return h.to == rules.SharedChain })
}

func (d *delta) hooksInPlace(chain string, have, want []hook) bool {
	return slices.EqualFunc(have, want, func(h, w hook) bool {
		return !h.dead && d.sameHook(chain, h, w)
	})
}

func (d *delta) sameHook(chain string, a, b hook) bool {
	c := &comparer{canon: rule.Canonicalizer{Family: d.family}}
	return c.same("-A "+chain+" "+a.rule, "-A "+chain+" "+b.rule)
}

// hooksBack leads to the hooks that were observed, each at its number then as
// far as the foreign rules of now allow.
func (d *delta) hooksBack() {
	for _, name := range builtins[d.name] {
		have, want := d.have.hooksOf(name), d.want.hooksOf(name)
		same := slices.EqualFunc(have.hooks, want.hooks, func(h, w hook) bool {
			return h.at == w.at && d.sameHook(name, h, w)
		})
		if same {
			continue
		}
		change := hookChange{chain: name}
		for _, h := range have.hooks {
			change.remove = append(change.remove, h.rule)
		}
		for i, h := range want.hooks {
			h.at = min(h.at, have.foreign+i+1)
			change.insert = append(change.insert, h)
		}
		d.hooks = append(d.hooks, change)
	}
}

func (h *hookChange) text(b *strings.Builder) {
	for _, r := range h.remove {
		b.WriteString("-D " + h.chain + " " + r + "\n")
	}
	for _, r := range h.insert {
		at := " "
		if r.at > 0 {
			at = " " + strconv.Itoa(r.at) + " "
		}
		b.WriteString("-I " + h.chain + at + r.rule + "\n")
	}
}
