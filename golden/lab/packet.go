package lab

import (
	"encoding/binary"
	"hash/crc32"
	"net/netip"

	"svcc/ir"
)

// sentinelProtocol is a protocol for experiments (RFC 3692), which no rule for
// a Service can match.
const sentinelProtocol ir.Protocol = 253

var be = binary.BigEndian

// craft builds the IP packet of a flow: a TCP SYN, a UDP datagram or an SCTP
// INIT with the number id in it; an invalid flow's packet is one of which
// conntrack makes nothing. dscp is the traffic class, by which marks are set.
func craft(f Flow, id uint32, dscp uint8) []byte {
	body := transport(f, id)
	var head []byte
	if f.Src.Addr().Is4() {
		head = header4(f, len(body), dscp)
	} else {
		head = header6(f, len(body), dscp)
	}
	seal(body, f)
	return append(head, body...)
}

func header4(f Flow, size int, dscp uint8) []byte {
	h := make([]byte, 20)
	h[0], h[1] = 0x45, dscp<<2
	be.PutUint16(h[2:], uint16(20+size))
	be.PutUint16(h[4:], 1)      // identification; 0 would be replaced
	be.PutUint16(h[6:], 0x4000) // do not fragment
	h[8], h[9] = 64, byte(f.Protocol)
	copy(h[12:], f.Src.Addr().AsSlice())
	copy(h[16:], f.Dst.Addr().AsSlice())
	be.PutUint16(h[10:], checksum(h, 0))
	return h
}

const header6Size = 40

func header6(f Flow, size int, dscp uint8) []byte {
	h := make([]byte, header6Size)
	be.PutUint32(h, 6<<28|uint32(dscp)<<22)
	be.PutUint16(h[4:], uint16(size))
	h[6], h[7] = byte(f.Protocol), 64
	copy(h[8:], f.Src.Addr().AsSlice())
	copy(h[24:], f.Dst.Addr().AsSlice())
	return h
}

// transport is the packet's body but for its checksum.
func transport(f Flow, id uint32) []byte {
	var b []byte
	switch f.Protocol {
	case ir.TCP:
		b = make([]byte, 20)
		be.PutUint32(b[4:], id)
		b[12], b[13] = 5<<4, 0x02 // SYN
		if f.Invalid {
			b[13] |= 0x01 // with FIN
		}
		be.PutUint16(b[14:], 64240)
	case ir.UDP:
		b = make([]byte, 12)
		be.PutUint16(b[4:], 12)
		if f.Invalid {
			be.PutUint16(b[4:], 4) // shorter than its own header
		}
		be.PutUint32(b[8:], id)
	case ir.SCTP:
		b = make([]byte, 32)
		if f.Invalid {
			b[7] = 1 // an INIT whose verification tag is not 0
		}
		b[12], b[15] = 1, 20 // INIT of 20 bytes
		be.PutUint32(b[16:], id)
		be.PutUint32(b[20:], 65535) // receiver window
		b[25], b[27], b[31] = 1, 1, 1
	case sentinelProtocol:
		b = make([]byte, 8)
		be.PutUint32(b[4:], id)
		return b
	}
	be.PutUint16(b, f.Src.Port())
	be.PutUint16(b[2:], f.Dst.Port())
	return b
}

// seal writes the transport's checksum.
func seal(b []byte, f Flow) {
	switch f.Protocol {
	case ir.TCP:
		be.PutUint16(b[16:], checksum(b, pseudo(f.Src.Addr(), f.Dst.Addr(), f.Protocol, len(b))))
	case ir.UDP:
		sum := checksum(b, pseudo(f.Src.Addr(), f.Dst.Addr(), f.Protocol, len(b)))
		if sum == 0 {
			sum = 0xffff // 0 would say that there is none (RFC 768)
		}
		be.PutUint16(b[6:], sum)
	case ir.SCTP:
		binary.LittleEndian.PutUint32(b[8:], sctpSum(b))
	}
}

// sctpSum is CRC32c with the checksum's own field as zero (RFC 9260, 6.8).
func sctpSum(b []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	sum := crc32.Update(0, table, b[:8])
	sum = crc32.Update(sum, table, []byte{0, 0, 0, 0})
	return crc32.Update(sum, table, b[12:])
}

// intact says whether a body's checksum is right.
func intact(src, dst netip.Addr, p ir.Protocol, b []byte) bool {
	if p == ir.SCTP {
		return binary.LittleEndian.Uint32(b[8:]) == sctpSum(b)
	}
	return checksum(b, pseudo(src, dst, p, len(b))) == 0
}

// pseudo is the sum over the header that TCP and UDP checksums include.
func pseudo(src, dst netip.Addr, p ir.Protocol, size int) uint32 {
	return sum16(src.AsSlice(), 0) + sum16(dst.AsSlice(), 0) + uint32(p) + uint32(size)
}

func sum16(b []byte, sum uint32) uint32 {
	for ; len(b) >= 2; b = b[2:] {
		sum += uint32(be.Uint16(b))
	}
	if len(b) == 1 {
		sum += uint32(b[0]) << 8
	}
	return sum
}

// checksum is the Internet checksum (RFC 1071) over b, starting from sum.
func checksum(b []byte, sum uint32) uint16 {
	sum = sum16(b, sum)
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
