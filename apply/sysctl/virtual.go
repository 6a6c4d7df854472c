package sysctl

import (
	"fmt"

	"svcc/ir"
)

// virtual are the settings that virtual servers need, which are kube-proxy's in
// IPVS mode. Those below net/ipv4/vs are there, in each network namespace, once
// the module ip_vs is loaded.
func virtual(root string, v *ir.Virtual) []Sysctl {
	out := []Sysctl{
		{Name: "net/ipv4/ip_forward", Value: "1", Why: "virtual servers forward to endpoints", Stays: true},
		{Name: "net/ipv4/vs/conntrack", Value: "1", Why: "iptables masquerades what virtual servers forward"},
		{Name: "net/ipv4/vs/expire_nodest_conn", Value: "1", Why: "connections to an endpoint that is gone end"},
		{Name: "net/ipv4/vs/expire_quiescent_template", Value: "1", Why: "clients do not stick to an endpoint that drains"},
	}
	if reuseStalls(root) {
		out = append(out, Sysctl{Name: "net/ipv4/vs/conn_reuse_mode", Value: "0", Why: "connections from a port that was used before are held up for a second"})
	}
	if v.StrictARP {
		out = append(out,
			Sysctl{Name: "net/ipv4/conf/all/arp_ignore", Value: "1", Why: "ARP is answered for an address on its own interface only"},
			Sysctl{Name: "net/ipv4/conf/all/arp_announce", Value: "2", Why: "service addresses are not told by ARP"})
	}
	return out
}

// reuseStalls is about kernels 4.1 to 5.8: from 5.9 on, conn_reuse_mode does no
// harm (kubernetes#81775).
func reuseStalls(root string) bool {
	release, err := Get(root, "kernel/osrelease")
	var major, minor int
	if _, bad := fmt.Sscanf(release, "%d.%d", &major, &minor); err != nil || bad != nil {
		return false
	}
	return (major > 4 || major == 4 && minor >= 1) && (major < 5 || major == 5 && minor <= 8)
}
