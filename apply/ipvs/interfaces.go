package ipvs

import (
	"fmt"
	"net"
	"net/netip"
)

// Interface is one of the node's, and what it bears.
type Interface struct {
	Name  string
	Addrs []netip.Addr
}

// Interfaces are this network namespace's.
func Interfaces() ([]Interface, error) {
	links, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	var out []Interface
	for _, l := range links {
		addrs, err := l.Addrs()
		if err != nil {
			return nil, fmt.Errorf("addresses of %s: %w", l.Name, err)
		}
		i := Interface{Name: l.Name}
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil {
				i.Addrs = append(i.Addrs, p.Addr().Unmap())
			}
		}
		out = append(out, i)
	}
	return out, nil
}
