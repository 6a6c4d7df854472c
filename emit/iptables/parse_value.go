package iptables

import (
	"net/netip"
	"strconv"
	"strings"

	"svcc/emit"
	"svcc/emit/iptables/rule"
	"svcc/emit/walk"
	"svcc/ir/eval"
)

// address reads -s and -d: "[!] ADDR[/LENGTH|/MASK]". Host names and lists have
// no model.
func (r *ruleParser) address(k walk.CondKind, s string) {
	c, ok := r.masked(k, s)
	if !ok {
		r.fail("%s: not an address of %s", emit.Quote(s), r.rs.Family)
		return
	}
	r.addPlain(c)
}

// masked is a condition for "ADDR[/LENGTH|/MASK]".
func (r *ruleParser) masked(k walk.CondKind, s string) (walk.Cond, bool) {
	text, tail, slash := strings.Cut(s, "/")
	a, ok := r.parseAddr(text)
	if !ok {
		return walk.Cond{}, false
	}
	if !slash {
		return r.rs.Within(k, a, a.BitLen()), true
	}
	if m, ok := r.parseAddr(tail); ok {
		return r.rs.Masked(k, a, m), true
	}
	n, err := strconv.ParseUint(tail, 10, 8)
	if err != nil || int(n) > a.BitLen() {
		return walk.Cond{}, false
	}
	return r.rs.Within(k, a, int(n)), true
}

// parseAddr reads an address of the family.
func (r *ruleParser) parseAddr(s string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(s)
	if err != nil || !r.rs.Family.Of(a) || a.Zone() != "" {
		return netip.IPv6Unspecified(), false
	}
	return a, true
}

// protocol reads -p. The kernel takes 0 for any.
func (r *ruleParser) protocol(s string) {
	n, ok := rule.ProtocolNames[s]
	if !ok && s != "all" {
		if n, ok = rule.ParseNumber(s); !ok || n > 255 {
			r.fail("protocol %s is unknown", emit.Quote(s))
			return
		}
	}
	if !r.not {
		r.proto = n
	}
	if n != 0 {
		r.addPlain(walk.Cond{Kind: walk.CondProto, X: n})
	}
}

// ifname reads -i; a + at the end stands for any rest.
func (r *ruleParser) ifname(s string) {
	c := walk.Cond{Kind: walk.CondIn}
	if n := len(s) - 1; n >= 0 && s[n] == '+' {
		s, c.Y = s[:n], 1
	}
	if s == "" && c.Y == 0 || len(s) > 15 {
		r.fail("%s cannot be an interface's name", emit.Quote(s))
		return
	}
	c.X = r.rs.NameID(s)
	r.addPlain(c)
}

// Probabilities are read in units of 1e-12. tolerance is what a fraction may
// be off: half the tenth digit by printing, half of 2^-31 by the kernel's
// resolution, and the rest by printing a dump; 3e-10 in all. Neighbours among
// 1/1, 1/2, ... 1/50000 are further apart.
const (
	probabilityUnit = 1_000_000_000_000
	tolerance       = 400
)

// parseProbability gives the exact fraction that a printed probability stands
// for: 1/k if one is near enough, else the simplest one that is.
func parseProbability(s string) (eval.Share, bool) {
	p, ok := parseDecimal(s)
	switch {
	case !ok || p > probabilityUnit+tolerance:
		return eval.Share{}, false
	case p == 0:
		return eval.Share{}, true
	case p <= tolerance:
		return eval.Of(p, probabilityUnit), true
	}
	k := (probabilityUnit + p/2) / p
	if near := probabilityUnit / k; max(near, p)-min(near, p) <= tolerance {
		return eval.OneIn(k), true
	}
	return eval.Of(simplest(p-tolerance, probabilityUnit, p+tolerance, probabilityUnit)), true
}

// parseDecimal reads "D.DDD" in units of 1e-12, cutting off what is smaller.
func parseDecimal(s string) (uint64, bool) {
	whole, frac, _ := strings.Cut(s, ".")
	if !rule.IsNumber(whole) || len(whole) > 3 || frac != "" && !rule.IsNumber(frac) {
		return 0, false
	}
	frac = (frac + "000000000000")[:12]
	n, err := strconv.ParseUint(whole+frac, 10, 64)
	return n, err == nil
}

// simplest is the fraction with the least denominator in [a/b, c/d], found
// along the continued fractions of the bounds.
func simplest(a, b, c, d uint64) (num, den uint64) {
	whole := a / b
	if a%b == 0 {
		return whole, 1
	}
	if whole < c/d {
		return whole + 1, 1
	}
	n, m := simplest(d, c%d, b, a%b)
	return whole*n + m, n
}
