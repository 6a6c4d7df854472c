package iptables

import (
	"crypto/sha256"
	"encoding/base32"

	"svcc/ir"
)

// The fixed chains of kube-proxy's iptables mode. Those with exported names are
// in its IPVS mode too; see package emit/ipvs.
const (
	ChainServices         = "KUBE-SERVICES"
	chainExternalServices = "KUBE-EXTERNAL-SERVICES"
	ChainForward          = "KUBE-FORWARD"
	chainNodePorts        = "KUBE-NODEPORTS"
	ChainProxyFirewall    = "KUBE-PROXY-FIREWALL"
	chainFirewall         = "KUBE-FIREWALL" // shared with kubelet
	ChainPostrouting      = "KUBE-POSTROUTING"
	ChainMarkMasq         = "KUBE-MARK-MASQ"
)

// The chains that only kube-proxy's IPVS mode has.
const (
	ChainNodePort     = "KUBE-NODE-PORT"
	ChainLoadBalancer = "KUBE-LOAD-BALANCER"
	ChainSourceRanges = "KUBE-SOURCE-RANGES-FIREWALL"
	ChainIPVSFilter   = "KUBE-IPVS-FILTER"
	ChainIPVSOut      = "KUBE-IPVS-OUT-FILTER"
)

// Prefixes of chains that only svcc's fast layouts have in nat. They begin as
// kube-proxy's do, so that a later kube-proxy cleans them up; having 11
// characters where kube-proxy has 16 of a hash keeps them apart.
const (
	natTreePrefix  = "KUBE-SVC-T"
	natPortsPrefix = "KUBE-SVC-N"
	natSplitPrefix = "KUBE-SVC-S"
)

// Chains of the filter table that only svcc's fast layouts have.
const (
	chainNew     = "KUBE-SVCC-NEW"     // new connections that are forwarded
	chainChosen  = "KUBE-SVCC-CHOSEN"  // new connections that nat has sent to an endpoint
	chainHairpin = "KUBE-SVCC-HAIRPIN" // see fast.hairpinChain
	filterTree   = "KUBE-SVCC-"        // begins the trees' names
)

// prefixes of the chains of one service port, by the part they stand for.
var prefixes = map[ir.Part]string{
	ir.PartExternal:     "KUBE-EXT-",
	ir.PartFirewall:     "KUBE-FW-",
	ir.PartClusterShare: "KUBE-SVC-",
	ir.PartLocalShare:   "KUBE-SVL-",
}

// endpointPrefix is of the chains of one endpoint of one service port.
const endpointPrefix = "KUBE-SEP-"

// GuardChain names svcc's own chain, in filter, that holds the node's packets to
// the source ranges of a virtual server, whose key it takes.
func GuardChain(key string) string { return filterTree + hash("guard "+key) }

// serviceHash is the tail of a service port's chain names: what is hashed is
// its name and protocol without a separator, as kube-proxy does.
func serviceHash(n ir.PortName) string { return hash(n.Display() + n.Protocol.String()) }

// endpointChain names the chain of an endpoint of a service port.
func endpointChain(n ir.PortName, e ir.Endpoint) string {
	return endpointPrefix + hash(n.Display()+n.Protocol.String()+e.String())
}

// hash is 16 characters of base32: with the longest prefix within the 28 that
// a chain's name may have.
func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return base32.StdEncoding.EncodeToString(sum[:])[:16]
}

// shortHash is 10 characters of it, for names that stand in the text often. Of
// 50,000 names two are the same once in a million clusters; the proof then
// refuses the text.
func shortHash(s string) string { return hash(s)[:10] }
