package lab

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// Numbers of linux/netfilter/nfnetlink_log.h that golang.org/x/sys lacks.
const (
	logGroup       = 1
	msgPacket      = unix.NFNL_SUBSYS_ULOG << 8
	msgConfig      = msgPacket | 1
	cfgCommand     = 1 // NFULA_CFG_CMD
	cfgMode        = 2 // NFULA_CFG_MODE
	commandBind    = 1
	copyPacket     = 2
	attrPayload    = 9                       // NFULA_PAYLOAD
	packetHeader   = unix.SizeofNlMsghdr + 4 // with struct nfgenmsg
	snapshotLength = 256
)

// openLog opens a socket that receives what rules log to logGroup in the
// calling thread's namespace.
func openLog() (fd int, err error) {
	fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		return -1, fmt.Errorf("netfilter log socket: %w", err)
	}
	mode := binary.BigEndian.AppendUint32(nil, snapshotLength)
	for _, m := range [][]byte{
		logConfig(cfgCommand, []byte{commandBind}),
		logConfig(cfgMode, append(mode, copyPacket, 0)),
	} {
		if err := unix.Sendto(fd, m, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
			unix.Close(fd)
			return -1, fmt.Errorf("netfilter log: %w", err)
		}
	}
	// A batch must fit: the log says nothing of what it lost.
	return fd, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 8<<20)
}

// logConfig is a configuration message with one attribute.
func logConfig(attr uint16, value []byte) []byte {
	b := make([]byte, packetHeader+unix.SizeofNlAttr, 64)
	ne := binary.NativeEndian
	ne.PutUint16(b[4:], msgConfig)
	ne.PutUint16(b[6:], unix.NLM_F_REQUEST)
	be.PutUint16(b[18:], logGroup)
	ne.PutUint16(b[20:], uint16(unix.SizeofNlAttr+len(value)))
	ne.PutUint16(b[22:], attr)
	b = append(b, value...)
	b = append(b, make([]byte, -len(b)&3)...)
	ne.PutUint32(b, uint32(len(b)))
	return b
}

// logged gives the packets in what one read of the log socket returned.
func logged(b []byte) (packets [][]byte) {
	ne := binary.NativeEndian
	for len(b) >= packetHeader {
		size := int(ne.Uint32(b))
		if size < packetHeader || size > len(b) {
			return packets
		}
		if ne.Uint16(b[4:]) == msgPacket {
			packets = append(packets, payload(b[packetHeader:size]))
		}
		b = b[min(len(b), (size+3)&^3):]
	}
	return packets
}

// payload finds the packet among a message's attributes.
func payload(attrs []byte) []byte {
	ne := binary.NativeEndian
	for len(attrs) >= unix.SizeofNlAttr {
		size := int(ne.Uint16(attrs))
		if size < unix.SizeofNlAttr || size > len(attrs) {
			return nil
		}
		if ne.Uint16(attrs[2:])&^unix.NLA_F_NESTED == attrPayload {
			return attrs[unix.SizeofNlAttr:size]
		}
		attrs = attrs[min(len(attrs), (size+3)&^3):]
	}
	return nil
}
