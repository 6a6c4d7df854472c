package cli

import (
	"fmt"
	"io"
	"net/netip"
	"strconv"

	"svcc/emit/ipvs"
	"svcc/ir"
)

// virtual tells what a Service has beside rules in IPVS mode: virtual servers,
// addresses, and entries of the sets that rules ask.
func (x *explained) virtual(w io.Writer, part *ir.Program) error {
	state, err := ipvs.ReadState(x.Family, x.Sections)
	if err != nil {
		return err
	}
	keys, addrs := keysOf(part)
	var servers, addresses []string
	for _, v := range state.Servers {
		if keys[v.Key] {
			servers = append(servers, v.Lines(x.Family)...)
		}
	}
	for _, a := range state.Addresses {
		if addrs[a] {
			addresses = append(addresses, a.String())
		}
	}
	listed(w, fmt.Sprintf("servers %s", x.Family), servers)
	listed(w, fmt.Sprintf("addresses of %s %s", ipvs.Link, x.Family), addresses)
	listed(w, fmt.Sprintf("sets %s", x.Family), sets(state, part))
	return nil
}

func listed(w io.Writer, title string, lines []string) {
	fmt.Fprintln(w, title)
	if len(lines) == 0 {
		fmt.Fprintln(w, "  none")
	}
	for _, l := range lines {
		fmt.Fprintf(w, "  %s\n", l)
	}
}

// keysOf are the destinations of a Service's frontends, and the addresses that
// are its own.
func keysOf(part *ir.Program) (keys map[ipvs.Key]bool, addrs map[netip.Addr]bool) {
	keys, addrs = map[ipvs.Key]bool{}, map[netip.Addr]bool{}
	for _, s := range part.Services {
		for _, f := range s.Frontends {
			if f.Kind != ir.NodePort {
				addrs[f.Addr] = true
			}
			for _, a := range part.Options.VirtualAddrs(f) {
				keys[ipvs.Key{Protocol: s.Protocol, Address: netip.AddrPortFrom(a, f.Port)}] = true
			}
		}
	}
	return keys, addrs
}

// sets lists the entries about a Service. Those of endpoints may be of other
// Services as well.
func sets(state *ipvs.State, part *ir.Program) (out []string) {
	about := entriesOf(part)
	for _, set := range state.Sets {
		for _, e := range set.Entries {
			if about[set.Type+" "+ipvs.EntryKey(e)] {
				out = append(out, set.Name+" "+e)
			}
		}
	}
	return out
}

// entriesOf are what begins the entries about service ports, by the type of the
// set. A set of port numbers is of one protocol or of none, and the number of a
// node port is one Service's.
func entriesOf(part *ir.Program) map[string]bool {
	out := map[string]bool{}
	add := func(entry string, types ...string) {
		for _, t := range types {
			out[t+" "+entry] = true
		}
	}
	for _, s := range part.Services {
		addPair := func(a netip.AddrPort) {
			add(ipvs.Key{Protocol: s.Protocol, Address: a}.Entry(), ipvs.TypeIPPort, ipvs.TypeIPPortIP, ipvs.TypeIPPortNet)
		}
		for _, f := range s.Frontends {
			if f.Kind == ir.NodePort {
				add(strconv.Itoa(int(f.Port)), ipvs.TypePort)
			} else {
				add(f.Addr.String(), ipvs.TypeIP)
			}
			for _, a := range part.Options.VirtualAddrs(f) {
				addPair(netip.AddrPortFrom(a, f.Port))
			}
		}
		for _, e := range s.Reachable() {
			addPair(e.AddrPort())
		}
		if s.HealthCheckNodePort > 0 {
			add(strconv.Itoa(int(s.HealthCheckNodePort)), ipvs.TypePort)
		}
	}
	return out
}
