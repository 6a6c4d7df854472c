package main

import (
	"encoding/binary"
	"net/netip"
)

var be = binary.BigEndian

// The node's interface has a fixed hardware address, so that nobody asks for it.
var (
	nodeMAC   = [6]byte{2, 0, 0, 0, 0, 1}
	nobodyMAC = [6]byte{2, 0, 0, 0, 0, 99}
	userMAC   = [6]byte{2, 0, 0, 0, 0, 2}
)

const (
	ethSize   = 14
	frameSize = ethSize + 20 + 20
)

// frame is an Ethernet frame with a TCP SYN.
type frame [frameSize]byte

// newFrame gives a SYN to the hardware address whose addresses and ports are
// still to be set.
func newFrame(to [6]byte) (f frame) {
	copy(f[0:], to[:])
	copy(f[6:], userMAC[:])
	be.PutUint16(f[12:], 0x0800) // IPv4
	ip := f[ethSize:]
	ip[0] = 0x45
	be.PutUint16(ip[2:], 40)
	be.PutUint16(ip[6:], 0x4000) // do not fragment
	ip[8], ip[9] = 64, 6
	tcp := ip[20:]
	tcp[12], tcp[13] = 5<<4, 0x02 // SYN
	be.PutUint16(tcp[14:], 64240)
	return f
}

// connect makes the frame a new connection from src to dst, with the IP
// header's checksum. TCP's own is left out: the namespaces do not look at it.
func (f *frame) connect(src, dst netip.AddrPort) {
	ip := f[ethSize:]
	a, b := src.Addr().As4(), dst.Addr().As4()
	copy(ip[12:], a[:])
	copy(ip[16:], b[:])
	be.PutUint16(ip[20:], src.Port())
	be.PutUint16(ip[22:], dst.Port())
	be.PutUint16(ip[10:], 0)
	be.PutUint16(ip[10:], checksum(ip[:20]))
}

// checksum is the Internet checksum (RFC 1071).
func checksum(b []byte) uint16 {
	var sum uint32
	for ; len(b) > 1; b = b[2:] {
		sum += uint32(be.Uint16(b))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// user is the source of connection i: a different one for each of several
// hundred million.
func user(i uint32) netip.AddrPort {
	return netip.AddrPortFrom(plus(firstUser, i/60000%8000), uint16(2000+i%60000))
}
