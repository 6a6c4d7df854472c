package addr

import (
	"fmt"
	"net/netip"
	"strings"

	netutils "k8s.io/utils/net"
)

// Parse reads an address. Leading zeros in IPv4 are decimal, an IPv4-mapped
// IPv6 address is IPv4 (KEP-4858), zones and blanks are refused. Canonical
// tells whether the text already was what String prints.
func Parse(s string) (a netip.Addr, canonical bool, err error) {
	ip := netutils.ParseIPSloppy(s)
	if ip == nil {
		return netip.Addr{}, false, fmt.Errorf("%q is not an IP address", s)
	}
	a, _ = netip.AddrFromSlice(ip)
	a = a.Unmap()
	return a, a.String() == s, nil
}

// ParsePrefix reads a CIDR: as Parse, and blanks around it are trimmed and
// host bits are masked off.
func ParsePrefix(s string) (p netip.Prefix, canonical bool, err error) {
	ip, ipnet, err := netutils.ParseCIDRSloppy(strings.TrimSpace(s))
	if err != nil {
		return netip.Prefix{}, false, fmt.Errorf("%q is not a CIDR such as 192.0.2.0/24", s)
	}
	a, _ := netip.AddrFromSlice(ip)
	ones, size := ipnet.Mask.Size()
	if a.Is4In6() && size == 128 {
		ones -= 96
	}
	p, err = a.Unmap().Prefix(ones)
	if err != nil {
		return netip.Prefix{}, false, fmt.Errorf("%q is not a CIDR: %w", s, err)
	}
	return p, p.String() == s, nil
}
