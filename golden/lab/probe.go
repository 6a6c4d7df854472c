package lab

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"svcc/ir"
)

// Flow is one packet to be sent.
type Flow struct {
	Src, Dst netip.AddrPort // no two flows of a batch may have the same tuple
	Protocol ir.Protocol
	In       string // the interface by which it arrives; "" if the node sends it
	Mark     uint32 // its mark on arrival
	Invalid  bool   // conntrack shall find it invalid
	Forget   bool   // session affinity forgets all clients before it is sent
}

// Fate is what became of a packet.
type Fate uint8

// The fates.
const (
	Lost        Fate = iota // seen nowhere: dropped
	Sent                    // left the node
	Delivered               // the node kept it
	Rejected                // refused with ICMP port unreachable
	Unreachable             // refused with another ICMP error, or had no route
)

func (f Fate) String() string {
	return [...]string{"lost", "sent", "delivered", "rejected", "unreachable"}[f]
}

// Seen is where a packet was seen.
type Seen struct {
	Fate       Fate
	To         netip.AddrPort // its destination when Sent or Delivered
	From       netip.AddrPort // its source then
	Via        string         // the interface by which it was Sent
	Masquerade bool           // From is the node's masquerade address
}

// String gives "sent to 10.0.0.1:80 masquerade", "lost", ...
func (s Seen) String() string {
	if s.Fate != Sent && s.Fate != Delivered {
		return s.Fate.String()
	}
	masq := ""
	if s.Masquerade {
		masq = " masquerade"
	}
	return fmt.Sprintf("%s to %s%s", s.Fate, s.To, masq)
}

// Probe sends a packet for each flow, in order, and says where each was seen.
// It makes conntrack forget all earlier connections first. Nothing makes IPVS
// forget, so with virtual servers no two Probes of a Lab may have the same
// tuple, and each client of a persistent one needs an address of its own.
// An error means that no statement is possible: a flow that cannot be sent, a
// packet that was seen twice or came out damaged.
func (l *Lab) Probe(flows []Flow) (seen []Seen, err error) {
	err = l.do(func() error {
		seen, err = l.probe(flows)
		return err
	})
	return seen, err
}

// collectEvery is after how many packets what was seen is read: a device's
// queue holds 500.
const collectEvery = 32

// batch is a Probe under way.
type batch struct {
	*Lab
	flows []Flow
	first uint32 // number of the first flow's packet
	seen  []Seen
	known map[uint32]bool // numbers of sentinels that came back
}

func (l *Lab) probe(flows []Flow) ([]Seen, error) {
	b := &batch{Lab: l, flows: flows, first: l.last + 1, seen: make([]Seen, len(flows)), known: map[uint32]bool{}}
	l.last += uint32(len(flows))
	if err := l.nl.ConntrackTableFlush(netlink.ConntrackTable); err != nil {
		return nil, fmt.Errorf("flushing conntrack: %w", err)
	}
	classes, err := l.setMarks(flows)
	if err != nil {
		return nil, err
	}
	lists, err := filepath.Glob("/proc/thread-self/net/xt_recent/*")
	if err != nil {
		return nil, err
	}
	for i, f := range flows {
		if f.Forget {
			if err := forget(lists); err != nil {
				return nil, err
			}
		}
		if err := l.send(f, b.first+uint32(i), classes[f.Mark]); err != nil {
			return nil, fmt.Errorf("%v: %w", f, err)
		}
		if i%collectEvery == 0 {
			if err := b.collect(); err != nil {
				return nil, err
			}
		}
	}
	return b.seen, b.finish()
}

// setMarks gives each mark of a batch a traffic class for which a rule sets it,
// before anything else sees the packet. The table raw is the laboratory's own.
func (l *Lab) setMarks(flows []Flow) (map[uint32]uint8, error) {
	classes := map[uint32]uint8{}
	var rules strings.Builder
	for _, f := range flows {
		if f.Mark == 0 || classes[f.Mark] != 0 {
			continue
		}
		class := uint8(len(classes) + 1)
		classes[f.Mark] = class
		for _, chain := range []string{"PREROUTING", "OUTPUT"} {
			fmt.Fprintf(&rules, "-A %s -m mark --mark 0 -m dscp --dscp %d -j MARK --set-mark %#x\n", chain, class, f.Mark)
		}
	}
	if len(classes) == 0 {
		return nil, nil // no packet has a class, so older rules do not matter
	}
	if len(classes) > 63 {
		return nil, errors.New("more than 63 marks in a batch")
	}
	text := "*raw\n" + rules.String() + "COMMIT\n"
	return classes, errors.Join(l.run(text, Legacy.restore(ir.IPv4)), l.run(text, Legacy.restore(ir.IPv6)))
}

