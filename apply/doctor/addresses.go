package doctor

import (
	"fmt"
	"net/netip"
	"slices"

	spec "svcc/emit/ipvs"
	"svcc/ir"
)

// addresses looks at who bears service addresses.
func addresses(x *examination) []Finding { return []Finding{x.borne(), x.elsewhere()} }

// borne looks at the device that is svcc's in IPVS mode.
func (x *examination) borne() Finding {
	const id = "addresses.link"
	there, have, err := x.Kernel.Link()
	switch {
	case err != nil:
		return Finding{ID: id, State: Fail, Text: oneLine(err.Error()), Todo: "ip link delete " + spec.Link + ", or give it another name"}
	case !there:
		return ok(id, "there is no "+spec.Link+"; svcc apply makes it")
	case !x.served():
		return Finding{ID: id, State: Warn, Text: fmt.Sprintf("%s is there with %d addresses, and svcc has no record of it: another program left it, as kube-proxy", spec.Link, len(have)),
			Todo: "stop what made it; then svcc apply --take-over makes it svcc's, and svcc remove takes it away"}
	}
	strange := slices.DeleteFunc(have, func(a netip.Addr) bool { return a.IsLinkLocalUnicast() || x.bearing()[a] })
	if len(strange) > 0 {
		return Finding{ID: id, State: Warn, Text: fmt.Sprintf("%s bears addresses that the ruleset in force has not: %s", spec.Link, some(texts(strange))),
			Todo: "svcc apply takes them away; find out who adds them (ip monitor address)"}
	}
	return ok(id, fmt.Sprintf("%s bears %d addresses, all by the ruleset in force", spec.Link, len(have)))
}

// bearing are the addresses that the ruleset in force has the node bear. What
// cannot be read of it is for the check of the state directory to tell.
func (x *examination) bearing() map[netip.Addr]bool {
	out := map[netip.Addr]bool{}
	for _, f := range ir.Families {
		s, err := spec.ReadState(f, x.sections(f))
		if err != nil {
			continue
		}
		for _, a := range s.Addresses {
			out[a] = true
		}
	}
	return out
}

func texts(list []netip.Addr) []string {
	out := make([]string, len(list))
	for i, a := range list {
		out[i] = a.String()
	}
	return out
}

// elsewhere looks for service addresses on other interfaces. The rules are made
// for an address that is svcc's to bear, or for one that an interface bears.
func (x *examination) elsewhere() Finding {
	const id = "addresses.elsewhere"
	links, err := x.Interfaces()
	if err != nil {
		return Finding{ID: id, State: Unknown, Text: "the node's addresses cannot be read: " + oneLine(err.Error()), Todo: "run as root"}
	}
	at := map[netip.Addr]string{}
	for _, l := range links {
		if l.Name != spec.Link {
			for _, a := range l.Addrs {
				at[a] = l.Name
			}
		}
	}
	var both, nowhere []string
	for _, p := range x.Programs {
		for _, a := range frontends(p) {
			link, there := at[a]
			switch bears := !slices.Contains(p.Options.Own(), a); {
			case bears && there:
				both = append(both, fmt.Sprintf("%s (%s)", a, link))
			case !bears && !there:
				nowhere = append(nowhere, a.String())
			}
		}
	}
	switch {
	case len(nowhere) > 0:
		return Finding{ID: id, State: Fail, Text: "no interface bears these service addresses any more, and svcc leaves them to one: " + some(nowhere),
			Todo: "give them back to their interface, or compile again on this node (svcc apply with the manifests)"}
	case len(both) > 0:
		return Finding{ID: id, State: Warn, Text: "other interfaces bear these service addresses too: " + some(both),
			Todo: "take them off (ip address delete), or compile again on this node (svcc apply with the manifests), which leaves them to their interface"}
	}
	return ok(id, "no other interface bears a service address that is svcc's to bear")
}

// frontends are the addresses of a Program's services, each once, sorted.
func frontends(p *ir.Program) []netip.Addr {
	var out []netip.Addr
	for _, s := range p.Services {
		for _, f := range s.Frontends {
			if f.Kind != ir.NodePort {
				out = append(out, f.Addr)
			}
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}
