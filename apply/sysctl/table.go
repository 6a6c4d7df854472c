package sysctl

import (
	"fmt"
	"slices"
	"strconv"
)

// RouteLocalnet lets node ports answer at 127.0.0.1 (kube-proxy sets it in
// iptables mode, with localhost node ports on).
const RouteLocalnet = "net/ipv4/conf/all/route_localnet"

// All that svcc sets. The kernel keeps an integer of each, in its network
// namespace (ip-sysctl.rst, ipvs-sysctl.rst).
var (
	localnet = Sysctl{Name: RouteLocalnet, Value: "1", Why: "node ports answer at 127.0.0.1"}

	virtualServers = []Sysctl{
		{Name: "net/ipv4/ip_forward", Value: "1", Why: "virtual servers forward to endpoints", Stays: true},
		{Name: "net/ipv4/vs/conntrack", Value: "1", Why: "iptables masquerades what virtual servers forward"},
		{Name: "net/ipv4/vs/expire_nodest_conn", Value: "1", Why: "connections to an endpoint that is gone end"},
		{Name: "net/ipv4/vs/expire_quiescent_template", Value: "1", Why: "clients do not stick to an endpoint that drains"},
	}
	connReuse = Sysctl{Name: "net/ipv4/vs/conn_reuse_mode", Value: "0", Why: "connections from a port that was used before are held up for a second"}
	strictARP = []Sysctl{
		{Name: "net/ipv4/conf/all/arp_ignore", Value: "1", Why: "ARP is answered for an address on its own interface only"},
		{Name: "net/ipv4/conf/all/arp_announce", Value: "2", Why: "service addresses are not told by ARP"},
	}

	table = slices.Concat([]Sysctl{localnet, connReuse}, virtualServers, strictARP)
)

// Check says whether settings that are to be put back are ones that Needed may
// give, with values as the kernel prints them. A file that says otherwise was
// not written by svcc.
func Check(was []Saved) error {
	for _, s := range was {
		n, err := strconv.ParseInt(s.Value, 10, 32)
		switch {
		case !slices.ContainsFunc(table, func(t Sysctl) bool { return t.Name == s.Name }):
			return fmt.Errorf("the setting %.80q, which svcc does not set", s.Name)
		case err != nil || strconv.FormatInt(n, 10) != s.Value:
			return fmt.Errorf("the value %.80q of the setting %s, which the kernel does not have", s.Value, s.Name)
		}
	}
	return nil
}
