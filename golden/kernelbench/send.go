package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	batch = 32 // packets of one system call
	// chunk is what one figure is taken of: so short that some chunks of a
	// sample pass without anything else on the CPU.
	chunk = 10 * batch
	// A sample ends after so long, if not after its packets; a few chunks it
	// always has.
	sampleTime = 80 * time.Millisecond
	leastChunk = 4
)

// mmsghdr is struct mmsghdr of sendmmsg(2).
type mmsghdr struct {
	unix.Msghdr
	sent uint32
	_    [4]byte
}

// sender sends batches of new connections.
type sender struct {
	frames   [batch]frame
	vectors  [batch]unix.Iovec
	messages [batch]mmsghdr
	next     uint32 // number of the next connection
	random   *rand.Rand
}

func newSender() *sender {
	s := &sender{random: rand.New(rand.NewPCG(1, 2))}
	for i := range s.frames {
		s.vectors[i].Base = &s.frames[i][0]
		s.vectors[i].SetLen(frameSize)
		s.messages[i].Iov = &s.vectors[i]
		s.messages[i].SetIovlen(1)
	}
	return s
}

// address makes the frames' destination this hardware address.
func (s *sender) address(mac [6]byte) {
	for i := range s.frames {
		s.frames[i] = newFrame(mac)
	}
}

// send sends one batch and gives the time in the kernel.
func (s *sender) send(socket int, t *target) (time.Duration, error) {
	for i := range s.frames {
		to := t.to[0]
		if len(t.to) > 1 {
			to = t.to[s.random.IntN(len(t.to))]
		}
		s.frames[i].connect(user(s.next), to)
		s.next++
	}
	start := time.Now()
	// Raw: the scheduler need not know; nothing else runs here.
	n, _, errno := unix.RawSyscall6(unix.SYS_SENDMMSG, uintptr(socket), uintptr(unsafe.Pointer(&s.messages[0])), batch, 0, 0, 0)
	took := time.Since(start)
	switch {
	case errno != 0:
		return 0, fmt.Errorf("sendmmsg: %w", errno)
	case n != batch:
		return 0, fmt.Errorf("sendmmsg sent %d of %d packets", n, batch)
	}
	return took, nil
}

// sample gives the nanoseconds of one packet: the lowest tenth of the chunks'
// means, after some packets that do not count.
func (s *sender) sample(socket int, t *target, packets int) (float64, error) {
	s.address(nodeMAC)
	if t.name == toNobody {
		s.address(nobodyMAC)
	}
	for range 2 * chunk / batch {
		if _, err := s.send(socket, t); err != nil {
			return 0, err
		}
	}
	var means []float64
	for start := time.Now(); len(means) < leastChunk || len(means) < packets/chunk && time.Since(start) < sampleTime; {
		var total time.Duration
		for range chunk / batch {
			took, err := s.send(socket, t)
			if err != nil {
				return 0, err
			}
			total += took
		}
		means = append(means, float64(total.Nanoseconds())/chunk)
	}
	slices.Sort(means)
	return means[len(means)/10], nil
}

// openSocket gives a socket that sends frames by an interface of the calling
// thread's namespace.
func openSocket(index int) (int, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("packet socket: %w", err)
	}
	err = unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: 0x0008, Ifindex: index}) // IPv4, in network order
	}
	if err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("packet socket: %w", err)
	}
	return fd, nil
}

// settle binds the calling thread to the last CPU it may use, and goes before
// most others there.
func settle() error {
	var may, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &may); err != nil {
		return err
	}
	for cpu := range len(may) * 64 {
		if may.IsSet(cpu) {
			one.Zero()
			one.Set(cpu)
		}
	}
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return err
	}
	if err := unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), -20); err != nil {
		fmt.Fprintln(os.Stderr, "kernelbench: priority:", err) // only noisier
	}
	return nil
}
