package conntrack

import (
	"encoding/binary"
	"net/netip"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"svcc/ir"
)

// headerSize is that of a netlink attribute, and of struct nfgenmsg
// (linux/netlink.h, linux/netfilter/nfnetlink.h).
const headerSize = 4

// attribute takes the first attribute off a list; ok is false at its end, or if
// it is cut short.
func attribute(b []byte) (kind uint16, value, rest []byte, ok bool) {
	if len(b) < headerSize {
		return 0, nil, nil, false
	}
	size := int(binary.NativeEndian.Uint16(b))
	if size < headerSize || size > len(b) {
		return 0, nil, nil, false
	}
	kind = binary.NativeEndian.Uint16(b[2:]) & nl.NLA_TYPE_MASK
	return kind, b[headerSize:size], b[min(aligned(size), len(b)):], true
}

// aligned rounds up to the alignment of attributes.
func aligned(n int) int { return (n + 3) &^ 3 }

// decode reads one message of a listing; ok is false for what has no ports.
func decode(message []byte) (e Entry, ok bool) {
	if len(message) < headerSize {
		return e, false
	}
	var orig, reply bool
	for rest := message[headerSize:]; ; {
		kind, value, next, more := attribute(rest)
		if !more {
			return e, orig && reply
		}
		switch rest = next; {
		case kind == nl.CTA_TUPLE_ORIG:
			e.Src, e.Dst, e.Protocol, orig = decodeTuple(value)
		case kind == nl.CTA_TUPLE_REPLY:
			e.ReplySrc, e.ReplyDst, _, reply = decodeTuple(value)
		case kind == nl.CTA_ID && len(value) == 4:
			e.ID = binary.BigEndian.Uint32(value)
		case kind == nl.CTA_ZONE && len(value) == 2:
			e.Zone = binary.BigEndian.Uint16(value)
		}
	}
}

// decodeTuple reads one direction.
func decodeTuple(b []byte) (src, dst netip.AddrPort, proto ir.Protocol, ok bool) {
	var from, to netip.Addr
	var sport, dport uint16
	for {
		kind, value, rest, more := attribute(b)
		if !more {
			break
		}
		switch b = rest; kind {
		case nl.CTA_TUPLE_IP:
			from, to = decodeAddrs(value)
		case nl.CTA_TUPLE_PROTO:
			proto, sport, dport = decodePorts(value)
		}
	}
	return netip.AddrPortFrom(from, sport), netip.AddrPortFrom(to, dport), proto, from.IsValid() && to.IsValid()
}

func decodeAddrs(b []byte) (src, dst netip.Addr) {
	for {
		kind, value, rest, more := attribute(b)
		if !more {
			return src, dst
		}
		switch b = rest; kind {
		case nl.CTA_IP_V4_SRC, nl.CTA_IP_V6_SRC:
			src, _ = netip.AddrFromSlice(value)
		case nl.CTA_IP_V4_DST, nl.CTA_IP_V6_DST:
			dst, _ = netip.AddrFromSlice(value)
		}
	}
}

func decodePorts(b []byte) (proto ir.Protocol, src, dst uint16) {
	for {
		kind, value, rest, more := attribute(b)
		if !more {
			return proto, src, dst
		}
		switch b = rest; {
		case kind == nl.CTA_PROTO_NUM && len(value) == 1:
			proto = ir.Protocol(value[0])
		case kind == nl.CTA_PROTO_SRC_PORT && len(value) == 2:
			src = binary.BigEndian.Uint16(value)
		case kind == nl.CTA_PROTO_DST_PORT && len(value) == 2:
			dst = binary.BigEndian.Uint16(value)
		}
	}
}

// deletion is the request to delete one entry. The tuple finds it; the number,
// which the kernel makes from the entry and both its tuples, keeps the request
// from any other that has taken its place.
func deletion(f ir.Family, e Entry, seq uint32) []byte {
	req := nl.NewNetlinkRequest(nfctMessage(nl.IPCTNL_MSG_CT_DELETE), unix.NLM_F_ACK)
	req.Seq = seq
	addTuple(req, f, e)
	if e.Zone != 0 {
		req.AddData(nl.NewRtAttr(nl.CTA_ZONE, nl.BEUint16Attr(e.Zone)))
	}
	req.AddData(nl.NewRtAttr(nl.CTA_ID, nl.BEUint32Attr(e.ID)))
	return req.Serialize()
}

// addTuple makes a request one about an entry, by its first packet.
func addTuple(req *nl.NetlinkRequest, f ir.Family, e Entry) {
	req.AddData(&nl.Nfgenmsg{NfgenFamily: netlinkFamily(f), Version: nl.NFNETLINK_V0})
	tuple := nl.NewRtAttr(nl.CTA_TUPLE_ORIG|unix.NLA_F_NESTED, nil)
	tuple.AddChild(encodeAddrs(f, e))
	tuple.AddChild(encodePorts(e))
	req.AddData(tuple)
}

func encodeAddrs(f ir.Family, e Entry) *nl.RtAttr {
	src, dst := nl.CTA_IP_V4_SRC, nl.CTA_IP_V4_DST
	if f == ir.IPv6 {
		src, dst = nl.CTA_IP_V6_SRC, nl.CTA_IP_V6_DST
	}
	addrs := nl.NewRtAttr(nl.CTA_TUPLE_IP|unix.NLA_F_NESTED, nil)
	addrs.AddRtAttr(src, e.Src.Addr().AsSlice())
	addrs.AddRtAttr(dst, e.Dst.Addr().AsSlice())
	return addrs
}

func encodePorts(e Entry) *nl.RtAttr {
	ports := nl.NewRtAttr(nl.CTA_TUPLE_PROTO|unix.NLA_F_NESTED, nil)
	ports.AddRtAttr(nl.CTA_PROTO_NUM, nl.Uint8Attr(uint8(e.Protocol)))
	ports.AddRtAttr(nl.CTA_PROTO_SRC_PORT, nl.BEUint16Attr(e.Src.Port()))
	ports.AddRtAttr(nl.CTA_PROTO_DST_PORT, nl.BEUint16Attr(e.Dst.Port()))
	return ports
}

// nfctMessage is a message type of the subsystem of connection tracking.
func nfctMessage(kind int) int { return 1<<8 | kind }

func netlinkFamily(f ir.Family) uint8 {
	if f == ir.IPv6 {
		return unix.AF_INET6
	}
	return unix.AF_INET
}
