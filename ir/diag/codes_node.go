package diag

// 4: the node and the options. 5: what a mode or a level cannot do.
const (
	NodeNeeded  Code = "SVCC4001"
	NodeUnknown Code = "SVCC4002"
	PodsUnknown Code = "SVCC4003"
	BadOption   Code = "SVCC4004"
	OtherMode   Code = "SVCC4005"
	NoLoopback  Code = "SVCC4006"
	FamilyEmpty Code = "SVCC4007"
)

var nodes = map[Code]Info{
	NodeNeeded:  {Error, "the node is not known", "Rules for some services depend on a fact of the node (its name, address, zone or pod ranges) that neither the manifests nor the flags tell. A traffic policy Local and node hints need the name, zone hints the zone, source ranges and nodePortAddresses \"primary\" the address, detectLocalMode NodeCIDR the pod ranges.", false},
	NodeUnknown: {Error, "no such node", "The manifests hold Node objects, but none of the name given. With a misspelt name every endpoint would seem to be on another node.", false},
	PodsUnknown: {Warning, "pods cannot be told from other clients", "Without a cluster CIDR (or another detectLocalMode) nothing says which packets come from pods. As kube-proxy does, svcc then leaves out the masquerading of ClusterIP connections from outside the cluster, and treats pods as outsiders under externalTrafficPolicy Local.", false},
	BadOption:   {Error, "an option that cannot be", "A value in a KubeProxyConfiguration or a flag is out of its range or contradicts another.", false},
	OtherMode:   {Warning, "a configuration for another mode", "The KubeProxyConfiguration is for a mode other than iptables, which is what svcc programs unless --mode says otherwise: kube-proxy would program this node in that mode.", false},
	FamilyEmpty: {Warning, "no service of a family", "--families asks for rules of a family in which no Service has a cluster IP. If that is so of every family asked for, the ruleset serves nothing; of one of two it is a note.", false},
	NoLoopback:  {Warning, "node ports do not answer at loopback in IPVS mode", "nodePortAddresses names loopback addresses, or --localhost-nodeports asks for node ports there. In IPVS mode virtual servers do not answer at loopback addresses, so node ports answer at the other addresses that are named, or nowhere if there are none.", false},
}
