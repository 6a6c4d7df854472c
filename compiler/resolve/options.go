package resolve

import (
	"net/netip"

	"svcc/ir"
)

// Options are the choices and facts that do not come from Services, after
// flags and KubeProxyConfiguration were merged. The zero value of each field is
// kube-proxy's default, but for those with a function NewOptions fills in.
type Options struct {
	Families []ir.Family // nil: those in which some Service has a cluster IP

	Node    string       // the node's name; "" if none was given
	NodeIPs []netip.Addr // its addresses, if given by hand; they win
	Zone    *string      // its zone, if given by hand

	Detect       DetectMode
	Interface    string         // of DetectBridge and DetectInterfacePrefix
	ClusterCIDRs []netip.Prefix // of DetectClusterCIDR; the first of each family counts

	NodePortAddresses  []string // CIDRs and the words primary, localhost, all
	LocalhostNodePorts bool
	MasqueradeAll      bool
	MasqueradeBit      int // 0 to 31
	TCPBeLiberal       bool
	ExternalIPs        bool     // feature gate AllowServiceExternalIPs
	Virtual            *Virtual // nil but in IPVS mode
}

// NewOptions gives kube-proxy's defaults.
func NewOptions() Options {
	return Options{MasqueradeBit: 14, LocalhostNodePorts: true, ExternalIPs: true}
}

// DetectMode is KubeProxyConfiguration's detectLocalMode.
type DetectMode string

// The modes; the empty one means ClusterCIDR.
const (
	DetectClusterCIDR     DetectMode = "ClusterCIDR"
	DetectNodeCIDR        DetectMode = "NodeCIDR"
	DetectBridge          DetectMode = "BridgeInterface"
	DetectInterfacePrefix DetectMode = "InterfaceNamePrefix"
)
