package lab

import (
	"net/netip"

	"svcc/ir"
)

// sighting is a packet that was seen and concerns one of ours.
type sighting struct {
	id       uint32
	refusal  bool // an ICMP error about it rather than the packet itself
	port     bool // the error is "port unreachable"
	src, dst netip.AddrPort
	intact   bool // its checksum is right
}

// ipHeader is what of an IP header matters here.
type ipHeader struct {
	src, dst netip.Addr
	protocol byte
	body     []byte
}

// parse reads an IP packet; ok is false if it is none of ours.
func parse(b []byte) (s sighting, ok bool) {
	h, ok := parseIP(b)
	if !ok {
		return s, false
	}
	inner, port, isError := icmpError(h)
	if !isError {
		s, ok = parseBody(h)
		s.intact = ok && intact(h.src, h.dst, ir.Protocol(h.protocol), h.body)
		return s, ok
	}
	if h, ok = parseIP(inner); !ok {
		return s, false
	}
	s, ok = parseBody(h)
	s.refusal, s.port = true, port
	return s, ok
}

// parseIP splits a packet without options or extension headers.
func parseIP(b []byte) (h ipHeader, ok bool) {
	switch {
	case len(b) >= 20 && b[0] == 0x45:
		h.src, _ = netip.AddrFromSlice(b[12:16])
		h.dst, _ = netip.AddrFromSlice(b[16:20])
		h.protocol, h.body = b[9], b[20:]
	case len(b) >= 40 && b[0]>>4 == 6:
		h.src, _ = netip.AddrFromSlice(b[8:24])
		h.dst, _ = netip.AddrFromSlice(b[24:40])
		h.protocol, h.body = b[6], b[40:]
	default:
		return h, false
	}
	return h, len(h.body) >= 8
}

// icmpError gives the packet that an ICMP "destination unreachable" quotes and
// whether it was the port that could not be reached.
func icmpError(h ipHeader) (quoted []byte, port, ok bool) {
	kind, code := h.body[0], h.body[1]
	switch {
	case h.protocol == 1 && kind == 3:
		return h.body[8:], code == 3, true
	case h.protocol == 58 && kind == 1:
		return h.body[8:], code == 4, true
	}
	return nil, false, false
}

// parseBody finds ports and the number; a quoted body may be cut short.
func parseBody(h ipHeader) (s sighting, ok bool) {
	at := map[ir.Protocol]int{ir.TCP: 4, ir.UDP: 8, ir.SCTP: 16, sentinelProtocol: 4}[ir.Protocol(h.protocol)]
	if at == 0 || len(h.body) < at+4 {
		return s, false
	}
	s.id = be.Uint32(h.body[at:])
	s.src = netip.AddrPortFrom(h.src, be.Uint16(h.body))
	s.dst = netip.AddrPortFrom(h.dst, be.Uint16(h.body[2:]))
	return s, true
}
