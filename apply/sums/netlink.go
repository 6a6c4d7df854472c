package sums

import (
	"encoding/binary"
	"errors"
	"hash"

	"golang.org/x/sys/unix"
)

// nftSocket asks the kernel's nf_tables over netlink.
type nftSocket struct {
	fd  int
	seq uint32
	req []byte
	buf []byte
}

// bufferSize is that of a message of the kernel's at most; it makes room for as
// much as the reader has.
const bufferSize = 1 << 14

// patience is for an answer that never comes.
var patience = unix.Timeval{Sec: 60}

// openNFT finds nobody to answer rather than have the kernel load the module.
func openNFT() (*nftSocket, error) {
	if Idle("/", "nf_tables") {
		return nil, unix.EPROTONOSUPPORT
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, err
	}
	n := &nftSocket{fd: fd, buf: make([]byte, bufferSize)}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		n.close()
		return nil, err
	}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &patience); err != nil {
		n.close()
		return nil, err
	}
	return n, nil
}

func (n *nftSocket) close() { unix.Close(n.fd) }

const messageHead = unix.SizeofNlMsghdr + 4 // with struct nfgenmsg behind it

// ask sends one request and hands over what follows the heads of its answers.
// All but the question of the generation are answered by a dump, of one chain of
// a table if they are named.
func (n *nftSocket) ask(kind uint16, family uint8, table, chain string, see func([]byte) error) error {
	n.seq++
	flags := uint16(unix.NLM_F_REQUEST | unix.NLM_F_DUMP)
	if kind == unix.NFT_MSG_GETGEN {
		flags = unix.NLM_F_REQUEST | unix.NLM_F_ACK
	}
	req := append(n.req[:0], make([]byte, messageHead)...)
	req[unix.SizeofNlMsghdr] = family
	if table != "" {
		req = addText(addText(req, ruleTable, table), ruleChain, chain)
	}
	n.req = req
	binary.NativeEndian.PutUint32(req, uint32(len(req)))
	binary.NativeEndian.PutUint16(req[4:], unix.NFNL_SUBSYS_NFTABLES<<8|kind)
	binary.NativeEndian.PutUint16(req[6:], flags)
	binary.NativeEndian.PutUint32(req[8:], n.seq)
	if _, err := unix.Write(n.fd, req); err != nil {
		return err
	}
	return n.answers(see)
}

// addText adds an attribute: a text, its zero, and zeros up to a border of four.
func addText(b []byte, kind uint16, text string) []byte {
	b = binary.NativeEndian.AppendUint16(b, uint16(4+len(text)+1))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = append(b, text...)
	return append(b, make([]byte, 4-len(text)%4)...)
}

func (n *nftSocket) answers(see func([]byte) error) error {
	for {
		size, err := unix.Read(n.fd, n.buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		if done, err := n.messages(n.buf[:size], see); done || err != nil {
			return err
		}
	}
}

// messages goes through what came at once, and says whether it was the last.
func (n *nftSocket) messages(b []byte, see func([]byte) error) (done bool, err error) {
	for len(b) >= unix.SizeofNlMsghdr {
		size := int(binary.NativeEndian.Uint32(b))
		if size < unix.SizeofNlMsghdr || size > len(b) {
			return false, errors.New("a message that is cut off")
		}
		m := b[:size]
		b = b[min(len(b), (size+3)&^3):]
		if binary.NativeEndian.Uint32(m[8:]) != n.seq {
			continue
		}
		if binary.NativeEndian.Uint16(m[6:])&unix.NLM_F_DUMP_INTR != 0 {
			return false, ErrChanged
		}
		switch kind := binary.NativeEndian.Uint16(m[4:]); {
		case kind == unix.NLMSG_DONE || kind == unix.NLMSG_ERROR:
			return true, failure(m[unix.SizeofNlMsghdr:])
		case kind>>8 == unix.NFNL_SUBSYS_NFTABLES && size >= messageHead:
			if err := see(m[messageHead:]); err != nil {
				return false, err
			}
		}
	}
	return false, nil
}

// failure reads the number that ends an answer.
func failure(b []byte) error {
	if len(b) < 4 {
		return errors.New("a message that is cut off")
	}
	switch n := int32(binary.NativeEndian.Uint32(b)); {
	case n == 0:
		return nil
	case -n == int32(unix.EINTR):
		return ErrChanged
	default:
		return unix.Errno(-n)
	}
}

// eachAttribute hands over each attribute: its kind, all of it with its head,
// and its value.
func eachAttribute(b []byte, see func(kind uint16, whole, value []byte) error) error {
	const head, flags = 4, unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER
	for len(b) >= head {
		size := int(binary.NativeEndian.Uint16(b))
		if size < head || size > len(b) {
			return errors.New("an attribute that is cut off")
		}
		kind := binary.NativeEndian.Uint16(b[2:]) &^ flags
		if err := see(kind, b[:size], b[head:size]); err != nil {
			return err
		}
		b = b[min(len(b), (size+3)&^3):]
	}
	return nil
}

// field adds bytes to a sum so that they cannot run into those beside them.
func field(h hash.Hash, b []byte) {
	var size [4]byte
	binary.BigEndian.PutUint32(size[:], uint32(len(b)))
	h.Write(size[:])
	h.Write(b)
}
