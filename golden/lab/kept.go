package lab

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"svcc/ir"
)

// ear is a raw socket: it receives a copy of each packet of one protocol that
// the node keeps, after whatever its INPUT hook does (for IPVS does its work
// there, after every table of iptables).
type ear struct {
	fd       int
	family   ir.Family
	protocol byte
}

// openEars opens sockets for all protocols that a batch needs, in the calling
// thread's namespace; the first is the sentinels'.
func openEars() (ears []ear, err error) {
	add := func(f ir.Family, protocol int) {
		if err != nil {
			return
		}
		var e ear
		if e, err = openEar(f, protocol); err == nil {
			ears = append(ears, e)
		}
	}
	add(ir.IPv4, int(sentinelProtocol))
	for _, p := range []int{unix.IPPROTO_TCP, unix.IPPROTO_UDP, unix.IPPROTO_SCTP} {
		add(ir.IPv4, p)
		add(ir.IPv6, p)
	}
	add(ir.IPv4, unix.IPPROTO_ICMP)
	add(ir.IPv6, unix.IPPROTO_ICMPV6)
	return ears, err
}

func openEar(f ir.Family, protocol int) (e ear, err error) {
	domain := unix.AF_INET
	if f == ir.IPv6 {
		domain = unix.AF_INET6
	}
	fd, err := unix.Socket(domain, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return e, fmt.Errorf("raw %s socket, protocol %d: %w", f, protocol, err)
	}
	// A batch must fit: a socket says nothing of what it lost.
	err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 8<<20)
	if err == nil && f == ir.IPv6 {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1)
	}
	if err != nil {
		unix.Close(fd)
	}
	return ear{fd, f, byte(protocol)}, err
}

// read gives the next packet, with its IP header, in buf.
func (e ear) read(buf []byte) (packet []byte, err error) {
	if e.family == ir.IPv4 {
		n, err := unix.Read(e.fd, buf)
		return buf[:max(n, 0)], err
	}
	// An IPv6 socket gives the header's contents, but not the header.
	var control [128]byte
	n, got, _, from, err := unix.Recvmsg(e.fd, buf[header6Size:], control[:], 0)
	if err != nil {
		return nil, err
	}
	src, _ := from.(*unix.SockaddrInet6)
	dst, err := packetDestination(control[:got])
	if src == nil || err != nil {
		return nil, fmt.Errorf("a packet without addresses: %w", err)
	}
	f := Flow{Src: netip.AddrPortFrom(netip.AddrFrom16(src.Addr), 0), Dst: netip.AddrPortFrom(dst, 0), Protocol: ir.Protocol(e.protocol)}
	copy(buf, header6(f, n, 0))
	return buf[:header6Size+n], nil
}

// packetDestination reads struct in6_pktinfo (RFC 3542, 6.2) in a control message.
func packetDestination(control []byte) (dst netip.Addr, err error) {
	messages, err := unix.ParseSocketControlMessage(control)
	for _, m := range messages {
		if m.Header.Level == unix.IPPROTO_IPV6 && m.Header.Type == unix.IPV6_PKTINFO && len(m.Data) >= 16 {
			dst, _ = netip.AddrFromSlice(m.Data[:16])
		}
	}
	if err == nil && !dst.IsValid() {
		err = errors.New("no destination")
	}
	return dst, err
}
