package cli

import (
	"fmt"

	"svcc/apply/ipvs"
	"svcc/compiler"
	spec "svcc/emit/ipvs"
)

// withInterfaces tells a compilation for this machine, in IPVS mode, which
// addresses its interfaces carry: each has node ports, and none is borne for a
// service's sake. The link that carries service addresses is not asked.
func withInterfaces(o *compiler.Options) error {
	if !o.Mode.Facts.BindsAddresses {
		return nil
	}
	links, err := ipvs.Interfaces()
	if err != nil {
		return fmt.Errorf("this machine's addresses cannot be read: %w", err)
	}
	for _, link := range links {
		if link.Name != spec.Link {
			o.LocalAddrs = append(o.LocalAddrs, link.Addrs...)
		}
	}
	return nil
}
