package rule

import (
	"strconv"
	"strings"

	"svcc/emit/walk"
)

// protocolNames are those that dumps and hand-written rules use.
var ProtocolNames = map[string]uint32{
	"tcp": 6, "udp": 17, "sctp": 132, "icmp": 1, "icmpv6": 58, "ipv6-icmp": 58, "igmp": 2, "ipencap": 4,
	"gre": 47, "esp": 50, "ah": 51, "vrrp": 112, "udplite": 136, "dccp": 33, "ospf": 89, "pim": 103,
}

// ParseNumber reads an unsigned number as strtoul does: 0x is hexadecimal and a
// leading 0 octal.
func ParseNumber(s string) (uint32, bool) {
	base := 10
	if len(s) > 2 && (s[:2] == "0x" || s[:2] == "0X") {
		base, s = 16, s[2:]
	} else if len(s) > 1 && s[0] == '0' {
		base, s = 8, s[1:]
	}
	n, err := strconv.ParseUint(s, base, 32)
	return uint32(n), err == nil
}

// ParseMasked reads "VALUE[/MASK]".
func ParseMasked(s string) (value, mask uint32, ok bool) {
	v, m, has := strings.Cut(s, "/")
	if value, ok = ParseNumber(v); !ok {
		return 0, 0, false
	}
	if !has {
		return value, ^uint32(0), true
	}
	mask, ok = ParseNumber(m)
	return value, mask, ok
}

// ParsePorts reads "N", "N:M", ":M" or "N:". Port names have no model.
func ParsePorts(s string) (lo, hi uint16, ok bool) {
	a, b, isRange := strings.Cut(s, ":")
	if !isRange {
		b = a
	}
	if a == "" && isRange {
		a = "0"
	}
	if b == "" && isRange {
		b = "65535"
	}
	l, err1 := strconv.ParseUint(a, 10, 16)
	h, err2 := strconv.ParseUint(b, 10, 16)
	return uint16(l), uint16(h), err1 == nil && err2 == nil && l <= h
}

// stateNames are the words of --ctstate.
var StateNames = map[string]uint32{
	"INVALID": walk.StateInvalid, "NEW": walk.StateNew, "ESTABLISHED": walk.StateEstablished, "RELATED": walk.StateRelated,
	"UNTRACKED": walk.StateUntracked, "SNAT": walk.StateSNAT, "DNAT": walk.StateDNAT,
}

// IsCounters says whether a word is "[packets:bytes]".
func IsCounters(s string) bool {
	if len(s) < 5 || s[0] != '[' || s[len(s)-1] != ']' {
		return false
	}
	a, b, ok := strings.Cut(s[1:len(s)-1], ":")
	return ok && IsNumber(a) && IsNumber(b)
}

// IsNumber says whether a word has digits alone.
func IsNumber(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}
