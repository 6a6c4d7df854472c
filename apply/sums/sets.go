package sums

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// The kernel's question for a set by its name: struct ip_set_req_get_set of
// linux/netfilter/ipset/ip_set.h, by the socket option that iptables asks for
// the sets that rules name. The answer takes the place of the name.
const (
	soSet        = 83
	setByName    = 6
	setsProtocol = 6 // the oldest that kernels still take
	setPlace     = 8 // behind the question's number and the protocol's
	setNameSize  = 32
	setNone      = 0xffff
)

// Sets gives the number that the kernel has for each set of these names. The
// kernel's own form of a rule that asks a set has this number alone: two rules
// of the same bytes mean the same only while it is the same set's.
func (Kernel) Sets(names []string) ([]uint16, error) {
	if len(names) == 0 {
		return nil, nil
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	out := make([]uint16, len(names))
	for i, name := range names {
		if out[i], err = setNumber(fd, name); err != nil {
			return nil, fmt.Errorf("set %.40q: %w", name, err)
		}
	}
	return out, nil
}

func setNumber(fd int, name string) (uint16, error) {
	if len(name) >= setNameSize {
		return 0, errors.New("its name is too long")
	}
	req := make([]byte, setPlace+setNameSize)
	binary.NativeEndian.PutUint32(req, setByName)
	binary.NativeEndian.PutUint32(req[4:], setsProtocol)
	copy(req[setPlace:], name)
	if err := getOption(fd, unix.SOL_IP, soSet, req); err != nil {
		return 0, err
	}
	n := binary.NativeEndian.Uint16(req[setPlace:])
	if n == setNone {
		return 0, errors.New("it is not there")
	}
	return n, nil
}
