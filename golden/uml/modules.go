package uml

// modules are what tests may need of the kernel: all that rules for Services
// use and the laboratory.
var modules = []string{
	"ip_vs", "ip_vs_rr", "ip_vs_wrr", "ip_vs_lc", "ip_vs_wlc", "ip_vs_lblc", "ip_vs_lblcr", "ip_vs_dh",
	"ip_vs_sh", "ip_vs_sed", "ip_vs_nq", "ip_vs_mh", "ip_vs_ovf", "ip_vs_fo",
	"dummy", "veth", "tun", "bridge", "br_netfilter", "ipv6",
	"iptable_nat", "iptable_filter", "iptable_mangle", "iptable_raw",
	"ip6table_nat", "ip6table_filter", "ip6table_mangle", "ip6table_raw",
	"ip_set", "ip_set_hash_ip", "ip_set_hash_net", "ip_set_hash_ipport", "ip_set_hash_ipportip",
	"ip_set_hash_ipportnet", "ip_set_bitmap_port", "ip_set_list_set",
	"xt_set", "xt_comment", "xt_conntrack", "xt_statistic", "xt_MASQUERADE", "xt_REDIRECT", "xt_mark",
	"xt_nat", "xt_addrtype", "xt_recent", "xt_multiport", "xt_tcpudp", "xt_sctp", "xt_ipvs", "xt_physdev",
	"xt_dscp", "xt_CT", "xt_limit", "xt_u32", "ipt_REJECT", "ip6t_REJECT",
	"nf_conntrack", "nf_conntrack_netlink",
}
