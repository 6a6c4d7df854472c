package cli

import (
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"

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
	keys, addrs := x.keys(part)
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

// keys are the destinations of a Service's frontends, and their addresses.
func (x *explained) keys(part *ir.Program) (map[ipvs.Key]bool, map[netip.Addr]bool) {
	keys, addrs := map[ipvs.Key]bool{}, map[netip.Addr]bool{}
	for _, s := range part.Services {
		for _, f := range s.Frontends {
			at := []netip.Addr{f.Addr}
			if f.Kind == ir.NodePort {
				at = part.Options.NodePorts.Addrs
			} else {
				addrs[f.Addr] = true
			}
			for _, a := range at {
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
			if about[set.Type+" "+firstTwo(e)] {
				out = append(out, set.Name+" "+e)
			}
		}
	}
	return out
}

// firstTwo is an entry's address and port.
func firstTwo(entry string) string {
	parts := strings.SplitN(entry, ",", 3)
	return strings.Join(parts[:min(2, len(parts))], ",")
}

// entriesOf are what begins the entries about service ports, by the type of the
// set. A set of port numbers is of one protocol or of none, and the number of a
// node port is one Service's.
func entriesOf(part *ir.Program) map[string]bool {
	out := map[string]bool{}
	add := func(kinds []string, entry string) {
		for _, k := range kinds {
			out[k+" "+entry] = true
		}
	}
	pairs := []string{"hash:ip,port", "hash:ip,port,ip", "hash:ip,port,net"}
	for _, s := range part.Services {
		port := func(n uint16) string { return s.Protocol.String() + ":" + strconv.Itoa(int(n)) }
		for _, f := range s.Frontends {
			if f.Kind == ir.NodePort {
				add([]string{"bitmap:port"}, strconv.Itoa(int(f.Port)))
				for _, a := range part.Options.NodePorts.Addrs {
					add(pairs, a.String()+","+port(f.Port))
				}
				continue
			}
			add(pairs, f.Addr.String()+","+port(f.Port))
			add([]string{"hash:ip"}, f.Addr.String())
		}
		for _, e := range slices.Concat(s.Cluster, s.Local) {
			add(pairs, e.Addr.String()+","+port(e.Port))
		}
		if s.HealthCheckNodePort > 0 {
			add([]string{"bitmap:port"}, strconv.Itoa(int(s.HealthCheckNodePort)))
		}
	}
	return out
}
