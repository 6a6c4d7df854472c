package cli

import (
	"fmt"
	"net"
	"net/netip"

	"svcc/compiler"
	"svcc/emit/ipvs"
)

// withInterfaces tells a compilation for this machine, in IPVS mode, which
// addresses its interfaces carry: each has node ports, and none is borne for a
// service's sake. The link that carries service addresses is not asked.
func withInterfaces(o *compiler.Options) error {
	if o.Mode != compiler.ModeIPVS {
		return nil
	}
	links, err := net.Interfaces()
	if err != nil {
		return fmt.Errorf("this machine's addresses cannot be read: %w", err)
	}
	for _, link := range links {
		if link.Name == ipvs.Link {
			continue
		}
		addrs, err := link.Addrs()
		if err != nil {
			return fmt.Errorf("addresses of %s cannot be read: %w", link.Name, err)
		}
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil {
				o.LocalAddrs = append(o.LocalAddrs, p.Addr().Unmap())
			}
		}
	}
	return nil
}
