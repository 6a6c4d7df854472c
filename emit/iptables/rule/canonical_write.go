package rule

import (
	"bytes"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// write prints what was read; false if a value is not understood.
func (c *Canonicalizer) write(b []byte) ([]byte, bool) {
	for p := range c.plain {
		a := &c.plain[p]
		if !a.given {
			continue
		}
		n := len(b)
		b = append(append(append(appendNot(b, a.not), ' '), plainNames[p]...), ' ')
		said, ok := c.appendPlain(b, p, a.value)
		switch {
		case !ok, said == nil && a.not:
			return b, false
		case said == nil: // a default
			b = b[:n]
		default:
			b = said
		}
	}
	b, ok := c.appendMatches(b)
	if !ok || c.to.verb == "" {
		return b, ok
	}
	b = append(append(append(append(b, ' '), c.to.verb...), ' '), c.to.chain...)
	if c.to.Term == nil {
		return b, true
	}
	return c.to.appendOptions(b, c)
}

// appendPlain writes a value; nil if it is the default.
func (c *Canonicalizer) appendPlain(b []byte, p int, v string) ([]byte, bool) {
	switch p {
	case plainSrc, plainDst:
		return c.appendAddress(b, v)
	case plainProto:
		return appendProtocol(b, v)
	case plainComment:
		return appendQuoted(b, v), true
	}
	return append(b, v...), v != ""
}

// appendAddress writes a host without a length, a prefix with, and what a mask
// with holes covers with the mask; nil for everything.
func (c *Canonicalizer) appendAddress(b []byte, v string) ([]byte, bool) {
	text, tail, slash := strings.Cut(v, "/")
	a, err := netip.ParseAddr(text)
	if err != nil || !c.Family.Of(a) || a.Zone() != "" {
		return b, false
	}
	bits := a.BitLen()
	if slash && strings.ContainsAny(tail, ".:") {
		m, err := netip.ParseAddr(tail)
		if err != nil || !c.Family.Of(m) {
			return b, false
		}
		if bits = prefixLength(m); bits < 0 {
			return m.AppendTo(append(maskAddr(a, m).AppendTo(b), '/')), true
		}
	} else if slash {
		if bits, err = strconv.Atoi(tail); err != nil {
			return b, false
		}
	}
	switch bits {
	case a.BitLen():
		return a.AppendTo(b), true
	case 0:
		return nil, true
	}
	p, err := a.Prefix(bits)
	return p.AppendTo(b), err == nil
}

// prefixLength is how many bits lead a mask; -1 if it has holes.
func prefixLength(m netip.Addr) int {
	bits, end := 0, false
	for _, octet := range m.AsSlice() {
		for i := 7; i >= 0; i-- {
			set := octet>>i&1 != 0
			if set && end {
				return -1
			}
			if set {
				bits++
			}
			end = end || !set
		}
	}
	return bits
}

func maskAddr(a, m netip.Addr) netip.Addr {
	b := a.AsSlice()
	for i, octet := range m.AsSlice() {
		b[i] &= octet
	}
	out, _ := netip.AddrFromSlice(b)
	return out
}

// protocolText names the protocols that Services have.
var protocolText = map[uint32]string{6: "tcp", 17: "udp", 132: "sctp"}

func appendProtocol(b []byte, v string) ([]byte, bool) {
	n, ok := ProtocolNames[v]
	if !ok && v != "all" {
		if n, ok = ParseNumber(v); !ok || n > 255 {
			return b, false
		}
	}
	if n == 0 {
		return nil, true
	}
	if name := protocolText[n]; name != "" {
		return append(b, name...), true
	}
	return strconv.AppendUint(b, uint64(n), 10), true
}

// appendMatches writes the matches, those between two that do something in
// alphabetical order.
func (c *Canonicalizer) appendMatches(b []byte) ([]byte, bool) {
	c.text, c.spans = c.text[:0], c.spans[:0]
	for i := range c.terms {
		u := &c.terms[i]
		if u.protocol && u.idle() {
			continue // -p says it
		}
		from := len(c.text)
		c.text = append(append(c.text, " -m "...), u.Name...)
		var ok bool
		if c.text, ok = u.appendOptions(c.text, c); !ok {
			return b, false
		}
		c.spans = append(c.spans, extent{from, len(c.text), !u.acts})
	}
	if len(c.spans) > 1 {
		c.sortSpans()
	}
	for _, s := range c.spans {
		b = append(b, c.text[s.from:s.to]...)
	}
	return b, true
}

func (c *Canonicalizer) sortSpans() {
	for i := 0; i < len(c.spans); {
		j := i
		for j < len(c.spans) && c.spans[j].pure {
			j++
		}
		slices.SortFunc(c.spans[i:j], func(x, y extent) int {
			return bytes.Compare(c.text[x.from:x.to], c.text[y.from:y.to])
		})
		i = j + 1
	}
}

// idle says that no option was given.
func (u *usedTerm) idle() bool {
	for i := range u.Options {
		if u.args[i].given {
			return false
		}
	}
	return true
}

func (u *usedTerm) appendOptions(b []byte, c *Canonicalizer) ([]byte, bool) {
	for i := range u.Options {
		a, o := &u.args[i], &u.Options[i]
		if !a.given || o.standard != nil && !a.not && o.standard(a.value) {
			continue
		}
		b = append(append(appendNot(b, a.not), ' '), o.said()...)
		if o.write == nil {
			continue
		}
		var ok bool
		if b, ok = o.write(append(b, ' '), a.value); !ok {
			return b, false
		}
	}
	return b, true
}
