package sysctl

import (
	"fmt"
	"slices"

	"svcc/ir"
)

// virtual are the settings that virtual servers need, which are kube-proxy's in
// IPVS mode. Those below net/ipv4/vs are there, in each network namespace, once
// the module ip_vs is loaded.
func virtual(root string, v *ir.Virtual) []Sysctl {
	out := slices.Clone(virtualServers)
	if reuseStalls(root) {
		out = append(out, connReuse)
	}
	if v.StrictARP {
		out = append(out, strictARP...)
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