// forget empties xt_recent's lists.
func forget(lists []string) error {
	for _, list := range lists {
		if err := os.WriteFile(list, []byte("/"), 0); err != nil {
			return err
		}
	}
	return nil
}

// send sends one packet. A packet that a rule refuses on its way out is no
// error.
func (l *Lab) send(f Flow, id uint32, class uint8) error {
	packet := craft(f, id, class)
	if f.In != "" {
		fd, ok := l.tuns[f.In]
		if !ok {
			return fmt.Errorf("there is no interface %q", f.In)
		}
		_, err := unix.Write(fd, packet)
		return err
	}
	var to unix.Sockaddr = &unix.SockaddrInet6{Addr: f.Dst.Addr().As16()}
	family := ir.IPv6
	if f.Dst.Addr().Is4() {
		to, family = &unix.SockaddrInet4{Addr: f.Dst.Addr().As4()}, ir.IPv4
	}
	if err := unix.Sendto(l.raw[family], packet, 0, to); err != unix.EPERM {
		return err
	}
	return nil
}

// collect reads whatever was seen so far.
func (b *batch) collect() error {
	var buf [65536]byte
	for name, fd := range b.tuns {
		for {
			n, err := unix.Read(fd, buf[:])
			if err == unix.EAGAIN {
				break
			}
			if err != nil {
				return fmt.Errorf("interface %s: %w", name, err)
			}
			if err := b.note(buf[:n], name); err != nil {
				return err
			}
		}
	}
	for _, e := range b.ears {
		for {
			packet, err := e.read(buf[:])
			if err == unix.EAGAIN {
				break
			}
			if err != nil {
				return fmt.Errorf("raw socket: %w", err)
			}
			if err := b.note(packet, ""); err != nil {
				return err
			}
		}
	}
	return nil
}

// note writes down a packet that left by an interface or, without one, was
// kept by the node.
func (b *batch) note(packet []byte, via string) error {
	s, ok := parse(packet)
	i := s.id - b.first // wraps around for older packets
	switch {
	case !ok:
		return nil
	case i >= uint32(len(b.flows)):
		b.known[s.id] = true
		return nil
	case !s.refusal && !s.intact && !b.flows[i].Invalid:
		return fmt.Errorf("%v came out with a wrong checksum", b.flows[i])
	}
	now, before := seenAs(s, via), b.seen[i]
	switch {
	case before == Seen{}, now.Fate == Delivered && before.refused():
		b.seen[i] = now
	case before.Fate == Delivered && now.refused():
		// No socket answers, so the node itself refuses what it kept.
	default:
		return fmt.Errorf("%v was seen twice: %v, then %+v by %q", b.flows[i], before, s, via)
	}
	return nil
}

func (s Seen) refused() bool { return s.Fate == Rejected || s.Fate == Unreachable }

func seenAs(s sighting, via string) Seen {
	switch {
	case s.refusal && s.port:
		return Seen{Fate: Rejected}
	case s.refusal:
		return Seen{Fate: Unreachable}
	}
	fate := Delivered
	if via != "" {
		fate = Sent
	}
	masq := s.src.Addr() == masqueraded[ir.FamilyOf(s.src.Addr())]
	return Seen{Fate: fate, To: s.dst, From: s.src, Via: via, Masquerade: masq}
}

// finish waits until nothing of the batch is under way any more: a packet of
// the node to itself crosses the loopback device once, the ICMP error about it
// once more, and a sentinel never overtakes.
func (b *batch) finish() error {
	lo := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), 0)
	for range 3 {
		b.last++
		id := b.last
		if err := b.send(Flow{Src: lo, Dst: lo, Protocol: sentinelProtocol}, id, 0); err != nil {
			return fmt.Errorf("sentinel: %w", err)
		}
		for deadline := time.Now().Add(10 * time.Second); !b.known[id]; {
			if time.Now().After(deadline) {
				return errors.New("the sentinel was lost on the loopback device")
			}
			poll := []unix.PollFd{{Fd: int32(b.ears[0].fd), Events: unix.POLLIN}}
			if _, err := unix.Poll(poll, 100); err != nil && err != unix.EINTR {
				return err
			}
			if err := b.collect(); err != nil {
				return err
			}
		}
	}
	return nil
}
