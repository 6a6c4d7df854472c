package conntrack

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"svcc/ir"
)

// Kernel is the table of the calling thread's network namespace, by netlink. It
// needs CAP_NET_ADMIN there, and the kernel's nf_conntrack_netlink.
type Kernel struct{}

// Local implements Table: the routing table of local addresses, which is what
// the rules' "addrtype LOCAL" asks.
func (Kernel) Local(f ir.Family) ([]netip.Prefix, error) {
	want := &netlink.Route{Table: unix.RT_TABLE_LOCAL, Type: unix.RTN_LOCAL}
	routes, err := netlink.RouteListFiltered(int(netlinkFamily(f)), want, netlink.RT_FILTER_TABLE|netlink.RT_FILTER_TYPE)
	if err != nil {
		return nil, fmt.Errorf("local addresses: %w", err)
	}
	var out []netip.Prefix
	for _, r := range routes {
		if r.Dst == nil {
			continue
		}
		a, ok := netip.AddrFromSlice(r.Dst.IP)
		bits, _ := r.Dst.Mask.Size()
		if a = a.Unmap(); ok && f.Of(a) {
			out = append(out, netip.PrefixFrom(a, bits))
		}
	}
	return out, nil
}

// Each implements Table. Entries are decoded as they come, none is kept.
func (Kernel) Each(ctx context.Context, f ir.Family, see func(Entry)) error {
	req := nl.NewNetlinkRequest(nfctMessage(nl.IPCTNL_MSG_CT_GET), unix.NLM_F_DUMP)
	req.AddData(&nl.Nfgenmsg{NfgenFamily: netlinkFamily(f), Version: nl.NFNETLINK_V0})
	err := req.ExecuteIter(unix.NETLINK_NETFILTER, 0, func(message []byte) bool {
		if e, ok := decode(message); ok && e.Protocol == ir.UDP {
			see(e)
		}
		return ctx.Err() == nil
	})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, nl.ErrDumpInterrupted), errors.Is(err, unix.EINTR):
		return ErrInterrupted
	case errors.Is(err, unix.EINVAL): // nfnetlink's word for a subsystem that is not there
		return fmt.Errorf("the kernel lacks nf_conntrack_netlink: %w", err)
	}
	return err
}

// window is how many deletions travel together: one system call, and few enough
// that the kernel's answers fit any socket's buffer.
const window = 64

// Delete implements Table.
func (Kernel) Delete(ctx context.Context, f ir.Family, entries []Entry) (deleted int, err error) {
	s, err := nl.Subscribe(unix.NETLINK_NETFILTER)
	if err != nil {
		return 0, err
	}
	defer s.Close()
	if err := s.SetReceiveTimeout(&nl.SocketTimeoutTv); err != nil {
		return 0, err
	}
	for len(entries) > 0 {
		if err := ctx.Err(); err != nil {
			return deleted, err
		}
		batch := entries[:min(window, len(entries))]
		entries = entries[len(batch):]
		n, err := deleteBatch(s, f, batch)
		deleted += n
		if err != nil {
			return deleted, err
		}
	}
	return deleted, nil
}

func deleteBatch(s *nl.NetlinkSocket, f ir.Family, batch []Entry) (deleted int, err error) {
	var requests []byte
	for i, e := range batch {
		requests = append(requests, deletion(f, e, uint32(i+1))...)
	}
	to := &unix.SockaddrNetlink{Family: unix.AF_NETLINK}
	if err := again(func() error { return unix.Sendto(s.GetFd(), requests, 0, to) }); err != nil {
		return 0, err
	}
	var failed []error
	for answers := 0; answers < len(batch); {
		messages, err := receive(s)
		if err != nil {
			return deleted, err
		}
		for _, m := range messages {
			answers++
			switch err := answer(m); {
			case err == nil:
				deleted++
			case !errors.Is(err, unix.ENOENT):
				failed = append(failed, err)
			}
		}
	}
	return deleted, errors.Join(failed...)
}

// again repeats a system call that a signal cut short.
func again(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// receive gives the kernel's next answers.
func receive(s *nl.NetlinkSocket) (answers []syscall.NetlinkMessage, err error) {
	err = again(func() (err error) {
		answers, _, err = s.Receive()
		return err
	})
	return answers, err
}

// answer is the outcome of one request: a zero or an errno, negative.
func answer(m syscall.NetlinkMessage) error {
	if m.Header.Type != unix.NLMSG_ERROR || len(m.Data) < 4 {
		return fmt.Errorf("netlink message of type %d is no answer", m.Header.Type)
	}
	if code := int32(binary.NativeEndian.Uint32(m.Data)); code != 0 {
		return unix.Errno(-code)
	}
	return nil
}

// Available asks whether the kernel lets entries be looked up and deleted: it
// is nil, EPERM without CAP_NET_ADMIN, or says that nf_conntrack_netlink is
// missing. It asks for an entry that cannot be.
func Available() error {
	req := nl.NewNetlinkRequest(nfctMessage(nl.IPCTNL_MSG_CT_GET), unix.NLM_F_ACK)
	nobody := netip.AddrPortFrom(netip.IPv4Unspecified(), 0)
	addTuple(req, ir.IPv4, Entry{Protocol: ir.UDP, Src: nobody, Dst: nobody})
	_, err := req.Execute(unix.NETLINK_NETFILTER, 0)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil
	case errors.Is(err, unix.EINVAL):
		return fmt.Errorf("the kernel lacks nf_conntrack_netlink: %w", err)
	}
	return err
}
