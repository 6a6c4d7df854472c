package compiler

import (
	"io"
	"net/netip"

	"svcc/emit/mode"
	"svcc/ir"
)

// Options say what to compile and how. Start from NewOptions.
type Options struct {
	Paths     []string // files, directories, "-"
	Stdin     io.Reader
	Endpoints bool   // also read core/v1 Endpoints
	Config    string // a KubeProxyConfiguration file; "" for none

	Mode       *mode.Mode
	ModeGiven  bool // somebody chose the Mode; it is not the default
	Level      int
	Hooks      bool
	Families   []ir.Family // nil: those that occur
	SkipPasses []string
	NoProof    bool
	KeepGoing  bool // leave faulty Services out rather than give up
	Strict     bool // some warnings become errors

	// LocalAddrs are the addresses of the node's interfaces, where the node is
	// this machine; IPVS mode has node ports at each of them.
	LocalAddrs []netip.Addr

	// DefaultNode is the node unless a flag or a configuration names one.
	DefaultNode string

	ServiceCIDRs []netip.Prefix
	Flags        Flags
}

// Flags are choices that a KubeProxyConfiguration can make as well; what is set
// here wins. A nil pointer or slice means not set.
type Flags struct {
	Node               *string
	NodeIPs            []netip.Addr
	Zone               *string
	DetectLocalMode    *string
	DetectInterface    *string
	ClusterCIDR        *string // comma-separated
	NodePortAddresses  []string
	LocalhostNodePorts *bool
	MasqueradeAll      *bool
	MasqueradeBit      *int
	TCPBeLiberal       *bool
	Scheduler          *string // of IPVS mode
}

// NewOptions gives the defaults: iptables, level 1, hooks and proof.
func NewOptions() Options {
	return Options{Mode: mode.Default, Level: 1, Hooks: true}
}
