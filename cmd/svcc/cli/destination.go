package cli

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"svcc/ir"
	"svcc/ir/eval"
)

// destination is where a packet is to go: an address and port, or a service port.
type destination struct {
	at            netip.AddrPort
	service, port string // "ns/name"; a port's name or number, "" for a Service's only one
	proto         ir.Protocol
	anyProto      bool       // none was named
	client        netip.Addr // whose family it has to be, if valid
}

var named = regexp.MustCompile(`^([a-z0-9.-]+/[a-z0-9.-]+)(?::([a-z0-9-]+))?(?:/([A-Za-z]+))?$`)

// parseDestination reads IP:PORT[/PROTO] or NS/NAME[:PORT][/PROTO].
func parseDestination(s string) (d destination, err error) {
	m := named.FindStringSubmatch(s)
	dst, proto, found := strings.Cut(s, "/")
	if at, err := netip.ParseAddrPort(dst); err == nil {
		d.at = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	} else if m == nil {
		return d, fmt.Errorf("%q is neither IP:PORT, with /udp or /sctp if it is not tcp, nor NS/NAME:PORT", s)
	} else {
		d.service, d.port, proto, found = m[1], m[2], m[3], m[3] != ""
	}
	d.anyProto = !found
	if !found {
		proto = "tcp"
	}
	d.proto, err = ir.ParseProtocol(proto)
	return d, err
}

// resolve gives the address that a service port has in one of the Programs, of the
// first family that has it: the cluster IP, unless the port's number is that of
// another frontend alone.
func (d *destination) resolve(programs []*ir.Program) error {
	if d.service == "" {
		return nil
	}
	var ports []string
	ambiguous := false
	for _, p := range programs {
		if d.client.IsValid() && !p.Family.Of(d.client) {
			continue
		}
		found := d.among(p)
		if len(found) == 1 {
			d.at, d.proto = found[0].at, found[0].proto
			return nil
		}
		ambiguous = ambiguous || len(found) > 1
		for _, s := range p.Services {
			if s.Service() == d.service {
				ports = append(ports, fmt.Sprintf("%s/%s", s.PortName.Display(), s.Protocol))
			}
		}
	}
	if len(ports) == 0 {
		return fmt.Errorf("no rules are made for a Service %s%s", d.service, meant(d.service, programs))
	}
	slices.Sort(ports)
	list := strings.Join(slices.Compact(ports), ", ")
	if d.port != "" && !ambiguous {
		return fmt.Errorf("%s has no port %q of this kind; there are %s", d.service, d.port, list)
	}
	return fmt.Errorf("say which port of %s is meant: %s", d.service, list)
}

// among are the addresses that are meant, one a service port.
func (d *destination) among(p *ir.Program) (found []destination) {
	for _, s := range p.Services {
		if s.Service() != d.service || !d.anyProto && s.Protocol != d.proto {
			continue
		}
		for _, f := range s.Frontends {
			if d.port == "" || d.port == s.Port || d.port == strconv.Itoa(int(f.Port)) {
				found = append(found, destination{at: destinationOf(f, eval.NewClients(p)), proto: s.Protocol})
				break
			}
		}
	}
	return found
}
