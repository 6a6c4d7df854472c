package sums

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"svcc/ir"
)

// layout is where things stand in a legacy rule: struct ipt_entry and struct
// ip6t_entry of the kernel's linux/netfilter_ipv[46]/ip6?_tables.h, on machines
// of 64 bits.
type layout struct {
	domain, level int
	offsets       int // of target_offset, after which next_offset stands
	comefrom      int // 4 bytes of the kernel's own
	counters      int // 16 bytes
	size          int
}

var layouts = map[ir.Family]layout{
	ir.IPv4: {unix.AF_INET, unix.IPPROTO_IP, 88, 92, 96, 112},
	ir.IPv6: {unix.AF_INET6, unix.IPPROTO_IPV6, 140, 144, 152, 168},
}

// The socket options of both families, and what they hand over: struct
// ipt_getinfo and struct ipt_get_entries.
const (
	soGetInfo    = 64
	soGetEntries = 65

	tableName   = 32
	infoSize    = 84
	infoHooks   = 32 // bits: which hooks there are
	infoLast    = 56 // of five hooks, the place of the policy
	infoBytes   = 80
	entriesHead = 40
)

// hookNames are the built-in chains by the kernel's numbers of hooks.
var hookNames = []string{"PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"}

// legacyTable is a table as the kernel hands it over: rule after rule.
type legacyTable struct {
	layout
	info, rules []byte
}

func readLegacy(f ir.Family, table string) (*legacyTable, error) {
	l := layouts[f]
	if unsafe.Sizeof(uintptr(0)) != 8 {
		return nil, errors.New("not known how rules are laid out on this machine")
	}
	fd, err := unix.Socket(l.domain, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	for range 3 {
		out, err := l.read(fd, table)
		if !errors.Is(err, unix.EAGAIN) { // its size changed meanwhile
			return out, err
		}
	}
	return nil, ErrChanged
}

func (l layout) read(fd int, table string) (*legacyTable, error) {
	info := make([]byte, infoSize)
	copy(info[:tableName-1], table)
	if err := getOption(fd, l.level, soGetInfo, info); err != nil {
		return nil, fmt.Errorf("table %s: %w", table, err)
	}
	size, err := checked(binary.NativeEndian.Uint32(info[infoBytes:]), "a table")
	if err != nil {
		return nil, err
	}
	entries := make([]byte, entriesHead+size)
	copy(entries[:tableName-1], table)
	binary.NativeEndian.PutUint32(entries[tableName:], uint32(size))
	if err := getOption(fd, l.level, soGetEntries, entries); err != nil {
		return nil, fmt.Errorf("table %s: %w", table, err)
	}
	return &legacyTable{l, info, entries[entriesHead:]}, nil
}

// getOption is getsockopt(2) with a buffer that is read as well as written.
func getOption(fd, level, name int, buf []byte) error {
	size := uint32(len(buf))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), uintptr(level), uintptr(name),
		uintptr(unsafe.Pointer(&buf[0])), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// sum blanks what changes by itself, and sums up the rest: which hooks there
// are, where they begin and end, and all rules. Jumps are places in the table.
func (l *legacyTable) sum() (Sum, error) {
	blank := bytes.Clone(l.rules)
	for at := 0; at < len(blank); {
		if at+l.size > len(blank) {
			return Sum{}, errors.New("a rule that is cut off")
		}
		clear(blank[at+l.comefrom : at+l.comefrom+4])
		clear(blank[at+l.counters : at+l.counters+16])
		next := int(binary.NativeEndian.Uint16(blank[at+l.offsets+2:]))
		if next < l.size {
			return Sum{}, errors.New("a rule without a length")
		}
		at += next
	}
	return sha256.Sum256(append(blank, l.info...)), nil
}

// policies reads the last rule of each built-in chain: a standard target, whose
// verdict follows a head of 32 bytes.
func (l *legacyTable) policies() ([]Policy, error) {
	const targetHead = 32
	var out []Policy
	for i, name := range hookNames {
		if binary.NativeEndian.Uint32(l.info[infoHooks:])&(1<<i) == 0 {
			continue
		}
		at, err := checked(binary.NativeEndian.Uint32(l.info[infoLast+4*i:]), "a place")
		if err != nil || at+l.size > len(l.rules) {
			return nil, fmt.Errorf("%s ends nowhere", name)
		}
		rule := l.rules[at:]
		verdict := int(binary.NativeEndian.Uint16(rule[l.offsets:])) + targetHead
		if verdict+4 > len(rule) {
			return nil, fmt.Errorf("%s has no policy", name)
		}
		p := Policy{Chain: name, Verdict: "ACCEPT"}
		switch v := int32(binary.NativeEndian.Uint32(rule[verdict:])); v {
		case -1: // -NF_DROP - 1
			p.Verdict = "DROP"
		case -2: // -NF_ACCEPT - 1
		default:
			return nil, fmt.Errorf("%s has the policy %d", name, v)
		}
		p.Packets = binary.NativeEndian.Uint64(rule[l.counters:])
		p.Bytes = binary.NativeEndian.Uint64(rule[l.counters+8:])
		out = append(out, p)
	}
	return out, nil
}
