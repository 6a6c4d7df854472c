package iptables

import (
	"crypto/sha256"
	"encoding/base32"

	"svcc/ir"
)

// The fixed chains of kube-proxy's iptables mode.
const (
	chainServices         = "KUBE-SERVICES"
	chainExternalServices = "KUBE-EXTERNAL-SERVICES"
	chainForward          = "KUBE-FORWARD"
	chainNodePorts        = "KUBE-NODEPORTS"
	chainProxyFirewall    = "KUBE-PROXY-FIREWALL"
	chainFirewall         = "KUBE-FIREWALL" // shared with kubelet
	chainPostrouting      = "KUBE-POSTROUTING"
	chainMarkMasq         = "KUBE-MARK-MASQ"
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
